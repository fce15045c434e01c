"""`snm.evaluate` of a run whose own data are out of reach, and with what answers in its place."""

import dataclasses
import json

import numpy as np
import pytest
import tiny
from command_line import call, refused
from export.exported import FindsNothing

import snm
from snm.cli.metrics_tables import print_summary
from snm.errors import InputError
from snm.runs.stored_run import StoredRun
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
    monkeypatch.setattr("snm.trainer.run_data.training_data", gives_up)
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


def test_an_open_model_is_not_opened_again(run, monkeypatch):
    """Nor does its index change the AUC, which is of the scores of all labels."""
    expected, model = snm.evaluate(run, auc=True), snm.load(run)
    monkeypatch.setattr(StoredRun, "load", None)
    assert snm.evaluate(run, predictor=model, auc=True) == expected
    poor = dataclasses.replace(model, index=FindsNothing())
    found = snm.evaluate(run, predictor=poor, auc=True)["metrics"]
    assert found["P@1"] == 0 and found["AUC"] == expected["metrics"]["AUC"]
    both = snm.evaluate(run, predictor=model, indexed=poor, auc=True)
    assert both.pop("by_index") == {name: one for name, one in found.items() if name != "AUC"}
    assert both == expected
    model, poor = (dataclasses.replace(one, block_rows=16) for one in (model, poor))
    done: list[int] = []
    snm.evaluate(run, predictor=model, indexed=poor, auc=True, on_progress=done.append)
    assert done == 3 * [16, tiny.TEST_POINTS]  # once more for the AUC, and once for the index
    seen = dataclasses.replace(poor.model, drop_seen=not poor.model.drop_seen)
    with pytest.raises(InputError, match="indexed: found another model, expected that of"):
        snm.evaluate(run, predictor=model, indexed=dataclasses.replace(poor, model=seen))


def test_propensities_of_another_model(run, tmp_path, capsys):
    """The same as of a run that was trained with them, and a note that the run has others."""
    config = dataclasses.replace(tiny.CONFIG, epochs=1)
    others = dataclasses.replace(config, propensity_a=0.6, propensity_b=2.6)
    expected = snm.train(run.parent / "data", others, tmp_path / "others")["metrics"]
    assert expected != snm.evaluate(run)["metrics"]
    found = snm.evaluate(run, propensity_a=0.6, propensity_b=2.6)
    assert found["metrics"] == pytest.approx(expected)
    assert found["notes"] == ["PSP and PSnDCG have A = 0.6, B = 2.6; the run has 0.55, 1.5"]
    assert "notes" not in snm.evaluate(run, propensity_a=0.55)
    call("evaluate", run, "--propensity-b", 2.6)
    assert "PSP and PSnDCG have A = 0.55, B = 2.6; the run has" in capsys.readouterr().out
    for flag, wrong in (("--propensity-a", 0), ("--propensity-b", "nan")):
        assert f"{flag}: found {wrong}" in refused(capsys, "evaluate", run, flag, wrong)


def test_metrics_at_other_numbers_of_answers(run, capsys):
    """Recall and nDCG at 2 and 10 from the answers themselves."""
    data = snm.load_data(run.parent / "data")
    found = snm.evaluate(run, ks=(10, 2))["metrics"]
    assert snm.evaluate(run, ks=np.array([10, 2]))["metrics"] == found
    assert {type(value) for value in found.values()} == {int, float}
    assert {name.partition("@")[2] for name in found if "@" in name} == {"2", "10"}
    labels, _ = snm.load(run).predict(data.test.features, k=10)
    recall, gain = [], []
    for answers, row in zip(labels, data.test.labels, strict=True):
        hits = np.isin(answers, row.indices)
        discount = 1 / np.log2(np.arange(10) + 2)
        recall.append(hits.sum() / row.nnz)
        gain.append(hits @ discount / discount[: row.nnz].sum())
    assert found["R@10"] == pytest.approx(100 * np.mean(recall))
    assert found["nDCG@10"] == pytest.approx(100 * np.mean(gain))
    assert 0 < found["R@10"] < 100
    call("evaluate", run, "--k", 2, 10, "--json")
    assert json.loads(capsys.readouterr().out)["metrics"] == pytest.approx(found)
    for k in (0, 21):
        said = refused(capsys, "evaluate", run, "--k", 1, k)
        assert said.endswith(f"--k: found {k}, expected 1 to 20, the number of labels")


def test_numbers_of_answers_that_are_the_default_are_asked_for_as_others(tmp_path, capsys):
    lines = [f"{i % 4} {i % 4}:1" for i in range(20)]
    (folder := tmp_path / "few").mkdir()
    for name in ("train.txt", "test.txt"):
        (folder / name).write_text("\n".join(["20 4 4", *lines]) + "\n")
    settings = dict(sampled="all", mined="all", epochs=1)
    snm.train(folder, dataclasses.replace(tiny.CONFIG, **settings), tmp_path / "run")
    for asked in ((5,), (1, 3, 5)):
        said = refused(capsys, "evaluate", tmp_path / "run", "--k", *asked)
        assert said == "--k: found 5, expected 1 to 4, the number of labels"
    call("evaluate", tmp_path / "run", "--json")
    metrics = json.loads(capsys.readouterr().out)["metrics"]
    assert {name.partition("@")[2] for name in metrics if "@" in name} == {"1", "3"}


def test_points_without_features_are_counted(tmp_path):
    data = tiny.dataset(tmp_path / "data")
    features = data.test.features.copy()
    for row in (3, 7):
        features.data[features.indptr[row] : features.indptr[row + 1]] = 0
    assert np.diff(data.test.labels.indptr)[[3, 7]].all()
    data = dataclasses.replace(data, test=dataclasses.replace(data.test, features=features))
    found = snm.train(data, dataclasses.replace(tiny.CONFIG, epochs=1), tmp_path / "run")
    assert found["points_without_features"] == 2


def test_data_that_were_in_memory(run, tmp_path, capsys):
    config = dataclasses.replace(tiny.CONFIG, epochs=1)
    made = dataclasses.replace(snm.load_data(run.parent / "data"), name="synthetic")
    snm.train(made, config, tmp_path / "made")
    assert refused(capsys, "evaluate", tmp_path / "made") == (
        "the data of the run: found data that a program had in memory (synthetic), "
        "expected --data with a folder of them"
    )
    call("evaluate", tmp_path / "made", "--data", run.parent / "data")
    call("doctor", tmp_path / "made")
    assert "had in memory (synthetic)" in capsys.readouterr().out
    # The data set that comes with the package can be found by its name.
    by_name = dataclasses.replace(made, name=str(run.parent / "data"))
    snm.train(by_name, config, tmp_path / "named")
    call("evaluate", tmp_path / "named")
