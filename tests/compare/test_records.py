"""What a comparison reads back is what it wrote."""

import json

import numpy as np
import pytest

from snm.compare.plan import check_same_plan
from snm.compare.records import read_record, write_record
from snm.errors import InputError

FOUND = {"arm": "a", "metrics": {"P@1": np.float32(12.5), 3: [1, 2]}, "seconds": 1.25}
PLAIN = {"arm": "a", "metrics": {"P@1": 12.5, "3": [1, 2]}, "seconds": 1.25}


def test_every_flipped_bit_of_a_result_is_named_or_harmless(tmp_path):
    """A changed digit would stand in the tables as if it had been measured."""
    path = tmp_path / "x.json"
    write_record(path, FOUND)
    assert read_record(path) == PLAIN
    raw, named = path.read_bytes(), 0
    for bit in range(8 * len(raw)):
        flipped = bytearray(raw)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        try:
            found = read_record(path)
        except InputError as error:
            named += str(path) in str(error) and "\n" not in str(error)
        else:  # another white space
            assert found == PLAIN
    assert named > 0.8 * 8 * len(raw)


@pytest.mark.parametrize("content", [PLAIN, [1]])
def test_a_result_without_a_checksum_is_refused(tmp_path, content):
    (tmp_path / "x.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"x\.json: found a damaged or changed file"):
        read_record(tmp_path / "x.json")


@pytest.mark.parametrize(
    ("stored", "said"),
    [
        ({"memory": "on"}, r"memory = 'on', expected 'off': choose another folder"),
        ({"memory": "off", "gone": 1}, r"a comparison with gone = 1, expected None"),
    ],
)
def test_a_comparison_is_not_resumed_with_other_settings(tmp_path, stored, said):
    """Also those that another version wrote and this one lacks."""
    write_record(tmp_path / "plan.json", {"settings": {"dim": 8, **stored}})
    with pytest.raises(InputError, match=said):
        check_same_plan(tmp_path, {"sha256": None, "settings": {"dim": 8, "memory": "off"}})


def test_a_comparison_of_other_data_is_named(tmp_path):
    write_record(tmp_path / "plan.json", {"data": "/sets/wood", "sha256": "a", "settings": {}})
    with pytest.raises(InputError, match=r"of other data \(/sets/wood\), expected the same data"):
        check_same_plan(tmp_path, {"data": "/sets/iron", "sha256": "b", "settings": {}})


def test_a_comparison_that_was_stopped_at_its_plan_goes_on(tmp_path):
    (tmp_path / "plan.partial").write_text('{"da')
    check_same_plan(tmp_path, {})
    (tmp_path / "plan.txt").write_text("mine")
    with pytest.raises(InputError, match=r"plan\.txt in a folder that is no comparison"):
        check_same_plan(tmp_path, {})
