"""What `snm doctor` says of a folder whose files have other names than those of a data set."""

import gzip
import json
import re
import shlex

import pytest
from command_line import call

import snm
from snm.doctor.data_checks import examine_data


def advice(folder):
    (finding,), _ = examine_data(str(folder))
    return finding.advice


def write(path, *objects):
    text = "".join(json.dumps(one) + "\n" for one in objects).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)


@pytest.mark.parametrize("end", [".gz", ""])
def test_the_command_for_raw_text_of_the_repository(tmp_path, end):
    folder = tmp_path / "LF Titles"
    folder.mkdir()
    write(folder / f"trn.json{end}", {"title": "red wax", "target_ind": [2]})
    write(folder / f"tst.json{end}", {"title": "blue wax", "target_ind": [0]})
    write(folder / f"lbl.json{end}", *({"title": name} for name in "abc"))
    (folder / "filter_labels_test.txt").write_text("0 1\n")
    said = advice(tmp_path)  # also of a folder above
    assert said.startswith(f"trn.json{end} has texts, and lbl.json{end} the names of their labels:")
    (command,) = re.findall("`(.*)`", said)
    words = shlex.split(command)
    assert words[:2] == ["snm", "data"] and words[-2:] == ["--out", "DATA"]
    call(*words[1:-1], tmp_path / "data")
    data = snm.load_data(tmp_path / "data")
    assert data.label_names == ("a", "b", "c")
    assert data.train.labels.indices.tolist() == [2] and data.test.labels.indices.tolist() == [0]

    # Other fields, or fields that cannot be read, have no command; points come before labels.
    write(folder / f"trn.json{end}", {"text": "red wax", "target_ind": [2]})
    assert advice(folder) == (
        f"trn.json{end} looks like JSON lines: bring it in with `snm data import`"
    )
    (folder / f"trn.json{end}").write_bytes(b"{" if end == "" else gzip.compress(b"{"))
    assert advice(folder).startswith(f"trn.json{end} looks like JSON lines: ")
    (folder / f"trn.json{end}").unlink()
    assert advice(folder).startswith(f"tst.json{end} looks like JSON lines: ")
    (folder / "trn.parquet").write_bytes(b"PAR1\x15\x04")
    assert advice(folder).startswith("trn.parquet looks like a Parquet file: bring it in with ")


def test_training_points_come_before_test_points_and_filters(tmp_path):
    (tmp_path / "filter_labels_test.txt").write_text("0 1\n")
    assert advice(tmp_path).startswith("the folder holds filter_labels_test.txt; ")
    (tmp_path / "a_test.txt").write_text("1 30 20\n1 2:1\n")
    assert advice(tmp_path).endswith("a header: name it test.txt")
    (tmp_path / "a_train.txt").write_text("1 30 20\n1 2:1\n")
    assert advice(tmp_path).endswith("a header: name it train.txt")


def test_a_header_says_more_than_the_suffix_of_another_file(tmp_path):
    (tmp_path / "meta.tsv").write_text("id\tname\n1\ta\n")
    assert advice(tmp_path).startswith("meta.tsv looks like CSV: ")
    (tmp_path / "my_test.txt").write_text("3 5 2\n0 1:1\n1 2:1\n0 3:1\n")
    assert advice(tmp_path).startswith("my_test.txt looks like the repository's text with a header")
