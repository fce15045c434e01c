"""One file of points that files of row numbers cut: what is written, found, said and refused."""

import os
import shlex

import pytest
import tiny
from command_line import call, refused

import snm
from snm.data.formats.split_files import SplitFiles
from snm.doctor.data_checks import examine_data

ROWS = tiny.rows(5, 0)
OUT = ("--out", "DATA")


@pytest.fixture
def files(tmp_path):
    """The names are the repository's; each line has a row of the first split, and of another."""
    folder = tmp_path / "S 1"
    folder.mkdir()
    points = folder / "S_data.txt"
    points.write_text(f"5 {tiny.FEATURES} {tiny.LABELS}\n" + "\n".join(ROWS) + "\n")
    (folder / "s_trSplit.txt").write_text("5 1\n1 2\n3 3\n")
    (folder / "s_tstSplit.txt").write_text("2 1\n4 5\n\n")
    (folder / "README.txt").write_text("five points\n")
    return SplitFiles(points, folder / "s_trSplit.txt", folder / "s_tstSplit.txt")


def command(files, *more):
    return ["data", "split", files.points, "--train", files.train, "--test", files.test, *more]


def test_rows_are_picked_by_hand(files, tmp_path, capsys):
    out = tmp_path / "out"
    call(*command(files, "--out", out))
    for part, rows in (("train", (4, 0, 2)), ("test", (1, 3))):
        head, *lines = (out / f"{part}.txt").read_text().splitlines()
        assert head == f"{len(rows)} {tiny.FEATURES} {tiny.LABELS}"
        assert lines == [ROWS[row] for row in rows]
    sizes = f"{tiny.FEATURES} features, {tiny.LABELS} labels"
    assert capsys.readouterr().out.splitlines() == [
        f"3 training and 2 test points, {sizes} in {out}",
        f"next: snm train {out} --run-dir RUN",
    ]


def test_another_column(files, tmp_path, capsys):
    """Its parts have a row in common, and leave one out."""
    out = tmp_path / "out"
    call(*command(files, "--out", out, "--column", 2))
    assert (out / "test.txt").read_text().splitlines()[1:] == [ROWS[0], ROWS[4]]
    said = capsys.readouterr().out
    assert "1 point in train and in test" in said
    assert "1 point in neither part: left out" in said


def test_repeated_rows_are_told(files, tmp_path, capsys):
    """Row 5 is in train three times, row 2 in test twice."""
    files.train.write_text("5\n1\n5\n3\n5\n")
    files.test.write_text("2\n4\n2\n")
    out = tmp_path / "out"
    call(*command(files, "--out", out))
    said = capsys.readouterr().out
    assert "5 training and 3 test points" in said
    assert "3 repeated rows in train or in test: their points count" in said
    assert "in neither" not in said and "in train and in test" not in said
    assert (out / "test.txt").read_text().splitlines()[1:] == [ROWS[1], ROWS[3], ROWS[1]]


@pytest.mark.parametrize(
    ("text", "line", "found", "expected"),
    [
        ("0 1\n", ":1", "'0'", "a row from 1 to 5"),
        ("1 1\n6 1\n", ":2", "'6'", "a row from 1 to 5"),
        ("x\n", ":1", "'x'", "a row from 1 to 5"),
        ("²\n", ":1", "'\\xb2'", "a row from 1 to 5"),
        ("\n", "", "no row", "the rows of a part, one a line"),
    ],
)
def test_faulty_rows(files, tmp_path, capsys, text, line, found, expected):
    files.train.write_text(text)
    said = refused(capsys, *command(files, "--out", tmp_path / "out"))
    assert said == f"{files.train}{line}: found {found}, expected {expected}"
    assert not (tmp_path / "out").exists()


def test_refusals(files, tmp_path, capsys):
    out = ("--out", tmp_path / "out")
    assert refused(capsys, *command(files, *out, "--column", 0)).startswith("--column: found 0")
    said = refused(capsys, *command(files, *out, "--column", 3))
    assert said == f"{files.train}:1: found 2 columns, expected 3, the one to read, or more"
    files.test.write_text("2\n")
    said = refused(capsys, *command(files, *out, "--column", 2))
    assert said == f"{files.test}:1: found 1 column, expected 2, the one to read, or more"
    os.mkfifo(pipe := tmp_path / "pipe")
    said = refused(capsys, "data", "split", pipe, *out)
    assert said == f"{pipe}: found no regular file, expected a file of points"
    said = refused(capsys, "data", "split", tmp_path / "S_data.txt", *out)
    assert said == f"{tmp_path / 'S_data.txt'}: found no such file, expected a file of points"
    files.test.rename(files.test.with_name("rows.txt"))
    said = refused(capsys, "data", "split", files.points, *out)
    assert said == (
        f"--test: found no ..._tstSplit.txt beside {files.points}, "
        "expected the file with the rows of the test points"
    )
    files.train.with_name("a_trsplit.txt").write_text("1\n")
    said = refused(capsys, "data", "split", files.points, *out)
    assert said.startswith("--train: found a_trsplit.txt and s_trSplit.txt, expected the file")
    assert "a new folder" in refused(capsys, *command(files, "--out", tmp_path))


@pytest.mark.parametrize("other", ["S_train_split.txt", "S-trnSplit.txt.gz"])
def test_files_are_found_by_their_names(files, other):
    assert SplitFiles.beside(files.points) == files
    assert SplitFiles.beside(files.train) is None
    renamed = files.train.rename(files.train.with_name(other))
    if other.endswith(".gz"):
        assert SplitFiles.beside(files.points).train == renamed
    (files.points.parent / "more.txt").write_text("1 2 3\n")  # either may have the points
    assert SplitFiles.beside(files.points) is None


def test_the_command_is_named_where_somebody_looks(files, tmp_path, capsys):
    """By the doctor, also of a folder above, and by what refuses the file or its folder."""
    folder = files.points.parent
    said = shlex.join(["snm", "data", "split", str(files.points), *OUT])
    for looked_at in (folder, tmp_path):
        (finding,), _ = examine_data(str(looked_at))
        assert finding.advice == (
            "s_trSplit.txt and s_tstSplit.txt have rows of S_data.txt: make a data set of them "
            f"with `{said}`"
        )
    assert f"expected what `{said}` makes" in refused(capsys, "data", "stats", folder)
    assert f"expected `{said}`" in refused(capsys, "data", "import", files.points, *OUT)
    words = shlex.split(said)[1:-1]
    call(*words, tmp_path / "out")
    assert snm.load_data(tmp_path / "out").train.num_points == 3


def test_files_of_rows_are_not_taken_for_points(files):
    """Three columns look as a header does."""
    files.points.unlink()
    for path in (files.train, files.test):
        path.write_text("1 2 3\n")
    (finding,), _ = examine_data(str(files.train.parent))
    assert finding.advice.startswith("the folder holds README.txt, s_trSplit.txt, s_tstSplit.txt")
