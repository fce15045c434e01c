"""Benchmarks of steps on many devices, and on accelerators that this machine lacks."""
