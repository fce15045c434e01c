"""`snm data import`: every format gives the same data, and bad input leaves no folder."""

import gzip
import json
import os
import shlex

import numpy as np
import pytest
import tiny
from command_line import call, refused
from data.documents import LABELS, TEXTS, documents, read, write, write_jsonl
from sklearn.datasets import load_svmlight_file
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.preprocessing import MultiLabelBinarizer

import snm
from snm.data.vectorizer import Vectorizer
from snm.errors import InputError

DAMAGED = gzip.compress(b"", mtime=0)[:10] + b"\xff" * 20
"""Starts with the gzip magic bytes, but the rest is not valid gzip data."""


@pytest.mark.parametrize("form", ["jsonl", "packed", "csv", "tsv", "raw", "fasttext"])
def test_every_format_gives_the_same_data(tmp_path, form):
    source, *options = write(tmp_path / "in", form)
    call("data", "import", source, "--out", tmp_path / "out", *options)
    data, rows = read(tmp_path / "out")
    wanted = CountVectorizer()
    expected = wanted.fit_transform(TEXTS)
    np.testing.assert_array_equal(data.train.features.toarray(), expected.toarray())
    vectorizer = Vectorizer.read(tmp_path / "out" / "vectorizer.json")
    assert vectorizer.vocabulary == tuple(wanted.get_feature_names_out())
    clean = [[n.replace(" ", "_") if form == "fasttext" else n for n in names] for names in LABELS]
    assert rows == [sorted(names) for names in clean]
    assert data.test is None
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in", "out"]


def test_a_test_file(tmp_path, capsys):
    (source,) = write(tmp_path / "in", "jsonl")
    texts, labels = documents(20, seed=1)
    (test,) = write(tmp_path / "test", "jsonl", [*texts, "unknown words only"], [*labels, ["new"]])
    call("data", "import", source, "--out", tmp_path / "out", "--test", test)
    assert "60 training and 21 test points" in capsys.readouterr().out
    data = snm.load_data(tmp_path / "out")
    assert data.label_names[-1] == "new" and data.train.num_labels == 4
    wanted = CountVectorizer().fit(TEXTS).transform([*texts, "unknown words only"])
    np.testing.assert_array_equal(data.test.features.toarray(), wanted.toarray())
    assert data.test.features[20].nnz == 0 and data.test.labels[20].indices.tolist() == [3]


def test_the_name_of_a_file_may_be_no_text(tmp_path):
    """The rows of points name their file: bytes that are not UTF-8 are escaped."""
    (source,) = write(tmp_path / "in", "jsonl")
    source = source.rename(source.with_name(os.fsdecode(b"caf\xe9.jsonl")))
    call("data", "import", source, "--out", tmp_path / "out")
    rows = (tmp_path / "out" / "train_rows.txt").read_text(encoding="utf-8").splitlines()
    assert len(rows) == 60 and rows[0].endswith("caf\\udce9.jsonl:1")


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_weights_of_points(tmp_path, capsys, form):
    """Of the training points only: a test file needs no such column."""
    weights = [0.5, 2, 0, 1e-3, *[1] * 56]
    source, *options = write(tmp_path / "in", form)
    lines = source.read_text().splitlines()
    if form == "csv":
        pairs = zip(lines[1:], weights, strict=True)
        told = [lines[0] + ",trust", *(f"{line},{w}" for line, w in pairs)]
    else:
        told = [f'{line[:-1]}, "trust": {w}}}' for line, w in zip(lines, weights, strict=True)]
    weighted = tmp_path / f"weighted.{form}"
    weighted.write_text("\n".join(told) + "\n")
    options += ["--weight-column", "trust"]
    call("data", "import", weighted, "--out", tmp_path / "out", "--test", source, *options)
    said = capsys.readouterr().out
    assert "weights: 0 to 2, 0.975 on average; 1 point of weight 0 is left out" in said
    data = snm.load_data(tmp_path / "out")
    np.testing.assert_array_equal(data.train.weights, np.array(weights, np.float32))
    assert data.test.num_points == 60 and data.test.weights is None
    call("data", "import", weighted, "--out", tmp_path / "split", "--test-fraction=0.3", *options)
    kept = np.random.default_rng(0).random(1 << 16)[:60] >= 0.3
    data = snm.load_data(tmp_path / "split")
    np.testing.assert_array_equal(data.train.weights, np.array(weights, np.float32)[kept])


