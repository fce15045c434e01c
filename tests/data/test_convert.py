"""`snm data import`: every format gives the same data, equal to scikit-learn's vectorisers."""

import csv
import dataclasses
import gzip
import json

import numpy as np
import pytest
import tiny
from command_line import call, refused
from sklearn.datasets import load_svmlight_file
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.preprocessing import MultiLabelBinarizer

import snm
from snm.data.vectorizer import Vectorizer
from snm.errors import InputError

TOPICS = {"fruit & nuts": "apple pear plum fig", "tools": "saw drill file plane", "ça": "été mer"}


def documents(count=60, seed=0):
    rng = np.random.default_rng(seed)
    texts, labels = [], []
    for _ in range(count):
        names = sorted(rng.choice(list(TOPICS), rng.integers(1, 3), replace=False))
        words = [str(rng.choice(TOPICS[name].split())) for name in names for _ in range(3)]
        texts.append(" ".join(["the", *words]))
        labels.append(names)
    return texts, labels


TEXTS, LABELS = documents()
DAMAGED = gzip.compress(b"", mtime=0)[:10] + b"\xff" * 20
"""Starts with the gzip magic bytes, but the rest is not valid gzip data."""


def write(folder, form, texts=TEXTS, labels=LABELS):
    """Writes the documents in a format; returns the file and the options to import it."""
    folder.mkdir(exist_ok=True)
    pairs = list(zip(texts, labels, strict=True))
    if form == "jsonl":
        path = folder / "docs.jsonl"
        rows = [json.dumps({"text": text, "labels": names}) for text, names in pairs]
        path.write_text("\n".join(rows) + "\n")
        return [path]
    if form == "packed":
        (path,) = write(folder, "jsonl", texts, labels)
        packed = path.with_suffix(".jsonl.gz")
        packed.write_bytes(gzip.compress(path.read_bytes()))
        return [packed]
    if form in ("csv", "tsv"):
        path = folder / f"docs.{form}"
        with path.open("w", encoding="utf-8", newline="") as stream:
            out = csv.writer(stream, delimiter="," if form == "csv" else "\t")
            out.writerow(["id", "head", "body", "tags"])
            out.writerows(["7", *text.split(" ", 1), ",".join(names)] for text, names in pairs)
        return [path, "--text", "head", "body", "--labels", "tags"]
    if form == "raw":
        path = folder / "trn.raw.txt"
        path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        names = "".join("|".join(names) + "\n" for names in labels)
        (folder / "Y.trn.txt").write_text(names, encoding="utf-8")
        return [path, "--label-file", folder / "Y.trn.txt", "--label-separator", "|"]
    assert form == "fasttext"
    path = folder / "docs.txt"
    words = [" ".join(f"__label__{n.replace(' ', '_')}" for n in names) for names in labels]
    path.write_text("".join(f"{front} {text}\n" for front, text in zip(words, texts, strict=True)))
    return [path]


def read(out):
    """The data set of a folder, and the label names of its training points."""
    data = snm.load_data(out)
    names = np.array(data.label_names)
    rows = [sorted(names[data.train.labels[i].indices]) for i in range(data.train.num_points)]
    return data, rows


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


def test_tfidf_equals_scikit_learn(tmp_path):
    (source,) = write(tmp_path / "in", "jsonl")
    texts, _ = documents(10, seed=1)
    call("data", "import", source, "--out", tmp_path / "out", "--vectorizer", "tfidf",
         "--ngrams", "1", "2", "--strip-accents")  # fmt: skip
    wanted = TfidfVectorizer(ngram_range=(1, 2), strip_accents="unicode").fit(TEXTS)
    found = Vectorizer.read(tmp_path / "out" / "vectorizer.json")
    assert "ete" in found.vocabulary
    np.testing.assert_allclose(
        found.transform(texts).toarray(), wanted.transform(texts).toarray(), rtol=1e-6
    )
    train = snm.load_data(tmp_path / "out").train
    np.testing.assert_allclose(
        train.features.toarray(), wanted.transform(TEXTS).toarray(), rtol=1e-6
    )


