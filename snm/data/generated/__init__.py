"""Data sets from random numbers: `synthetic` ones, and `enlarged` copies of real ones."""
