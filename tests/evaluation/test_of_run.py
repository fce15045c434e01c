"""`snm.evaluate` of a run whose own data are out of reach, and with what answers in its place."""

import dataclasses
import json

import pytest
import tiny

import snm
from snm.cli.metrics_tables import print_summary
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


def test_points_without_a_label_that_counts_are_refused(run, tmp_path, capsys):
    data = snm.load_data(run.parent / "data")
    none = dataclasses.replace(data.test, labels=0 * data.test.labels)
    none.labels.eliminate_zeros()
    other = dataclasses.replace(data, test=none, sha256="0" * 64)
    with pytest.raises(InputError, match=f"{tiny.TEST_POINTS} test points, none with a label"):
        snm.evaluate(run, other, same_ids=True)
    snm.train(other, dataclasses.replace(tiny.CONFIG, epochs=1), tmp_path / "run")  # no matter
    print_summary(json.loads((tmp_path / "run" / "result.json").read_text()), "run: test points")
    assert capsys.readouterr().out == (
        "no test point has a label that counts, so nothing was evaluated\n")  # fmt: skip


@pytest.mark.parametrize("asked", [{"auc": True}, {"thresholds": (0.5,)}])
def test_what_has_the_best_labels_alone_has_no_other_scores(run, asked):
    model = snm.load(run)
    assert snm.evaluate(run, searched_by=model)["metrics"] == snm.evaluate(run)["metrics"]
    with pytest.raises(InputError, match="with searched_by, expected one of them"):
        snm.evaluate(run, searched_by=model, **asked)
