"""What each device holds of the tables."""

import dataclasses

import jax
import numpy as np
import pytest
from devices import mesh_here

from snm.bench.shapes import SHAPES, Shape, make_model
from snm.model.placement import init_state_on, jitted_init, table_bytes

ROW = 512 * 4  # of Amazon-670K: 135,909 features and 670,091 labels


@pytest.mark.parametrize(
    ("mesh", "features", "labels"),
    [("", 135_909, 670_091), ("label=4", 33_978, 167_523), ("data=4,label=2", 33_978, 335_046)],
)
def test_a_device_holds_its_part_of_each_table(mesh, features, labels):
    """The feature rows are split over the longer axis; the last part is padded."""
    model, devices = make_model(SHAPES["amazon670k"], 16), mesh_here(mesh, 670_091, 512)
    assert table_bytes(model, devices) == [features * ROW, labels * ROW]
    three = dataclasses.replace(model, members=3)
    assert table_bytes(three, devices) == [3 * features * ROW, 3 * labels * ROW]


@pytest.mark.parametrize("mesh", ["", "label=2,data=2"])
def test_a_start_without_rows_has_all_else_and_needs_no_room_for_them(mesh):
    """A warm start has the rows of another run."""
    model = make_model(Shape("small", 64, 3000, 4000, 9, 3.0, 16, 128, (4,), dim=64), 16)
    model = dataclasses.replace(
        model, spec=dataclasses.replace(model.spec, row_optimizer="adagrad", learn_scale=True)
    )
    devices = mesh_here(mesh, model.spec.num_labels, 128)
    whole, bare = (init_state_on(model, devices, rows=rows) for rows in (True, False))
    assert bare.features.rows is None and bare.head.table.rows is None
    for part in ("tower", "tower_state"):
        jax.tree.map(np.testing.assert_array_equal, getattr(whole, part), getattr(bare, part))
    for mine, other in ((whole.features, bare.features), (whole.head.table, bare.head.table)):
        np.testing.assert_array_equal(mine.accumulator, other.accumulator)
        assert mine.accumulator.sharding == other.accumulator.sharding
    assert float(bare.head.log_scale) == float(whole.head.log_scale)
    program = jitted_init(model, devices, False)
    used = program.lower(np.uint32(0)).compile().memory_analysis()
    room = used.temp_size_in_bytes + used.output_size_in_bytes
    assert room < min(whole.features.rows.nbytes, whole.head.table.rows.nbytes)
