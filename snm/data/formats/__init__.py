"""File formats of data sets: read, written, and explained where a file is damaged."""
