"""Experiments from which the rules of the default preset were derived."""
