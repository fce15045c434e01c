"""Checkpoints: written on the side, verified when read. The only package that imports orbax."""