def test_rare_labels_are_left_out(tmp_path, capsys):
    """Counted on training points only; texts and test points stay."""
    rng = np.random.default_rng(0)
    names = [sorted(set(rng.choice(list("aabbbcde"), 2))) for _ in range(60)]
    (source,) = write(tmp_path / "in", "jsonl", TEXTS, names)
    call("data", "import", source, "--out", tmp_path / "out", "--test-fraction=0.3",
         "--min-label-count=12")  # fmt: skip
    kept = np.random.default_rng(0).random(1 << 16)[:60] >= 0.3
    training = [names[i] for i in np.flatnonzero(kept)]
    often = {name for name in "abcde" if sum(name in row for row in training) >= 12}
    assert 0 < len(often) < 5
    data, rows = read(tmp_path / "out")
    assert rows == [[name for name in row if name in often] for row in training]
    test = [
        {data.label_names[j] for j in data.test.labels[i].indices} for i in range((~kept).sum())
    ]
    assert test == [often & set(names[i]) for i in np.flatnonzero(~kept)]
    said = capsys.readouterr().out
    assert f"{5 - len(often)} labels of fewer than 12 training points: left out" in said
    said = refused(capsys, "data", "import", source, "--out", tmp_path / "no",
                   "--min-label-count=61")  # fmt: skip
    assert "--min-label-count: found no label of at least 61 of 60 training points" in said
    said = refused(capsys, "data", "import", source, "--out", tmp_path / "no",
                   "--min-label-count=2", "--like", tmp_path / "out")  # fmt: skip
    assert "--min-label-count: found --like" in said


def test_a_file_of_weights_is_part_of_the_data(tmp_path):
    folder = tiny.write(tmp_path / "data")
    plain = snm.load_data(folder)
    assert plain.train.weights is None
    (folder / "weights.txt").write_text("1\n" * 59 + "2.5\n")
    data = snm.load_data(folder)
    assert data.train.weights.tolist() == [1.0] * 59 + [2.5] and data.sha256 != plain.sha256
    (folder / "weights.txt").write_text("1\n" * 59 + "2\n")
    assert snm.load_data(folder).sha256 not in (data.sha256, plain.sha256)


def test_a_split_by_fraction(tmp_path, monkeypatch):
    texts = [f"word{i:05} shared" for i in range(400)]
    (source,) = write(tmp_path / "in", "jsonl", texts, [[str(i)] for i in range(400)])
    monkeypatch.setattr("snm.importing.writing.data_folder._CHUNK", 7)
    call("data", "import", source, "--out", tmp_path / "out", "--test-fraction", "0.25")
    drawn = np.random.default_rng(0).random(1 << 16)[:400] < 0.25
    data, rows = read(tmp_path / "out")
    assert [row[0] for row in rows] == [str(i) for i in np.flatnonzero(~drawn)]
    assert data.test.num_points == drawn.sum() and 60 < drawn.sum() < 140
    lines = (tmp_path / "out" / "train_rows.txt").read_text().splitlines()
    assert lines == [f"{source}:{i + 1}" for i in np.flatnonzero(~drawn)]
    # Words that occur in test texts only are not in the vocabulary.
    vocabulary = Vectorizer.read(tmp_path / "out" / "vectorizer.json").vocabulary
    assert vocabulary == ("shared", *(texts[i].split()[0] for i in np.flatnonzero(~drawn)))
    call("data", "import", source, "--out", tmp_path / "again", "--test-fraction", "0.25")
    for name in ("train.txt", "test.txt", "labels.txt"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "out" / name).read_bytes()


@pytest.mark.parametrize("base", [0, 1])
def test_svmlight(tmp_path, base):
    """Compared with scikit-learn's reader, for ids that start at 0 and at 1."""
    rng = np.random.default_rng(0)
    texts = []
    for i in range(40):
        ids = base + np.sort(rng.choice(12, 3, replace=False))
        ids[0] = base if i == 0 else ids[0]
        labels = ",".join(map(str, rng.choice(5, rng.integers(0, 3), replace=False)))
        texts.append(f"{labels} " + " ".join(f"{j}:{rng.random():.4f}" for j in ids) + " # note\n")
    files = {"train": tmp_path / "train.svm", "test": tmp_path / "test.svm"}
    files["train"].write_text("".join(texts[:30]))
    files["test"].write_text("".join(texts[30:]))
    call("data", "import", files["train"], "--test", files["test"], "--out", tmp_path / "out")
    data, rows = read(tmp_path / "out")
    for part, points in (("train", data.train), ("test", data.test)):
        X, y = load_svmlight_file(
            str(files[part]), multilabel=True, n_features=12, zero_based=base == 0
        )
        np.testing.assert_allclose(points.features.toarray(), X.toarray(), rtol=1e-6)
        if part == "train":
            assert rows == [sorted(str(int(label)) for label in names) for names in y]


