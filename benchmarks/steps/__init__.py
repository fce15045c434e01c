"""Benchmarks of the programs of a training step: their forms, and what compiling them takes."""
