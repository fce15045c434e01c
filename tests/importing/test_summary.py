"""What an import says of points without features, and of the names of labels."""

import pytest
from command_line import call
from data.documents import write_jsonl


def said_of(tmp_path, capsys, labels, *options, out="out"):
    """What the import of points with these labels prints."""
    rows = ({"text": f"word{i} some", "labels": names} for i, names in enumerate(labels))
    source = write_jsonl(tmp_path / f"{out}.jsonl", rows)
    call("data", "import", source, "--out", tmp_path / out, *options)
    return capsys.readouterr().out.replace("\n", " ")


def test_a_test_part_of_other_words(tmp_path, capsys):
    """Few of all points, but most of the test points."""
    rows = [{"text": f"word{i % 50}", "labels": ["a"]} for i in range(200)]
    source = write_jsonl(tmp_path / "in.jsonl", rows)
    texts = ["words", "wording", " ", "word1"]
    test = write_jsonl(tmp_path / "test.jsonl", [{"text": text, "labels": ["a"]} for text in texts])
    call("data", "import", source, "--test", test, "--out", tmp_path / "out")
    said = " ".join(capsys.readouterr().out.split())
    assert "50% of the test points have a text, but no feature" in said
    assert "other options may find features in more texts: --token-pattern" in said


@pytest.mark.parametrize("name", ["nan", "NaN", "None", "null", "NA", "N/A", "<NA>"])
def test_a_label_that_looks_like_a_missing_value(tmp_path, capsys, name):
    labels = [["hw"], [name], ["hw", name]]
    said = said_of(tmp_path, capsys, labels)
    assert f"2 points have the label {name!r}, which looks like a missing value" in said
    said = said_of(tmp_path, capsys, labels[1:2], "--like", tmp_path / "out", out="later")
    assert "missing value" not in said  # the label is known


def test_names_that_only_start_like_a_missing_value(tmp_path, capsys):
    assert "missing value" not in said_of(tmp_path, capsys, [["nano"], ["nans"], ["Nan"]])
    said = said_of(tmp_path, capsys, [["nan"], ["hw"]], out="one")
    assert "1 point has the label 'nan', which looks like a missing value" in said


def test_names_that_differ_only_in_case(tmp_path, capsys):
    labels = [["hw"], ["HW"], ["Hw", "net"], ["Stra\u00dfe"], ["STRASSE"]]
    said = said_of(tmp_path, capsys, labels)
    assert "5 labels differ from another only in case, such as 'hw' and 'HW'" in said
    assert "in case" not in said_of(tmp_path, capsys, [["hw"], ["net"]], out="other")


def test_names_that_were_given_are_not_compared(tmp_path, capsys):
    """Those of `--label-names` are told apart by their numbers."""
    (tmp_path / "names.txt").write_text("Candle\ncandle\nnan\n")
    said = said_of(tmp_path, capsys, [["0"], ["1"], ["2"]], "--label-names", tmp_path / "names.txt")
    assert "in case" not in said and "missing value" not in said