@pytest.mark.parametrize("vectorizer", ["tfidf", "counts", "hashing"])
@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (
            ["--analyzer=char_wb", "--ngrams", "2", "4", "--strip-accents"],
            dict(analyzer="char_wb", ngram_range=(2, 4), strip_accents="unicode"),
        ),
        (["--analyzer=char", "--ngrams", "1", "3"], dict(analyzer="char", ngram_range=(1, 3))),
        (["--stop-words=english", "--ngrams", "1", "2"],
         dict(stop_words="english", ngram_range=(1, 2))),
        ([r"--token-pattern=\S+", "--no-lowercase", "--binary"],
         dict(token_pattern=r"\S+", lowercase=False, binary=True)),
        ([r"--token-pattern=#(\w+)", "--strip-accents"],
         dict(token_pattern=r"#(\w+)", strip_accents="unicode")),
    ],
)  # fmt: skip
def test_ngrams_and_stop_words_equal_scikit_learn(tmp_path, vectorizer, options, wanted):
    texts = [
        f"{text} and  PLUMS\tof #été {n % 7} c++ #b{n % 3} c++" for n, text in enumerate(TEXTS)
    ]
    (source,) = write(tmp_path / "in", "jsonl", texts)
    least = [] if vectorizer == "hashing" else ["--min-points", "2"]
    if vectorizer == "hashing":
        made = HashingVectorizer(n_features=64, alternate_sign=False, norm=None, **wanted)
        options = [*options, "--features", "64"]
    else:
        made = {"tfidf": TfidfVectorizer, "counts": CountVectorizer}[vectorizer](min_df=2, **wanted)
    call("data", "import", source, "--out", tmp_path / "out", "--vectorizer", vectorizer,
         *options, *least)  # fmt: skip
    expected = made.fit_transform(texts)
    train = snm.load_data(tmp_path / "out").train
    np.testing.assert_allclose(train.features.toarray(), expected.toarray(), rtol=1e-6)
    # As it answers later, from the file alone.
    found, new = Vectorizer.read(tmp_path / "out" / "vectorizer.json"), documents(9, seed=2)[0]
    np.testing.assert_allclose(
        found.transform(new).toarray(), made.transform(new).toarray(), rtol=1e-6
    )
    if vectorizer != "hashing":
        assert found.vocabulary == tuple(made.get_feature_names_out())


@pytest.mark.parametrize("name", ["CountVectorizer", "TfidfVectorizer", "HashingVectorizer"])
def test_names_of_scikit_learn(tmp_path, name):
    (source,) = write(tmp_path / "in", "jsonl")
    short = {"CountVectorizer": "counts", "TfidfVectorizer": "tfidf"}.get(name, "hashing")
    for out, given in (("long", name), ("short", short)):
        call("data", "import", source, "--out", tmp_path / out, "--vectorizer", given)
    for file in ("vectorizer.json", "train.txt"):
        assert (tmp_path / "long" / file).read_bytes() == (tmp_path / "short" / file).read_bytes()


def test_frequent_words_are_left_out(tmp_path, capsys):
    texts = ["every word", "every letter", "every word of a text", "every text"]
    (source,) = write(tmp_path / "in", "jsonl", texts, [["x"]] * 4)
    call("data", "import", source, "--out", tmp_path / "out", "--max-share", "0.5")
    found = Vectorizer.read(tmp_path / "out" / "vectorizer.json")
    assert found.vocabulary == tuple(CountVectorizer(max_df=0.5).fit(texts).get_feature_names_out())
    command = ("data", "import", source, "--out", tmp_path / "no")
    for options, said in (
        (["--max-share", "0.1"], "in at least 1 of 4 texts, and in at most 0.1 of them"),
        (["--max-share", "0"], "--max-share: found 0.0, expected above 0, up to 1"),
        (["--token-pattern", "("], "--token-pattern: found '(' (missing ), unterminated"),
        (["--token-pattern", "(a)(b)"], "(several groups), expected a regular expression"),
        (["--token-pattern", ""], "--token-pattern: found '' (0 characters)"),
        (["--token-pattern", "a", "--analyzer=char"], "--token-pattern: found --analyzer char"),
        (["--like", tmp_path / "out", "--no-lowercase"], "--lowercase: found --like"),
    ):
        message = refused(capsys, *command, *options)
        assert said in message, message


def test_stop_words_follow_the_pattern(tmp_path):
    (source,) = write(tmp_path / "in", "jsonl", ["C++ and c++ or go"] * 2, [["x"]] * 2)
    words = tmp_path / "words.txt"
    words.write_text("C++\n")
    call("data", "import", source, "--out", tmp_path / "out", "--stop-words", words,
         "--no-lowercase", r"--token-pattern=\S+")  # fmt: skip
    path = tmp_path / "out" / "vectorizer.json"
    found = Vectorizer.read(path)
    assert found.stop_words == ("C++",) and found.vocabulary == ("and", "c++", "go", "or")
    assert json.loads(path.read_text())["format"] == "snm-vectorizer-3"
    other = dataclasses.replace(found, lowercase=True)
    assert not found.makes_features_of(other) and found.makes_features_of(Vectorizer.read(path))


