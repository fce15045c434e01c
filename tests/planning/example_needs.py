"""The needs of an imaginary run, in round numbers."""

import dataclasses

from snm.planning.bytes_by_stage import Needs

MIB = 1 << 20


def needs(**changes):
    plain = Needs(
        tables=100 * MIB,
        optimiser=10 * MIB,
        read=3 * MIB,
        weighted=2 * MIB,
        programs=300 * MIB,
        stack=1 * MIB,
        start=50 * MIB,
        step=20 * MIB,
        scores=30 * MIB,
        resident=0,
        aside=True,
        watches=False,
        members=1,
    )
    return dataclasses.replace(plain, **changes)
