"""The sizes of an imaginary run, in round numbers."""

import dataclasses

from snm.planning.bytes_by_stage import RunSizes

MIB = 1 << 20


def run_sizes(**changes):
    sizes = RunSizes(
        tables=100 * MIB,
        optimizer=10 * MIB,
        dataset=3 * MIB,
        weighted_data=2 * MIB,
        libraries=300 * MIB,
        batch_stack=1 * MIB,
        init_temporaries=50 * MIB,
        step_temporaries=20 * MIB,
        scoring_temporaries=30 * MIB,
        device_data=0,
        background_checkpoints=True,
        validates=False,
        members=1,
    )
    return dataclasses.replace(sizes, **changes)
