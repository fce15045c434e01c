"""Logs of interactions of users with items become data sets."""