def test_stop_words_of_a_file(tmp_path, capsys):
    """Cut as texts are: "don't" is the word "don" there."""
    (source,) = write(tmp_path / "in", "jsonl", ["we don't see THE old sea"] * 2, [["x"]] * 2)
    words = tmp_path / "words.txt"
    words.write_text("The\nDon't\n\n")
    call("data", "import", source, "--out", tmp_path / "out", "--stop-words", words)
    path = tmp_path / "out" / "vectorizer.json"
    found = Vectorizer.read(path)
    assert found.stop_words == ("don", "the")
    assert found.vocabulary == ("old", "sea", "see", "we")
    # Who reads the first format only must not answer without stop words.
    assert json.loads(path.read_text())["format"] == "snm-vectorizer-2"
    plain = dataclasses.replace(found, stop_words=())
    assert not found.makes_features_of(plain) and found.makes_features_of(Vectorizer.read(path))
    words.write_text("\n")
    for given, said in (
        ([words], "found no word, expected `english`"),
        ([tmp_path / "none.txt"], "none.txt: found no such file"),
        (["english", "--analyzer=char"], "--stop-words: found --analyzer char, expected"),
    ):
        message = refused(capsys, "data", "import", source, "--out", tmp_path / "no",
                          "--stop-words", *given)  # fmt: skip
        assert said in message, message
    assert not (tmp_path / "no").exists()


def test_hashing_equals_scikit_learn(tmp_path):
    (source,) = write(tmp_path / "in", "fasttext")
    call("data", "import", source, "--out", tmp_path / "out", "--vectorizer", "hashing",
         "--features", "64")  # fmt: skip
    wanted = HashingVectorizer(n_features=64, alternate_sign=False, norm=None).transform(TEXTS)
    train = snm.load_data(tmp_path / "out").train
    np.testing.assert_array_equal(train.features.toarray(), wanted.toarray())


def test_the_vocabulary_is_the_most_frequent_of_the_training_texts(tmp_path):
    texts = ["b b b a", "b c", "c d e", "a"]  # in 2 texts: a, b, c; words of one letter: none
    texts = [" ".join(2 * letter for letter in text.split()) for text in texts]
    (source,) = write(tmp_path / "in", "jsonl", texts, [["x"]] * 4)
    call("data", "import", source, "--out", tmp_path / "a", "--features", "2")
    assert Vectorizer.read(tmp_path / "a" / "vectorizer.json").vocabulary == ("aa", "bb")
    call("data", "import", source, "--out", tmp_path / "b", "--min-points", "2")
    assert Vectorizer.read(tmp_path / "b" / "vectorizer.json").vocabulary == ("aa", "bb", "cc")


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
    monkeypatch.setattr("snm.data.convert._CHUNK", 7)
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
        ("a.jsonl", "[1]\n", [], "a.jsonl:1: found a list, expected an object"),
        ("a.jsonl", '{"title": "x", "labels": []}\n', [], "no 'text' among 'title', 'labels'"),
        ("a.jsonl", '{"text": "xx", "labels": "a"}\n', [], "labels: 'a', expected a list"),
        ("a.csv", "text,labels\nxx,a,b\n", [], "a.csv:2: found 3 fields, expected 2"),
        ("a.csv", "title,labels\n", [], "a.csv:1: found no column 'text'"),
        ("a.svm", "1 2:1 2:2\n", [], "a.svm:1: found a feature twice"),
        ("a.svm", "1 2:x\n", [], "a.svm:1: found '2:x', expected a number after the colon"),
        ("a.svm", "1 2:nan\n", [], "a.svm:1: found a value that is not finite"),
        ("a.txt", "only words\n", [], "--format, one of jsonl, csv, raw"),
        ("a.txt", "only words\n", ["--format=fasttext"], "a.txt:1: found a line without __label__"),
        ("a.txt", "only words\n", ["--format=raw"], "--label-file: found none"),
        (
            "a.jsonl",
            '{"text": "x", "labels": ["a"]}\n',
            [],
            "no word that occurs in at least 1 of 1 texts",
        ),
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
            'text,labels\n"x"x,a\n',
            [],
            'a.csv:2: found text after a closed quote, expected a new cell, or "" for a quote',
        ),
        (
            "a.csv",
            "text;labels\nxx;a\n",
            [],
            "found no column 'text' among text;labels, expected columns separated by commas: this",
        ),
        (
            "a.csv",
            "text\tlabels\nxx\ta\n",
            [],
            "among text\tlabels, expected columns separated by commas: this header has one",
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
        ("a.jsonl", b'{"text": "\xff"}', [], "a.jsonl:1: found bytes that are not text"),
    ],
)
def test_bad_input_leaves_no_folder(tmp_path, capsys, name, text, options, said):
    source = tmp_path / name
    source.write_bytes(text if isinstance(text, bytes) else text.encode())
    message = refused(capsys, "data", "import", source, "--out", tmp_path / "out", *options)
    assert said in message, message
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_raw_text_and_labels_of_different_lengths(tmp_path, capsys):
    (tmp_path / "x").write_text("one\ntwo\nthree\n")
    (tmp_path / "y").write_text("a\nb\n")
    said = refused(capsys, "data", "import", tmp_path / "x", "--label-file", tmp_path / "y",
                   "--out", tmp_path / "out")  # fmt: skip
    assert "found the end of the file before line 3" in said
    assert "exists" not in said and not (tmp_path / "out").exists()
    (tmp_path / "out").mkdir()
    said = refused(capsys, "data", "import", tmp_path / "x", "--out", tmp_path / "out")
    assert said.endswith("found a file or folder of that name, expected a new folder")