def test_labels_are_kept_by_name(tmp_path):
    texts = ["some words"] * 3
    labels = [["b c", "a", "a"], [3, "b  c"], []]
    (source,) = write(tmp_path / "in", "jsonl", texts, labels)
    call("data", "import", source, "--out", tmp_path / "out")
    data, rows = read(tmp_path / "out")
    assert data.label_names == ("b c", "a", "3")
    assert rows == [["a", "b c"], ["3", "b c"], []]
    assert MultiLabelBinarizer().fit([["b c", "a"], ["3"]]).classes_.tolist() == ["3", "a", "b c"]


@pytest.mark.parametrize(
    ("name", "text", "options", "said"),
    [
        ("a.jsonl", '{"text": "x y", "labels": [1]}\n{"text"', [], r"a.jsonl:2: found no JSON"),
        ("a.jsonl", "[1]\n", [], "a.jsonl:1: found a JSON array, expected one JSON object"),
        ("a.jsonl", '{"title": "x", "labels": []}\n', [], "no 'text' among 'title', 'labels'"),
        ("a.jsonl", '{"text": "xx", "labels": "a,b"}\n', [], "found a text with ',' in \"labels\""),
        ("a.csv", "text,labels\nxx,a,b\n", [], "a.csv:2: found 3 fields, expected 2"),
        ("a.csv", "title,labels\n", [], "a.csv:1: found no column 'text'"),
        ("a.csv", "text,tags\n", [], "expected the labels' column, named with --labels COLUMN"),
        ("a.csv", "text,labels,text\n", [], "a.csv:1: found column 'text' twice"),
        ("a.jsonl", '{"text": "xx", "labels": [true]}\n', [], 'found true in the list "labels"'),
        ("a.svm", "1 2:1 2:2\n", [], "a.svm:1: found a feature twice"),
        ("a.svm", "1 2:x\n", [], "a.svm:1: found '2:x', expected a finite number after the colon"),
        ("a.svm", "1 2:nan\n", [], "a.svm:1: found '2:nan', expected a finite number after"),
        ("a.txt", "only words\n", [], "--format, one of jsonl, csv, parquet, raw"),
        ("a.txt", "only words\n", ["--format=fasttext"], "a.txt:1: found a line without __label__"),
        ("a.txt", "only words\n", ["--format=raw"], "--label-file: found none"),
        ("a.jsonl", '{"text": "xx", "labels": []}\n', [], "a.jsonl: found no label"),
        ("a.jsonl", "", [], "a.jsonl: found an empty file, expected at least one point"),
        ("a.csv", "", [], "a.csv: found an empty file, expected the names of columns"),
        ("a.csv", "\n", [], "a.csv:1: found no header, expected the names of columns"),
        ("a.csv", "text,labels\n", [], "a.csv: found no row after the header, expected at least"),
        ("a.csv", "text,labels\nxx,\nyy,\n", [], "a.csv: found no label, expected labels (see"),
        (
            "a.csv",
            'text,labels\nxx,a\n"yy,b\nzz,c\n',
            [],
            'a.csv:3: found a quote that is not closed, expected a " at the end of the cell',
        ),
        (
            "a.csv",
            "text,labels\rxx,a\ryy,b\r",
            [],
            "a.csv:1: found a carriage return in the header, expected newlines, as "
            r"`tr '\r' '\n'` makes of lines that end in carriage returns",
        ),
        (
            "a.csv",
            "text,labels\nxx,a\nx\rx,b\n",
            [],
            "a.csv:3: found a carriage return in a cell, expected quotes around the cell",
        ),
        (
            "a.csv",
            'text,labels\n"x"x,a\n',
            [],
            'a.csv:2: found text after a closed quote, expected a new cell, or "" for a quote',
        ),
        (
            "a.csv",
            "Text,labels\nxx,a\n",
            [],
            "expected the text's column, named with --text COLUMN: names must agree in case and",
        ),
        (
            "a.csv",
            "text|labels\nxx|a\n",
            [],
            "among text|labels, expected columns separated by commas, semicolons or tabs: this",
        ),
        ("a.tsv", "text,labels\nxx,a\n", [], "expected columns separated by tabs: this header"),
        (
            "a.jsonl",
            '{"text": "xx", "labels": ["a"]}\n',
            ["--test-fraction=.999999"],
            "a.jsonl: found no",
        ),
        ("a.jsonl", "{}", ["--test-fraction=1"], "--test-fraction: found 1.0"),
        ("a.jsonl", "{}", ["--ngrams", "2", "1"], "--ngrams: found 2 1"),
        (
            "a.csv",
            "text,labels,w\nxx,a,1\nyy,b,-1\n",
            ["--weight-column=w"],
            "a.csv:3: found w: '-1', expected a finite number of at least 0",
        ),
        (
            "a.csv",
            "text,labels\nxx,a\n",
            ["--weight-column=w"],
            "a.csv:1: found no column 'w' among text, labels",
        ),
        (
            "a.jsonl",
            '{"text": "xx", "labels": ["a"], "w": true}\n',
            ["--weight-column=w"],
            "a.jsonl:1: found w: True, expected a finite number",
        ),
        (
            "a.jsonl",
            '{"text": "xx", "labels": ["a"]}\n',
            ["--weight-column=w"],
            "found no 'w' among 'text', 'labels', expected a weight in 'w'",
        ),
        (
            "a.jsonl",
            '{"text": "xx", "labels": ["a"], "w": 0}\n',
            ["--weight-column=w"],
            "weights: found only zeros",
        ),
        ("a.svm", "1 2:1\n", ["--weight-column=w"], "found points without fields (svmlight)"),
        ("a.jsonl.gz", gzip.compress(b'{"text"' * 99, mtime=0)[:-9], [], "truncated gzip"),
        ("a.jsonl.gz", DAMAGED, [], "damaged gzip data"),
        ("a.jsonl", b'{"text": "\xff"}', [], "a.jsonl:1: found bytes that are not UTF-8"),
    ],
)
def test_bad_input_leaves_no_folder(tmp_path, capsys, name, text, options, said):
    source = tmp_path / name
    source.write_bytes(text if isinstance(text, bytes) else text.encode())
    message = refused(capsys, "data", "import", source, "--out", tmp_path / "out", *options)
    assert said in message, message
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    ("name", "text", "form"),
    [("a.csv", "text,labels\nxx,a\n", "csv"), ("a.txt", "At 10:30 we met\n", "svmlight")],
)
def test_a_label_file_is_of_raw_text_alone(tmp_path, capsys, name, text, form):
    """It is not ignored where the points have labels, or look as if they had some."""
    (tmp_path / name).write_text(text)
    (tmp_path / "y").write_text("a\n")
    said = refused(capsys, "data", "import", tmp_path / name, "--label-file", tmp_path / "y",
                   "--out", tmp_path / "out")  # fmt: skip
    assert (
        said == f"--label-file: found a file that holds its labels ({form}), "
        "expected --format raw, or --label-names for the texts of labels"
    )


