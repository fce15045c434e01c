"""The verbs `snm data ...`: describe, generate, import, list and fetch data sets."""
