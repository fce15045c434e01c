"""`snm data list` and `snm data fetch`: public data sets by name."""