@pytest.mark.parametrize(
    ("form", "words", "said"),
    [
        ("svmlight", ["--vectorizer=hashing"], "--vectorizer: found features (svmlight)"),
        ("svmlight", ["--features=5"], "--features: found features (svmlight), expected texts"),
        ("svmlight", ["--ngrams", "1", "2"], "--ngrams: found features (svmlight)"),
        ("svmlight", ["--no-lowercase"], "--no-lowercase: found features (svmlight)"),
        ("svmlight", ["--stop-words=none.txt"], "--stop-words: found features (svmlight)"),
        ("svmlight", ["--text=body"], "--text: found points without fields (svmlight)"),
        ("fasttext", ["--labels=tags"], "--labels: found points without fields (fasttext)"),
        ("raw", ["--text=body"], "--text: found points without fields (raw)"),
        ("jsonl", ["--label-separator=;"], "--label-separator: found labels that are apart alr"),
        ("fasttext", ["--label-separator=;"], "expected CSV or raw text"),
        ("svmlight", ["--label-separator=;"], "--label-separator: found"),
    ],
)
def test_an_option_that_the_format_ignores_is_refused(tmp_path, capsys, form, words, said):
    source = tmp_path / "points"
    source.write_text("1 2:1\n" if form == "svmlight" else "__label__a xx\n")
    command = ["data", "import", source, "--format", form, "--out", tmp_path / "out"]
    assert said in refused(capsys, *command, *words)
    assert not (tmp_path / "out").exists()


