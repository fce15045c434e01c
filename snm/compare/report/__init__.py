"""The report of a comparison: summary, tables, plots, and one HTML page.

Public names, by module:

- `summary`: `interval`, `summarize`: means and intervals over seeds.
- `cells`: `format_mean`, `format_seconds`, ...: numbers and settings as text.
- `tables`: `all_sheets`: the tables, each a `Sheet`.
- `markdown`: `markdown`: `table.md`.
- `flat`: `results_csv`: `results.csv`.
- `paired`: `best_arm`, `difference`: differences to the best arm, seed by seed.
- `parts`: `PARTS`: the parts of a comparison.
- `series`: `over_probes`, `over_seeds`: the numbers that plots show.
- `published`: `published_for`: published figures of a data set.
- `verdict`: `verdict`: the findings in sentences.
- `html`: `report.html`, and its plots.
"""