def test_import_train_and_predict_from_texts(tmp_path, capsys):
    """Import, train, and predict from texts: in Python, and on the command line."""
    (source,) = write(tmp_path / "in", "jsonl")
    call("data", "import", source, "--out", tmp_path / "data", "--test-fraction", "0.2",
         "--stop-words", "english")  # fmt: skip
    flags = [flag for flag in tiny.FLAGS if not flag.startswith(("--sampled", "--mined", "--ep"))]
    call("train", tmp_path / "data", "--run-dir", tmp_path / "run", *flags, "--epochs=20")
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
    objects.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    for words in ([lines], [objects]):
        call("predict", tmp_path / "run", *words, "--k=1", "--output", out)
        names = [json.loads(line)["names"] for line in out.read_text().splitlines()]
        assert names == [["fruit & nuts"], ["tools"], ["ça"]]
    objects.write_text('{"title": 1}\n')
    capsys.readouterr()
    assert "new.jsonl:1: found" in refused(
        capsys, "predict", tmp_path / "run", objects, "--output", out
    )
    with pytest.raises(InputError, match="found one text, expected a list"):
        model.predict("a saw", k=1)

    # Next month's texts, whose labels come in another order.
    (source,) = write(tmp_path / "next", "jsonl", *documents(30, seed=9))
    capsys.readouterr()
    call("data", "import", source, "--out", tmp_path / "since", "--like", tmp_path / "run")
    evaluate = ["evaluate", str(tmp_path / "run"), "--data", str(tmp_path / "since")]
    said = capsys.readouterr().out
    assert f"next: snm {' '.join(evaluate)}\n" in said
    assert said.startswith("30 points, ")  # which are test points to `snm evaluate`
    call(*evaluate, "--json")
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["metrics"]["points"] == 30 and found["metrics"]["P@1"] > 90


# -- in the ids of a run or of other data ------------------------------------------------------

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
    listed = tmp_path / "docs.jsonl"  # its labels are a list: no separator
    rows = ({"text": "words", "labels": [names]} for names in labels)
    listed.write_text("".join(json.dumps(row) + "\n" for row in rows))
    call("data", "import", listed, "--out", tmp_path / "listed")
    assert "most labels" not in capsys.readouterr().out


def test_texts_to_a_model_of_features(tmp_path):
    folder = tiny.write(tmp_path / "data")
    snm.train(folder, tiny.CONFIG, tmp_path / "run")
    with pytest.raises(InputError, match="found a model of features"):
        snm.load(tmp_path / "run").predict(["a text"])


@pytest.mark.parametrize(
    "change",
    [{"format": "other"}, {"kind": "best"}, {"vocabulary": ["a"]}, {"idf": [1.0]}, {"ngrams": 1},
     {"vocabulary": None}, {"vocabulary": ["aa", "aa"]}, {"ngrams": [2, 1]}, {"ngrams": [0, 0]},
     {"num_features": float("inf")}, {"num_features": 0, "vocabulary": []},
     {"kind": "hashing", "vocabulary": None, "num_features": 2**40},
     {"kind": "tfidf", "idf": 3.0}, {"kind": "tfidf", "idf": [1.0, float("nan")]},
     {"format": "snm-vectorizer-2"},
     {"format": "snm-vectorizer-2", "analyzer": "lines", "stop_words": []},
     {"format": "snm-vectorizer-2", "analyzer": "char", "stop_words": None},
     {"format": "snm-vectorizer-3", "analyzer": "word", "stop_words": []},
     *({"format": "snm-vectorizer-3", "analyzer": "word", "stop_words": [], "token_pattern": None,
        "lowercase": True, "binary": False, **wrong}
       for wrong in ({"token_pattern": "("}, {"token_pattern": 3}, {"token_pattern": "a" * 501},
                     {"lowercase": 1}, {"binary": None}))],
)  # fmt: skip
def test_damaged_vectorizers(tmp_path, change):
    path = tmp_path / "vectorizer.json"
    Vectorizer("counts", 2, vocabulary=("aa", "bb")).write(path)
    assert Vectorizer.read(path).transform(["aa bb bb"]).toarray().tolist() == [[1, 2]]
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(InputError, match="a vectoriser that `snm data import` wrote"):
        Vectorizer.read(path)
    path.write_text("{")
    with pytest.raises(InputError, match="damaged JSON"):
        Vectorizer.read(path)
