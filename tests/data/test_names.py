"""One spelling of a name, on all ways from a log to what a shop asks for."""

import csv
import dataclasses
import json

import numpy as np
import pytest
from command_line import call

import snm
from snm.data.formats.foreign import Row
from snm.data.names import Spellings, normalize_name, original_spellings
from snm.errors import InputError
from snm.importing.items import items_as_text
from snm.importing.writing.label_ids import LabelIds
from snm.serve.messages import Question
from snm.serve.requests import feature_rows

ODD = {
    "Sofa XL": "Sofa  XL",
    "Mug blue": "Mug\u00a0blue",
    "Lamp red": "Lamp\tred",
    "K\u00e4se": "Ka\u0308se",
}
"""Names of items, and how half of the users' rows, and the shop, spell them."""


def history(user):
    """The items of a user: one of two kinds, 6 of 8."""
    kind = [*ODD, *(f"even {number}" for number in range(4))] if user % 2 else [
        f"odd {number}" for number in range(8)
    ]  # fmt: skip
    return [kind[(user // 2 + number) % 8] for number in range(6)]


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """A log of 300 users, in which users of every other hundred spell names oddly."""
    path = tmp_path_factory.mktemp("log") / "log.csv"
    with path.open("w", newline="") as out:
        rows = csv.writer(out)
        rows.writerow(["user", "item"])
        for user in range(300):
            for item in history(user):
                rows.writerow([f"u{user}", ODD.get(item, item) if user < 150 else item])
    return path


@pytest.fixture(scope="module")
def run(log, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    call("data", "interactions", log, "--out", folder / "data")
    call("train", folder / "data", "--run-dir", folder / "run", "--dim", 8, "--members", 1,
         "--epochs", 2)  # fmt: skip
    return folder / "run"


def test_normalize_name():
    assert [normalize_name(odd) for odd in ODD.values()] == list(ODD)
    assert normalize_name("\ufeff a\r\n b ") == "a b" and normalize_name(" \t") == ""


def test_spellings_count_what_they_join():
    spellings = Spellings()
    for text in ("a", " a ", "b", "c  d", "e\tf", "e f", *ODD.values()):
        spellings.name(text)
    assert spellings.joined("item") == (
        "1 item with several spellings, such as 'e\\tf' and 'e f': joined"
    )
    assert spellings.name("K\u00e4se") == spellings.name("Ka\u0308se") == "K\u00e4se"
    spellings = Spellings()
    for text in ("K\u00e4se", "Ka\u0308se"):  # that look the same
        spellings.name(text)
    assert "such as 'K\\xe4se' and 'Ka\\u0308se'" in spellings.joined("label")
    assert Spellings().joined("label") is None


def test_the_log_of_a_shop_has_each_item_once(log, tmp_path, capsys):
    call("data", "interactions", log, "--out", tmp_path / "data")
    said = capsys.readouterr().out
    assert ", 16 items in" in said
    assert "4 items with several spellings, such as " in said and ": joined" in said
    assert set(ODD) < set(snm.load_data(tmp_path / "data").label_names)


def test_items_are_known_however_they_are_spelled(run):
    model = snm.load(run)
    plain, odd = ",".join(ODD), " , ".join(ODD.values())
    found = [model.as_rows([text]) for text in (plain, odd)]
    assert (found[0] != found[1]).nnz == 0 and found[0].nnz == 4
    labels, _ = model.predict([odd], k=16)
    assert not set(model.ids_of(ODD)) & set(labels[0])  # nobody is offered what they have


def test_labels_are_known_however_they_are_spelled(run, tmp_path, capsys):
    model = snm.load(run)
    np.testing.assert_array_equal(model.ids_of(ODD.values()), model.ids_of(ODD))
    (tmp_path / "stock.txt").write_text("Sofa  XL\nMug\u00a0blue\nKa\u0308se\n")
    call("predict", run, "--text", "even 1", "--labels", tmp_path / "stock.txt", "--k", 3)
    found = json.loads(capsys.readouterr().out)["names"]
    assert sorted(found) == ["K\u00e4se", "Mug blue", "Sofa XL"]


def test_items_may_be_lists(run):
    """In Python and in requests, as in JSON lines."""
    model = snm.load(run)
    lists, texts = [[*ODD], [], ["Sofa  XL"]], [",".join(ODD), "", "Sofa XL"]
    wanted = model.as_rows(texts)
    for given in (lists, [tuple(one) for one in lists], [lists[0], "", texts[2]]):
        assert (model.as_rows(given) != wanted).nnz == 0
    question = Question.model_validate({"texts": lists})
    assert (feature_rows(question, model, 9) != wanted).nnz == 0
    with pytest.raises(InputError, match="texts: found ',' in the item 'a, b', expected items wi"):
        model.predict([["a, b"]])
    numbers = np.eye(2, model.model.num_features)
    assert (model.as_rows(numbers.tolist()) != model.as_rows(numbers)).nnz == 0


def test_items_that_are_numbers(run):
    """In requests as in JSON lines; in Python, numbers are the values of features."""
    texts = items_as_text(("3", "5"), ",", ("items",))
    model = dataclasses.replace(snm.load(run), vectorizer=texts)
    question = Question.model_validate({"texts": [[3, 5.0], ["5"]]})
    assert feature_rows(question, model, 9).toarray().tolist() == [[1, 1], [0, 1]]
    for given, found in (([[3]], "lists of 1 number"), ([[3], [3, 5]], "a list of others")):
        said = f"features: found {found}, expected lists of .* values, or of items as texts, also"
        with pytest.raises(InputError, match=said):
            model.predict(given)


def test_a_list_without_a_known_item_is_told(run, capsys):
    call("predict", run, "--text", "no item of this shop")
    assert capsys.readouterr().err == (
        "snm: 1 of 1 point without a known item (separator ','): answered as unknown\n"
    )


def test_a_later_log_may_spell_otherwise(run, tmp_path):
    (tmp_path / "june.csv").write_text("user,item\na,Sofa   XL\na,Mug blue\n")
    call("data", "interactions", tmp_path / "june.csv", "--out", tmp_path / "june", "--like", run)
    data = snm.load_data(tmp_path / "june")
    assert [data.label_names[i] for i in data.train.features.indices] == ["Sofa XL"]
    assert [data.label_names[i] for i in data.train.labels.indices] == ["Mug blue"]


@pytest.mark.parametrize("same_items", [True, False])
def test_labels_of_an_import_are_joined(tmp_path, capsys, same_items):
    rows = "Sofa  XL|Mug;Lamp\nSofa XL|Lamp;Mug\nLamp|Sofa XL\nMug|Ka\u0308se\nLamp|K\u00e4se\n"
    (tmp_path / "a.csv").write_text("had;later\n" + rows.replace(";", ",").replace("|", ";"))
    options = ["--same-items"] if same_items else []
    call("data", "import", tmp_path / "a.csv", "--text", "had", "--labels", "later", *options,
         "--out", tmp_path / "data")  # fmt: skip
    said = capsys.readouterr().out
    wanted = "1 label with several spellings, such as 'Ka\\u0308se' and 'K\\xe4se': joined"
    if same_items:
        wanted = "2 items with several spellings, such as 'Sofa  XL' and 'Sofa XL': joined"
    assert wanted in said.splitlines()
    assert len(snm.load_data(tmp_path / "data").label_names) == 4


def test_known_names_that_no_import_wrote():
    """Data of earlier imports may hold an item in a spelling that is no name."""
    apart, whole = "Ka\u0308se", "K\u00e4se"
    assert (
        original_spellings([apart, "tea"]) == {whole: apart}
        and original_spellings([apart, whole]) == {}
    )
    texts = items_as_text((apart, "tea"), ",", ["items"])
    assert texts.transform([whole, apart]).toarray().tolist() == [[1, 0], [1, 0]]
    assert LabelIds([apart], "drop").respell([Row("1", "", None, (whole,))])[0].labels == (apart,)
