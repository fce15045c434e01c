"""Benchmarks of answers: of the server, of few labels, of opening a model, of neighbours."""
