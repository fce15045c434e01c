"""What each device holds of the tables."""

import dataclasses

import pytest

from snm.bench.shapes import SHAPES, model_of
from snm.distributed.mesh import make_mesh
from snm.model.placement import table_bytes

ROW = 512 * 4  # of Amazon-670K: 135,909 features and 670,091 labels


@pytest.mark.parametrize(
    ("mesh", "features", "labels"),
    [("", 135_909, 670_091), ("label=4", 33_978, 167_523), ("data=4,label=2", 33_978, 335_046)],
)
def test_a_device_holds_its_part_of_each_table(mesh, features, labels):
    """The feature rows are split over the longer axis; the last part is padded."""
    model, devices = model_of(SHAPES["amazon670k"], 16), make_mesh(mesh, 670_091, 512)
    assert table_bytes(model, devices) == [features * ROW, labels * ROW]
    three = dataclasses.replace(model, members=3)
    assert table_bytes(three, devices) == [3 * features * ROW, 3 * labels * ROW]