def test_raw_text_and_labels_of_different_lengths(tmp_path, capsys):
    (tmp_path / "x").write_text("one\ntwo\nthree\n")
    (tmp_path / "y").write_text("a\nb\n")
    said = refused(capsys, "data", "import", tmp_path / "x", "--label-file", tmp_path / "y",
                   "--out", tmp_path / "out")  # fmt: skip
    assert "found the end of the file before line 3" in said
    assert "exists" not in said and not (tmp_path / "out").exists()
    (tmp_path / "out").mkdir()
    said = refused(capsys, "data", "import", tmp_path / "x", "--out", tmp_path / "out")
    found = "a file or folder of that name"
    assert said == f"--out {tmp_path / 'out'}: found {found}, expected a new folder"


def test_import_train_and_predict_from_texts(tmp_path, capsys):
    """Import, train, and predict from texts: in Python, and on the command line."""
    (source,) = write(tmp_path / "in", "jsonl")
    call("data", "import", source, "--out", tmp_path / "data", "--test-fraction", "0.2",
         "--stop-words", "english")  # fmt: skip
    flags = [flag for flag in tiny.FLAGS if not flag.startswith(("--sampled", "--mined", "--ep"))]
    call("train", tmp_path / "data", "--run-dir", tmp_path / "run", *flags, "--epochs=20",
         "--checkpoint-every=1000")  # fmt: skip
    model = snm.load(tmp_path / "run")
    assert "the" in model.vectorizer.stop_words and "the" not in model.vectorizer.vocabulary
    texts = ["the apple and the fig", "a saw", "la mer"]
    labels, scores = model.predict(texts, k=1)
    assert [model.label_names[label] for label in labels[:, 0]] == ["fruit & nuts", "tools", "ça"]
    by_features = model.predict(model.vectorizer.transform(texts), k=1)
    np.testing.assert_array_equal(scores, by_features[1])
    np.testing.assert_array_equal(scores, snm.predict(tmp_path / "run", texts, k=1)[1])

    lines, objects, out = (tmp_path / name for name in ("new.txt", "new.jsonl", "out.jsonl"))
    lines.write_text("\n".join(texts) + "\n")
    write_jsonl(objects, ({"text": text} for text in texts))
    for words in ([lines], [objects]):
        call("predict", tmp_path / "run", *words, "--k=1", "--out", out)
        names = [json.loads(line)["names"] for line in out.read_text().splitlines()]
        assert names == [["fruit & nuts"], ["tools"], ["ça"]]
    objects.write_text('{"title": 1}\n')
    capsys.readouterr()
    assert "new.jsonl:1: found" in refused(
        capsys, "predict", tmp_path / "run", objects, "--out", out
    )
    with pytest.raises(InputError, match="found one text, expected a list"):
        model.predict("a saw", k=1)

    # Next month's texts, whose labels come in another order.
    (source,) = write(tmp_path / "next", "jsonl", *documents(30, seed=9))
    capsys.readouterr()
    call("data", "import", source, "--out", tmp_path / "since then", "--like", tmp_path / "run")
    evaluate = ["evaluate", str(tmp_path / "run"), "--data", str(tmp_path / "since then")]
    said = capsys.readouterr().out
    assert f"next: snm {shlex.join(evaluate)}\n" in said  # can be pasted
    (train_on,) = (shlex.split(line) for line in said.splitlines() if "  or: snm train" in line)
    assert train_on[train_on.index("--config") + 1] == str(tmp_path / "run" / "config.toml")
    assert said.startswith("30 points, ")  # which are test points to `snm evaluate`
    call(*evaluate, "--json")
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["metrics"]["points"] == 30 and found["metrics"]["P@1"] > 90
    train_on[train_on.index("NEW")] = tmp_path / "new"
    call(*train_on[2:], "--epochs=1")
