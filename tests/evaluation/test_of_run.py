"""`snm.evaluate` of a run whose own data are out of reach, and with what answers in its place."""

import dataclasses

import pytest
import tiny

import snm
from snm.errors import InputError
from snm.stores.objects import StoreError


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    place = tmp_path_factory.mktemp("run")
    tiny.write(place / "data")
    snm.train(place / "data", dataclasses.replace(tiny.CONFIG, epochs=1), place / "run")
    return place / "run"


def test_other_data_where_the_store_of_its_own_gives_up(run, tmp_path, monkeypatch):
    """Nothing is known of the label frequencies then, so there is no PSP."""

    def gives_up(_):
        raise StoreError("gs://bucket/data: no answer")

    other = snm.load_data(tiny.write(tmp_path / "other", test=False))
    other = dataclasses.replace(other, sha256="0" * 64)
    monkeypatch.setattr("snm.trainer.evaluate.own_data", gives_up)
    metrics = snm.evaluate(run, other, same_ids=True)["metrics"]
    assert metrics["points"] == other.train.num_points
    assert "P@1" in metrics and "PSP@1" not in metrics
    with pytest.raises(StoreError):
        snm.evaluate(run)


@pytest.mark.parametrize("asked", [{"auc": True}, {"thresholds": (0.5,)}])
def test_what_has_the_best_labels_alone_has_no_other_scores(run, asked):
    model = snm.load(run)
    assert snm.evaluate(run, searched_by=model)["metrics"] == snm.evaluate(run)["metrics"]
    with pytest.raises(InputError, match="with searched_by, expected one of them"):
        snm.evaluate(run, searched_by=model, **asked)
