"""Data that no mesh can cut into equal parts, and settings to train on it."""

import dataclasses

import snm

# Neither the features nor the labels can be cut into 2, 4 or 8 equal parts.
DATA = snm.generate(points=320, test_points=160, features=301, labels=203, seed=1)
SMALL = dataclasses.replace(
    snm.preset("default"), epochs=2, dim=16, members=1, batch_size=32, mined=8, sampled=64,
    steps_per_dispatch=1, memory="off",
)  # fmt: skip
