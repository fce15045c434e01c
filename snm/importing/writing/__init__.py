"""Writes the data folder of an import, and counts what looks odd in its points."""
