"""Texts in which a vectorizer finds nothing: the error says what it looked for."""

import json

import pytest
from command_line import call, refused

import snm

OTHERS = "words, or --token-pattern '\\S+' (single letters, signs), --analyzer char_wb --ngrams 1 3"


@pytest.mark.parametrize(
    ("text", "options", "found", "expected"),
    [
        ("x", [], "no word in 1 text (of two or more letters or digits)", OTHERS),
        ("x", ["--token-pattern=[yz]"], "no word in 1 text", "words, or --analyzer char_wb --ng"),
        (
            "the",
            ["--stop-words=english"],
            "no word in 1 text (of two or more letters or digits, and none of --stop-words)",
            OTHERS,
        ),
        (
            "the",
            ["--stop-words=english", "--token-pattern=\\S+"],
            "no word in 1 text (none of --stop-words)",
            "words, or --analyzer char_wb",
        ),
        (
            "hello",
            ["--ngrams", "2", "3"],
            "no 2 words in a row in 1 text",
            "longer texts, or lower --ngrams",
        ),
        (
            "hello",
            ["--analyzer=char", "--ngrams", "9", "9"],
            "no 9 characters in a row in 1 text",
            "longer texts, or lower --ngrams",
        ),
        (
            "x",
            ["--vectorizer=hashing", "--token-pattern=[yz]"],
            "no word in 1 text",
            "words, or --a",
        ),
        ("", ["--analyzer=char"], "no word in 1 text", "texts that are not empty"),
        (
            "xx",
            ["--min-points=2"],
            "no word that occurs in at least 2 of 1 texts",
            "a lower --min-points",
        ),
    ],
)
def test_no_word_is_left(tmp_path, capsys, text, options, found, expected):
    source = tmp_path / "a.jsonl"
    source.write_text(json.dumps({"text": text, "labels": ["a"]}))
    said = refused(capsys, "data", "import", source, "--out", tmp_path / "out", *options)
    assert said.startswith(f"{source}: found {found}, expected {expected}")
    assert not (tmp_path / "out").exists()


def test_hashing_takes_texts_of_which_one_has_a_word(tmp_path):
    source = tmp_path / "a.jsonl"
    lines = [{"text": text, "labels": ["a"]} for text in ("x", "", "word", "x")]
    source.write_text("\n".join(map(json.dumps, lines)))
    call("data", "import", source, "--out", tmp_path / "out", "--vectorizer=hashing")
    features = snm.load_data(tmp_path / "out").train.features
    assert features.getnnz(axis=1).tolist() == [0, 0, 1, 0]
