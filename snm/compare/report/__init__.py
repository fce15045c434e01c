"""The report of a comparison: summary, tables, plots, one HTML page."""
