"""Extreme classification in JAX with Stochastic Negative Mining."""
