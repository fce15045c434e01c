"""Which way `plan_step` takes, by loss and sizes. That all ways agree, test_head.py shows."""

import pytest
from devices import cpu_only

from snm.head import plan
from snm.head.plan import Mining, plan_step
from snm.head.spec import HeadSpec
from snm.losses.sampled import LossOptions

ALL = dict(exclude="all", positives="all")
POWER_LAW = LossOptions(vartheta="power-law")


def planned(n=4, slots=301, single_device=True, **options):
    spec = HeadSpec(**{"num_labels": 400, "sampled": 300, "mined": 40, **options})
    return plan_step(spec, n, slots, single_device=single_device)


@pytest.mark.parametrize(
    ("options", "mining"),
    [
        (dict(loss="softmax", **ALL), Mining.BY_THRESHOLD),
        (dict(loss="softmax", exclude="all"), Mining.BY_THRESHOLD),
        (dict(loss="softmax"), Mining.BY_THRESHOLD),
        (dict(loss="softmax", positives="all"), Mining.BY_ORDER),
        (dict(loss="softmax", mined=3, **ALL), Mining.BY_ORDER),
        (dict(loss="softmax", mined=3, sampled=3, slots=4, **ALL), Mining.BY_THRESHOLD),
        (dict(loss="bowl", **ALL), Mining.BY_THRESHOLD),
        (dict(loss="powl", **ALL), Mining.BY_ORDER),
        (dict(loss="powl"), Mining.BY_THRESHOLD),
        (dict(loss="bowl", options=POWER_LAW, **ALL), Mining.BY_ORDER),
        (dict(loss="listnet", mined=300, **ALL), Mining.WHOLE_LISTS),
        (dict(loss="listnet", **ALL), Mining.BY_ORDER),
        (dict(loss="listmle", mined=300, **ALL), Mining.WHOLE_LISTS),
    ],
    ids=str,
)
@pytest.mark.usefixtures("on_a_cpu")
def test_how_negatives_are_mined(options, mining):
    found = planned(**options)
    assert found.mining is mining
    assert found.dense is None
    # The gradient of all scores is a matrix already: nothing is left for pairs.
    assert not (found.by_pairs and mining is not Mining.BY_ORDER)


@pytest.fixture
def on_a_cpu(monkeypatch):
    """With the limits that a CPU has."""
    monkeypatch.setattr(plan, "PAIRS_LIMIT", {"cpu": 64})


def test_too_many_scores_to_hold_are_taken_in_blocks():
    assert planned(n=1 << 14, loss="softmax", **ALL).mining is Mining.BY_THRESHOLD
    assert planned(n=1 << 15, loss="softmax", **ALL).mining is Mining.BY_ORDER


@pytest.mark.parametrize("loss", ["softmax", "bowl", "powl"])
def test_a_shard_mines_no_negative_where_all_have_one_weight(loss):
    """It holds a part of the scores: they are taken in blocks, and the shards add up."""
    found = planned(loss=loss, mined=300, single_device=False)
    assert found.mining is Mining.NONE
    assert found.dense is not None and not found.by_pairs
    assert planned(loss=loss, single_device=False).mining is Mining.BY_ORDER


def test_a_tail_is_added_while_rows_are_updated():
    tail = LossOptions(vartheta="epsilon-tail")
    found = planned(loss="bowl", mined=2, options=tail)
    assert found.mining is Mining.BY_ORDER and found.dense is not None and not found.by_pairs


@cpu_only
def test_pairs_are_few_where_64_times_them_are_no_more_than_the_slots():
    assert [planned(mined=k, sampled=256, slots=257).by_pairs for k in (1, 4, 5)] == [
        True, True, False,
    ]  # fmt: skip
