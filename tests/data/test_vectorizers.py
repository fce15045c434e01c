"""Vectorizers of `snm data import`: features equal to those of scikit-learn."""

import dataclasses
import json
from unicodedata import normalize

import numpy as np
import pytest
from command_line import call, refused
from data.documents import TEXTS, documents, write
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer

import snm
from snm.data.vectorizer import Vectorizer
from snm.importing.items import items_as_text


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
        (["--max-share=0.5", "--vectorizer=hashing"], "--max-share: found --vectorizer hashing"),
        (
            ["--min-points=2", "--vectorizer=HashingVectorizer"],
            "--min-points: found --vectorizer HashingVectorizer, expected counts or tfidf",
        ),
        (["--token-pattern", "("], "--token-pattern: found '(' (missing ), unterminated"),
        (["--token-pattern", "(a)(b)"], "(several groups), expected a regular expression"),
        (["--token-pattern", ""], "--token-pattern: found '' (0 characters)"),
        (["--token-pattern", "a", "--analyzer=char"], "--token-pattern: found --analyzer char"),
        (["--like", tmp_path / "out", "--no-lowercase"], "--no-lowercase: found --like"),
    ):
        message = refused(capsys, *command, *options)
        assert said in message, message
    call(*command, "--vectorizer=hashing", "--min-points=1", "--max-share=1")  # that drops none


def test_stop_words_follow_the_pattern(tmp_path):
    (source,) = write(tmp_path / "in", "jsonl", ["C++ and c++ or go"] * 2, [["x"]] * 2)
    words = tmp_path / "words.txt"
    words.write_text("C++\n")
    call("data", "import", source, "--out", tmp_path / "out", "--stop-words", words,
         "--no-lowercase", r"--token-pattern=\S+")  # fmt: skip
    path = tmp_path / "out" / "vectorizer.json"
    found = Vectorizer.read(path)
    assert found.stop_words == ("C++",) and found.vocabulary == ("and", "c++", "go", "or")
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


def test_the_vocabulary_is_the_most_frequent_of_the_training_texts(tmp_path):
    texts = ["b b b a", "b c", "c d e", "a"]  # in 2 texts: a, b, c; words of one letter: none
    texts = [" ".join(2 * letter for letter in text.split()) for text in texts]
    (source,) = write(tmp_path / "in", "jsonl", texts, [["x"]] * 4)
    call("data", "import", source, "--out", tmp_path / "a", "--features", "2")
    assert Vectorizer.read(tmp_path / "a" / "vectorizer.json").vocabulary == ("aa", "bb")
    call("data", "import", source, "--out", tmp_path / "b", "--min-points", "2")
    assert Vectorizer.read(tmp_path / "b" / "vectorizer.json").vocabulary == ("aa", "bb", "cc")


@pytest.mark.parametrize("mark", [",", ";", "|", " ", "-", "]", "^"])
def test_the_mark_between_items_is_known_from_the_pattern(mark):
    texts = items_as_text(("a", "b_c"), mark, ("items",))
    assert texts.item_separator == mark
    np.testing.assert_array_equal(texts.transform([f"b_c{mark}a"]).toarray(), [[1, 1]])
    for pattern in (None, r"\S+", r"[^\,\s]+"):
        assert dataclasses.replace(texts, token_pattern=pattern).item_separator is None


@pytest.mark.parametrize("options", [[], ["--analyzer=char", "--ngrams", "1", "3"]])
def test_accents_that_are_characters_of_their_own_cut_no_word(tmp_path, options):
    rows = [
        ("el café de Ångström", "a"),
        ("crème brûlée", "b"),
        ("el café", "b"),
        ("한국어 문서", "a"),
    ]
    found = []
    for form in ("NFC", "NFD"):
        folder = tmp_path / form
        folder.mkdir()
        lines = [json.dumps({"text": normalize(form, text), "labels": [y]}) for text, y in rows]
        (folder / "in.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
        call("data", "import", folder / "in.jsonl", "--out", folder / "out", *options)
        vectorizer = Vectorizer.read(folder / "out" / "vectorizer.json")
        found.append((vectorizer.vocabulary, snm.load_data(folder / "out").train.features))
        same = [
            vectorizer.transform([normalize(f, text) for text, _ in rows]) for f in ("NFC", "NFD")
        ]
        np.testing.assert_array_equal(same[0].toarray(), same[1].toarray())
    assert found[0][0] == found[1][0] and ("café" in found[0][0] or options)
    np.testing.assert_array_equal(found[0][1].toarray(), found[1][1].toarray())
