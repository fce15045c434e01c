"""Reading, caching, weighting and describing data sets."""
