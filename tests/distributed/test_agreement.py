"""Processes that differ: what the error line names, and the mark in the folder of the run."""

import json

import pytest

from snm.distributed import agreement
from snm.distributed.agreement import (
    check_equal,
    check_same_folder,
    find_difference,
    have_same_folder,
)
from snm.errors import InputError


def test_processes_that_agree_are_left_alone():
    assert find_difference([{"seed": "0"}] * 3, "") is None
    check_equal({"seed": "0"}, "")  # one process


@pytest.mark.parametrize(
    ("gathered", "line"),
    [
        ([{"a": "1"}, {"a": "1"}, {"a": "2"}], "process 2: found a = 2, expected a = 1"),
        ([{"a": "1"}, {"a": "2"}, {"a": "2"}], "processes 1, 2: found a = 2, expected a = 1"),
        ([{"a": "1"}, {"a": "2"}, {"a": "3"}], "process 1: found a = 2, expected a = 1"),
        ([{"a": "1"}] + [{"a": "2"}] * 5, "processes 1, 2, 3 and 2 others: found a = 2, expected"),
        ([{"a": "1"}, {}], "process 1: found a = nothing, expected a = 1"),
        ([{}, {"b": "1"}], "process 1: found b = 1, expected b = nothing"),
        ([dict.fromkeys("abcde", "1"), dict.fromkeys("abcde", "2")],
         "process 1: found a = 2, b = 2, c = 2 and 2 more, expected a = 1, b = 1, c = 1 and 2"),
    ],
)  # fmt: skip
def test_the_line_names_what_differs_and_where(gathered, line):
    error = find_difference(gathered, "mend it")
    assert str(error).startswith(line) and str(error).endswith(" as in process 0: mend it")


@pytest.mark.parametrize("number", [0, 1])
def test_every_process_raises_the_same_line(number, monkeypatch):
    facts = [{"seed": "0"}, {"seed": "7"}]
    monkeypatch.setattr(agreement, "has_several_processes", lambda: True)
    monkeypatch.setattr(agreement, "gather_texts", lambda text: [json.dumps(one) for one in facts])
    with pytest.raises(InputError, match="process 1: found seed = 7, expected seed = 0 as in"):
        check_equal(facts[number], "start both alike")


@pytest.fixture
def several(monkeypatch):
    """Plays process 0 or 1 of two; `others` says what the other one answers."""
    monkeypatch.setattr(agreement, "has_several_processes", lambda: True)
    monkeypatch.setattr(agreement, "_MARKER_TIMEOUT", 0.2)

    def play(number, others):
        answers, sent = iter(others), []

        def texts(mine):
            sent.append(mine)
            return [mine, next(answers)] if number == 0 else [next(answers), mine]

        monkeypatch.setattr(agreement, "is_first_process", lambda: number == 0)
        monkeypatch.setattr(agreement, "gather_texts", texts)
        return sent

    return play


@pytest.mark.parametrize("folder", [".", "new", "new/below"])
def test_process_0_marks_the_nearest_folder_for_a_moment(folder, several, tmp_path):
    sent = several(0, ["", "yes"])
    check_same_folder(tmp_path / folder, "--run-dir a")
    assert sent[0].startswith(f"{tmp_path}/.snm-same-disk-") and sent[1] == "yes"
    assert not list(tmp_path.iterdir())
    several(0, ["", ""])
    with pytest.raises(InputError, match=r"^run_dir a: found another folder in process 1 than in"):
        check_same_folder(tmp_path / folder, "--run-dir a")
    assert not list(tmp_path.iterdir())


def test_a_process_with_a_folder_of_its_own_is_refused(several, tmp_path):
    (mark := tmp_path / ".snm-same-disk-1").touch()
    assert several(1, [str(mark), "yes"]) == []
    check_same_folder(tmp_path, "--run-dir a")
    mark.unlink()
    several(1, [str(mark), "yes"])
    with pytest.raises(InputError, match="found another folder in process 1 than in process 0"):
        check_same_folder(tmp_path, "--run-dir a")


def test_a_folder_that_cannot_be_marked_is_for_others_to_refuse(several, tmp_path, monkeypatch):
    monkeypatch.setattr(agreement.Path, "touch", lambda *_, **__: tmp_path.joinpath("a/b").stat())
    sent = several(0, ["", "yes"])
    check_same_folder(tmp_path, "--run-dir a")
    assert sent == ["", "yes"]


def test_folders_are_one_if_all_see_the_marker_under_their_own_paths(
    several, tmp_path, monkeypatch
):
    monkeypatch.setattr(agreement, "_SHORT_TIMEOUT", 0.2)
    told = []
    monkeypatch.setattr(agreement, "min_over_processes", lambda number: told.append(number) or 1)
    for name in ("own", "other"):
        (tmp_path / name).mkdir()
    sent = several(0, [""])
    assert have_same_folder(tmp_path / "own") and sent[0].startswith(str(tmp_path / "own"))
    assert not list((tmp_path / "own").iterdir())
    (tmp_path / "own" / ".snm-same-disk-1").touch()
    several(1, ["/elsewhere/.snm-same-disk-1"] * 2 + ["", "/elsewhere/.snm-same-disk-1"])
    for folder in ("own", "other", "own"):  # the last time, process 0 could not write
        have_same_folder(tmp_path / folder)
    have_same_folder(None)
    assert told == [1, 1, 0, 0, 0]
    several(0, ["", ""])
    have_same_folder(None)
    monkeypatch.setattr(agreement, "min_over_processes", lambda number: 0)  # of another process
    assert told[5:] == [0] and not have_same_folder(tmp_path / "own")
