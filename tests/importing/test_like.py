"""`snm data import --like`, and texts to models: features and labels in the ids of others."""

import json

import numpy as np
import pytest
from command_line import call, refused
from data.documents import TEXTS, read, write, write_jsonl
from sklearn.feature_extraction.text import CountVectorizer

import snm
from snm.data.id_space import IdSpace, match_labels
from snm.data.vectorizer import Vectorizer
from snm.errors import InputError
from snm.prediction.candidates.parse import ids_by_name, ids_of_labels

NEXT = [("a saw and a wave", ["tools", "sea"]), ("the apple", ["fruit & nuts"]), ("zz", ["sea"])]


@pytest.fixture
def like(tmp_path):
    """The data set of all documents, and three more texts, one of them with new words alone."""
    (source,) = write(tmp_path / "in", "jsonl")
    call("data", "import", source, "--out", tmp_path / "jan")
    (after,) = write(tmp_path / "next", "jsonl", *zip(*NEXT, strict=True))
    return tmp_path / "jan", ["data", "import", after, "--out", tmp_path / "feb", "--like",
                              tmp_path / "jan"]  # fmt: skip


def test_new_labels_are_refused_unless_asked_for(like, tmp_path, capsys):
    jan, words = like
    said = refused(capsys, *words)
    assert said.endswith(
        f"found 1 label that {jan} lacks, such as 'sea', "
        "expected its labels, or --new-labels append or drop"
    )
    assert not (tmp_path / "feb").exists()


@pytest.mark.parametrize("new_labels", ["append", "drop"])
def test_texts_in_the_ids_of_other_data(like, tmp_path, capsys, new_labels):
    jan, words = like
    call(*words, "--new-labels", new_labels)
    out = capsys.readouterr().out
    assert "1 label that" in out and ("left out" in out) == (new_labels == "drop")
    before = snm.load_data(jan)
    data, rows = read(tmp_path / "feb")
    added = ("sea",) if new_labels == "append" else ()
    assert data.label_names == (*before.label_names, *added)
    assert rows == [sorted(["tools", *added]), ["fruit & nuts"], [*added]]
    wanted = CountVectorizer().fit(TEXTS).transform([text for text, _ in NEXT])
    np.testing.assert_array_equal(data.train.features.toarray(), wanted.toarray())
    copied = (tmp_path / "feb" / "vectorizer.json").read_bytes()
    assert copied == (jan / "vectorizer.json").read_bytes()


def test_like_what_it_cannot_be(like, tmp_path, capsys):
    jan, words = like
    assert refused(capsys, *words, "--ngrams", "1", "2").startswith("--ngrams: found --like")
    assert refused(capsys, *words[:-1], tmp_path).startswith(f"--like {tmp_path}: found no vector")
    assert "no such folder" in refused(capsys, *words[:-1], tmp_path / "none")
    said = refused(capsys, *words[:-1], "gs://bucket/runs/a")
    assert said == "--like: found an address, expected a folder of this machine"
    assert refused(capsys, *words[:-2], "--new-labels=drop").startswith("--new-labels: found no")
    (tmp_path / "a.svm").write_text("1 2:1\n")
    said = refused(capsys, "data", "import", tmp_path / "a.svm", *words[3:])
    assert said.endswith("a.svm: found features (svmlight), expected texts, for --like")
    with (jan / "labels.txt").open("a") as names:
        names.write("tools\n")
    assert "labels.txt: found a label name twice" in refused(capsys, *words)
    (jan / "labels.txt").unlink()
    assert "found no label names" in refused(capsys, *words)
    assert not (tmp_path / "feb").exists()


def write_tags(path, labels, column="labels"):
    path.write_text(f"text,{column}\n" + "".join(f"some words,{names}\n" for names in labels))
    return path


