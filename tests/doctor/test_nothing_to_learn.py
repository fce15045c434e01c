"""Data of which nothing can be learned, or whose ids may start at 1."""

import tiny
from doctor.test_data_checks import found, lines_of, write_lines


def test_data_of_which_nothing_can_be_learned(tmp_path):
    folder = tiny.write(tmp_path / "data")
    lines = lines_of(folder)
    write_lines(folder, [lines[0], *(" " + line.partition(" ")[2] for line in lines[1:])])
    assert found(folder, "error")["empty rows"].found == "no training point has a label"
    write_lines(folder, ["2 30 1", "0 2:1", "0 3:1"])
    (folder / "test.txt").unlink()
    assert found(folder, "error")["labels"].found == "1 label"
    assert "28 of 30 features occur in no training point" in found(folder)["features"].found


def test_labels_that_may_start_at_1(tmp_path):
    folder = tiny.write(tmp_path / "data", test=False)
    rows = [f"{1 + n % 19} 2:1" for n in range(60)]
    write_lines(folder, ["60 30 20", *rows])
    assert found(folder, "note")["index base"].found == "label 0 occurs nowhere"
    write_lines(folder, ["60 30 20", "0 2:1", *rows[1:]])
    assert "index base" not in found(folder)
