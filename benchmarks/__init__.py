"""Measurements of speed; nothing here is part of the library."""