def test_labels_are_read_as_those_of_like(tmp_path):
    """The column and the separator of labels are remembered, as those of texts are."""
    source = write_tags(tmp_path / "in.csv", ["hw;net", "hw"], "tags")
    options = ["--labels", "tags", "--label-separator", ";"]
    call("data", "import", source, "--out", tmp_path / "jan", *options)
    call("data", "import", source, "--out", tmp_path / "feb", "--like", tmp_path / "jan")
    assert read(tmp_path / "feb")[1] == [["hw", "net"], ["hw"]]
    other = write_tags(tmp_path / "other.csv", ["net|hw"])
    options = ["--labels", "labels", "--label-separator", "|"]
    call("data", "import", other, "--out", tmp_path / "mar", "--like", tmp_path / "jan", *options)
    assert read(tmp_path / "mar")[1] == [["hw", "net"]]


def test_a_vectorizer_with_a_damaged_separator(tmp_path):
    source = write_tags(tmp_path / "in.csv", ["hw;net"])
    call("data", "import", source, "--out", tmp_path / "jan", "--label-separator", ";")
    path = tmp_path / "jan" / "vectorizer.json"
    content = json.loads(path.read_text())
    assert (content["label_columns"], content["label_separator"]) == (["labels"], ";")
    path.write_text(json.dumps({**content, "label_separator": 3}))
    with pytest.raises(InputError, match="inconsistent fields"):
        Vectorizer.read(path)


def test_a_wrong_separator_is_told_of(tmp_path, capsys):
    """It makes new labels of known ones, which would be refused, added or dropped."""
    source = write_tags(tmp_path / "in.csv", ['"hw,net"', "hw"])
    call("data", "import", source, "--out", tmp_path / "jan")
    words = ["data", "import", write_tags(tmp_path / "next.csv", ["hw;net", "hw"])]
    words += ["--out", tmp_path / "feb", "--like", tmp_path / "jan"]
    hint = "if ';' separates labels, --label-separator ';'"
    assert refused(capsys, *words).endswith(f"or --new-labels append or drop; {hint}")
    capsys.readouterr()
    call(*words, "--new-labels", "drop")
    said = " ".join(capsys.readouterr().out.split())
    assert f"most labels that {tmp_path / 'jan'} lacks hold ';': if it separates labels" in said


@pytest.mark.parametrize("new_labels", ["refuse", "drop"])
def test_no_point_with_a_known_label_is_refused(tmp_path, capsys, new_labels):
    source = write_tags(tmp_path / "in.csv", ['"hw,net"', "hw"])
    call("data", "import", source, "--out", tmp_path / "jan")
    words = ["data", "import", write_tags(tmp_path / "next.csv", ["hw;net", "net;hw", ""])]
    words += ["--out", tmp_path / "feb", "--like", tmp_path / "jan", "--new-labels", new_labels]
    said = refused(capsys, *words)
    if new_labels == "drop":
        assert said.endswith(
            f"found no point with a label of {tmp_path / 'jan'}: 2 labels that {tmp_path / 'jan'} "
            "lacks, such as 'hw;net', expected some of its labels; if ';' separates labels, "
            "--label-separator ';'"
        )
    assert not (tmp_path / "feb").exists()


def test_import_says_how_to_get_test_points(tmp_path, capsys):
    (source,) = write(tmp_path / "in", "jsonl")
    call("data", "import", source, "--out", tmp_path / "data")
    assert "no test points to evaluate on: --test-fraction 0.2" in capsys.readouterr().out


def test_import_asks_about_labels_that_hold_a_separator(tmp_path, capsys):
    """Joined names are labels of their own, of which next to nothing can be learned."""
    labels = [f"{a};{b}" for a in "abcde" for b in "fghij"] + ["a", "b"]
    source = tmp_path / "docs.csv"
    source.write_text("text,labels\n" + "".join(f"some words,{names}\n" for names in labels))
    call("data", "import", source, "--out", tmp_path / "joined")
    asked = "most labels hold ';': if it separates labels, --label-separator ';'"
    assert asked in " ".join(capsys.readouterr().out.split())
    for name, separator in (("apart", ";"), ("meant", "/")):
        out = tmp_path / name
        call("data", "import", source, "--out", out, "--label-separator", separator)
        assert "most labels" not in capsys.readouterr().out
    assert len((tmp_path / "apart" / "labels.txt").read_text().split()) == 10
    rows = ({"text": "words", "labels": [names]} for names in labels)
    # Its labels are a list: no separator.
    listed = write_jsonl(tmp_path / "docs.jsonl", rows)
    call("data", "import", listed, "--out", tmp_path / "listed")
    assert "most labels" not in capsys.readouterr().out


