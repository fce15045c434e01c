"""A fitted estimator as a folder that stands for a run."""

import json

import numpy as np
import pytest
from command_line import call
from estimator.small_fits import SMALL

import snm
from snm import InputError, SNMClassifier
from snm.estimator.export import write_folder
from snm.estimator.targets import Targets


def test_the_folder_answers_as_the_estimator(data, tmp_path, capsys):
    lists = [[f"tag {label}" for label in row.indices] for row in data.train.labels]
    model = SNMClassifier(**SMALL, epochs=2, weighting="tfidf").fit(data.train.features, lists)
    model.export(tmp_path / "model")
    found = snm.load(tmp_path / "model")
    labels, scores = model.decision_topk(data.test.features, k=3)
    ids, again = found.predict(data.test.features, k=3)
    assert [[found.label_names[i] for i in row] for row in ids] == labels.tolist()
    np.testing.assert_array_equal(again, scores)
    np.save(tmp_path / "new.npy", data.test.features[:2].toarray())
    call("predict", tmp_path / "model", tmp_path / "new.npy", "--k", 3)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["names"] for line in lines] == labels[:2].tolist()
    with pytest.raises(InputError, match=r"^folder: found .*which is there, expected a new folder"):
        model.export(tmp_path / "model")


@pytest.mark.parametrize("name", ["b\nc", "b\n", "b\r"])
def test_a_class_with_a_line_break_is_refused(tmp_path, name):
    with pytest.raises(InputError, match="classes: found a line break in 'b"):
        write_folder(None, None, Targets.of(["a", name, "d"]), tmp_path / "model")
    assert not list(tmp_path.iterdir())
