"""Benchmarks and a fuzzer, run by hand; the library does not import them."""
