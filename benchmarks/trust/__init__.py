"""Tests of robustness: damaged files, attacks on the server, and the cost of the checks."""
