"""`snm data import`: raw text, fastText, CSV, JSON lines and svmlight into a folder of data."""
