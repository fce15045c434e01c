"""The classification head: Algorithm 1 of Reddi et al. (2019), from scores to row updates."""
