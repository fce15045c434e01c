"""The report of a comparison: summary, tables, plots, and one HTML page.

Public names, by module:

- `summary`: `interval`, `ratios`, `summarized`: means and intervals over seeds.
- `tables`: `sheets`, `markdown`: the tables, and `table.md`.
- `plots`: the plots as inline SVG.
- `published`: `published_for`: published figures of a data set.
- `page`: `page`, `verdict`: `report.html`, and its findings in sentences.
"""