def test_texts_to_a_model_of_features(tiny_run):
    with pytest.raises(InputError, match="found a model of features"):
        snm.load(tiny_run / "run").predict(["a text"])


@pytest.mark.parametrize(
    "change",
    [{"format": "other"}, {"kind": "best"}, {"vocabulary": ["a"]}, {"idf": [1.0]}, {"ngrams": 1},
     {"vocabulary": None}, {"vocabulary": ["aa", "aa"]}, {"ngrams": [2, 1]}, {"ngrams": [0, 0]},
     {"num_features": float("inf")}, {"num_features": 0, "vocabulary": []},
     {"kind": "hashing", "vocabulary": None, "num_features": 2**40},
     {"kind": "tfidf", "idf": 3.0}, {"kind": "tfidf", "idf": [1.0, float("nan")]},
     {"analyzer": "lines"}, {"stop_words": None}, {"token_pattern": "("}, {"token_pattern": 3},
     {"token_pattern": "a" * 501}, {"lowercase": 1}, {"binary": None}],
)  # fmt: skip
def test_damaged_vectorizers(tmp_path, change):
    path = tmp_path / "vectorizer.json"
    Vectorizer("counts", 2, vocabulary=("aa", "bb")).write(path)
    assert Vectorizer.read(path).transform(["aa bb bb"]).toarray().tolist() == [[1, 2]]
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(InputError, match="a vectorizer that `snm data import` wrote"):
        Vectorizer.read(path)
    path.write_text("{")
    with pytest.raises(InputError, match="damaged JSON"):
        Vectorizer.read(path)


def test_a_vectorizer_that_lacks_something_is_of_another_version(tmp_path):
    path = tmp_path / "vectorizer.json"
    Vectorizer("counts", 2, vocabulary=("aa", "bb")).write(path)
    written = json.loads(path.read_text())
    for name in ("analyzer", "stop_words", "columns", "binary"):
        path.write_text(json.dumps({key: written[key] for key in written if key != name}))
        with pytest.raises(InputError, match=f"vectorizer.json: found no {name}, expected .*again"):
            Vectorizer.read(path)


def test_labels_of_data_that_spell_accents_apart(tmp_path):
    """As another program wrote them; the new data have them as they are there."""
    before, after = tmp_path / "jan", tmp_path / "feb"
    (source,) = write(tmp_path / "in", "jsonl", ["a cup", "a tea"], [["caf\u00e9"], ["tea"]])
    call("data", "import", source, "--out", before)
    apart = ("cafe\u0301", "tea")
    (before / "labels.txt").write_text("".join(f"{name}\n" for name in apart), encoding="utf-8")
    for new_labels in ("refuse", "drop"):
        out = after / new_labels
        call("data", "import", source, "--out", out, "--like", before, "--new-labels", new_labels)
        data, rows = read(out)
        assert data.label_names == apart and rows == [["cafe\u0301"], ["tea"]]
    # Imported without --like, they are found by what they look like.
    call("data", "import", source, "--out", tmp_path / "alone")
    spaces = [IdSpace.of(snm.load_data(place)) for place in (tmp_path / "alone", before)]
    assert spaces[0].label_names == ("caf\u00e9", "tea")
    assert match_labels(*spaces, same_ids=False).tolist() == [0, 1]
    assert ids_of_labels(["cafe\u0301"], 2, ids_by_name(spaces[0].label_names)).tolist() == [0]
