"""The report of a comparison as one HTML page.

Public names, by module:

- `page`: `page`: `report.html`, from the template `report.html.j2`.
- `plots`: `draw_lines`, `draw_bars`, `draw_score_quantiles`: the plots.
- `svg`: `draw_panel`, `plot_style`: the panels of the plots as inline SVG.
"""
