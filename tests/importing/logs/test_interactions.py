"""`snm data interactions`, and the road from a file to answers."""

import gzip
import json

import numpy as np
import pytest
from command_line import call, refused
from data.logs import by_hand, log, write_csv

import snm
from snm.config.resolve import resolve
from snm.config.settings import Config
from snm.data.vectorizer import Vectorizer


@pytest.mark.parametrize("form", ["csv", "jsonl", "packed"])
def test_every_format_gives_the_same_data(tmp_path, form):
    rows = log()
    if form in ("csv", "packed"):
        source = write_csv(tmp_path / "log.csv", rows)
        if form == "packed":
            (tmp_path / "log.csv.gz").write_bytes(gzip.compress(source.read_bytes()))
            source = tmp_path / "log.csv.gz"
    else:
        lines = (json.dumps({"user": u, "item": i, "when": t}) for u, i, t in rows)
        source = tmp_path / "log.jsonl"
        source.write_text("".join(f"{line}\n" for line in lines))
    call("data", "interactions", source, "--out", tmp_path / "out", "--time", "when",
         "--test-fraction", 0.2)  # fmt: skip
    data, wanted = snm.load_data(tmp_path / "out"), by_hand(rows)
    assert data.label_names == tuple(sorted({item for _, item, _ in rows}))
    assert 5 < data.test.num_points < 30
    of_parts = []
    for part, points in (("train", data.train), ("test", data.test)):
        users = (tmp_path / "out" / f"{part}_rows.txt").read_text().splitlines()
        assert len(users) == points.num_points
        of_parts += users
        for row, user in enumerate(users):
            both = points.features[row].indices, points.labels[row].indices
            names = [[data.label_names[item] for item in part] for part in both]
            count = max(1, round(0.2 * len(wanted[user])))
            assert names == [sorted(wanted[user][:-count]), sorted(wanted[user][-count:])]
    assert sorted(of_parts) == sorted(user for user, items in wanted.items() if len(items) > 1)


def test_users_stay_in_their_part(tmp_path):
    """Later logs begin with other users, and lack some; a larger fraction only adds test users."""
    rows = [(f"{user:04x}é", f"i{user % 5}{item}", item) for user in range(1000) for item in (0, 1)]
    parts = {}
    for name, some, options in (
        ("old", rows[:1200], (0.2,)),
        ("new", rows[:400:-1], (0.2,)),
        ("more", rows, (0.3,)),
        ("seed", rows, (0.2, "--seed", 1)),
    ):
        source = write_csv(tmp_path / f"{name}.csv", some)
        call("data", "interactions", source, "--out", tmp_path / name, "--test-fraction", *options)
        parts[name] = [
            set((tmp_path / name / f"{part}_rows.txt").read_text().splitlines())
            for part in ("train", "test")
        ]
    (train, test), (later_train, later_test) = parts["old"], parts["new"]
    assert not train & later_test and not test & later_train and train & later_train
    assert 85 <= len(test) <= 155 and 120 <= len(later_test) <= 200  # 120 and 160, four deviations
    assert test | later_test < parts["more"][1]
    assert 120 <= len(parts["seed"][1] - parts["more"][1]) <= 170  # 140 where draws are apart


@pytest.mark.parametrize("dates", [False, True])
def test_a_split_by_time(tmp_path, capsys, dates):
    """An item that a user came to before, and again later, is no label of the test point."""
    rows = log()
    source, since = write_csv(tmp_path / "log.csv", rows), "450"
    if dates:
        dated = [(u, i, f"2024-05-31T12:{int(t) // 60:02}:{int(t) % 60:02}Z") for u, i, t in rows]
        source, since = write_csv(tmp_path / "log.csv", dated), "2024-05-31T14:07:30+02:00"
    call("data", "interactions", source, "--out", tmp_path / "out", "--time", "when",
         "--test-from", since)  # fmt: skip
    said = capsys.readouterr().out
    data, wanted = snm.load_data(tmp_path / "out"), by_hand(rows)
    before = by_hand([row for row in rows if row[2] < 450])
    points = {"train": {}, "test": {}}
    for user, items in wanted.items():
        known = before.get(user, [])
        if len(known) > 1:
            count = max(1, round(0.2 * len(known)))
            points["train"][user] = known[:-count], known[-count:]
        if known and len(items) > len(known):
            points["test"][user] = known, items[len(known) :]
    for part, of_part in (("train", data.train), ("test", data.test)):
        users = (tmp_path / "out" / f"{part}_rows.txt").read_text().splitlines()
        assert set(users) == set(points[part]) and len(users) == of_part.num_points > 20
        for row, user in enumerate(users):
            both = of_part.features[row].indices, of_part.labels[row].indices
            names = [[data.label_names[item] for item in some] for some in both]
            assert names == [sorted(some) for some in points[part][user]]
    few = len(wanted) - len(points["train"])
    assert f"{few} users of fewer than 2 items before {since}: in no training point" in said


def test_from_a_file_to_recommendations(tmp_path, capsys):
    """Users like one of two kinds of items; names have spaces and capitals."""
    rng, rows = np.random.default_rng(0), []
    for user in range(120):
        kind = "Old Film" if user % 2 else "new film"
        rows += [
            (user, f"{kind} {item}", time) for time, item in enumerate(rng.permutation(12)[:8])
        ]
    source = write_csv(tmp_path / "log.csv", rows, header=("who", "what", "when"))
    call("data", "interactions", source, "--out", tmp_path / "data", "--user", "who",
         "--item", "what", "--time", "when", "--leave-last", 1)  # fmt: skip
    said = capsys.readouterr().out
    assert "120 training and 120 test points (users), 24 items" in said
    assert "then: snm predict RUN --text 'Old Film 0,Old Film 1'" in said
    data = snm.load_data(tmp_path / "data")
    assert set(np.diff(data.test.features.indptr)) == {7}
    assert set(np.diff(data.test.labels.indptr)) == {1}
    # So few pairs that chance alone expects less than twenty: the names tell.
    config = resolve(Config(), data)
    assert config.seen == "drop" and config.label_text == "off"
    call("train", tmp_path / "data", "--run-dir", tmp_path / "run", "--dim", 16, "--members", 1,
         "--epochs", 5)  # fmt: skip
    assert "label names" not in capsys.readouterr().out
    had = [f"Old Film {item}" for item in range(9)]
    call("predict", tmp_path / "run", "--text", " , ".join(had), "--k", 3)
    (line,) = capsys.readouterr().out.splitlines()
    assert sorted(json.loads(line)["names"]) == ["Old Film 10", "Old Film 11", "Old Film 9"]


ROWS = [(user, f"i{user % 3}{item}", item) for user in range(30) for item in range(4)]
FLAGS = ("--dim", 8, "--members", 1, "--epochs", 2, "--seen", "drop", "--memory", "off")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run on the log of `ROWS`, whose lists have bars between items."""
    place = tmp_path_factory.mktemp("items")
    source = write_csv(place / "log.csv", ROWS)
    call("data", "interactions", source, "--out", place / "data", "--separator", "|")
    call("train", place / "data", "--run-dir", place / "run", *FLAGS)
    return place / "run"


def test_a_later_log_in_the_items_of_a_run(run, tmp_path, capsys):
    later = [("x", "i22", 0), ("x", "other, a new one", 1), ("x", "i20", 2), ("y", "i11", 3)]
    capsys.readouterr()
    call("data", "interactions", write_csv(tmp_path / "later.csv", later), "--out",
         tmp_path / "later", "--like", run)  # fmt: skip
    assert capsys.readouterr().out.splitlines() == [
        f"1 training and 0 test points (users), 12 items in {tmp_path / 'later'}",
        f"1 item that {run} lacks: left out",
        "1 user of fewer than 2 items: in no training or test point",
        f"next: snm evaluate {run} --data {tmp_path / 'later'}",
        f"  or: snm train {tmp_path / 'later'} --run-dir NEW --config {run / 'config.toml'} "
        f"--warm-start {run}",
        "      if it has all points, old and new: trained on new ones alone, a run forgets",
    ]
    data = snm.load_data(tmp_path / "later")
    assert [data.label_names[i] for i in data.train.features.indices] == ["i22"]
    assert [data.label_names[i] for i in data.train.labels.indices] == ["i20"]
    call("evaluate", run, "--data", tmp_path / "later", "--json")
    assert json.loads(capsys.readouterr().out)["metrics"]["points"] == 1
    call("predict", run, "--text", "i20|i21", "--k", 1)
    assert json.loads(capsys.readouterr().out)["names"][0] in {"i22", "i23"}
    again = ("data", "interactions", tmp_path / "later.csv", "--out", tmp_path / "o", "--like", run)
    said = refused(capsys, *again, "--min-users", 2)
    assert said.endswith(f"--min-users: found --like {run} as well, expected one of the two")
    said = refused(capsys, *again, "--separator", ";")
    assert said.endswith(f"--separator: found ';', expected '|', as --like {run} has")
    call(*again, "--separator", "|")


def test_new_items_need_a_training_anew(run, tmp_path, capsys):
    """Each message names a way that exists, and the next step works."""
    later = [*ROWS[::-1], *((user, f"new{user % 3}", 9) for user in range(30))]
    source, whole = write_csv(tmp_path / "later.csv", later), tmp_path / "whole"
    call("data", "interactions", source, "--out", whole)
    anew = "new items need a training anew, on data with the old and the new ones"
    wanted = (
        f"whole: found features of another vocabulary than those of {run}, expected `snm data "
        f"interactions --like {run}` for a log, or `snm data import --like {run} --new-labels "
        f"drop` for lists: both leave out items that it lacks; {anew}"
    )
    warm = ("--run-dir", tmp_path / "next", "--warm-start", run)
    assert refused(capsys, "train", whole, *warm, *FLAGS) == wanted
    assert refused(capsys, "evaluate", run, "--data", whole) == wanted
    grow = ("grow", run, "--out", tmp_path / "grown", "--data")
    said = refused(capsys, *grow, whole)
    assert said.startswith("--data: found new labels for a run in which")
    assert said.endswith(f"(seen drop), expected another run; {anew}")
    known = tmp_path / "known"
    call("data", "interactions", source, "--out", known, "--like", run)
    assert refused(capsys, *grow, known).endswith(f"expected a run with a memory; {anew}")
    call("evaluate", run, "--data", known)
    call("train", known, *warm, *FLAGS)


def test_nothing_but_what_is_there_is_told(tmp_path, capsys):
    rows = [("a", "x"), ("a", "y"), ("b", "x"), ("b", "x"), ("c", "x"), ("c", "y"), ("c", "rare")]
    source = write_csv(tmp_path / "log.csv", rows, header=("user", "item"))
    call("data", "interactions", source, "--out", tmp_path / "out", "--min-users", 2)
    assert capsys.readouterr().out.splitlines() == [
        f"2 training and 0 test points (users), 2 items in {tmp_path / 'out'}",
        "1 interaction with an item that the user had come to before: left out",
        "1 item of fewer than 2 users: left out",
        "1 user of fewer than 2 items: in no training or test point",
        "there are no test points to evaluate on: --test-fraction, --leave-last or --test-from "
        "makes some",
        f"next: snm train {tmp_path / 'out'} --run-dir RUN",
        "then: snm predict RUN --text x,y, which lists the items of a user",
    ]
    assert Vectorizer.read(tmp_path / "out" / "vectorizer.json").columns == ("items",)


def test_a_whole_number_is_one_name_in_json(tmp_path, capsys):
    """As pandas writes a column with gaps; a text stays as it is."""
    rows = [(2, 3), (2.0, 5.0), (2, 3.0), (7, 5), (7, 2.5), (7, "5.0"), ("7.0", 3)]
    lines = (json.dumps({"user": user, "item": item}) for user, item in rows)
    (tmp_path / "log.jsonl").write_text("".join(f"{line}\n" for line in lines))
    call("data", "interactions", tmp_path / "log.jsonl", "--out", tmp_path / "out")
    assert capsys.readouterr().out.splitlines()[1:4] == [
        "1 item also occurs with '.0', such as '5' and '5.0': two different ones",
        "1 user also occurs with '.0', such as '7' and '7.0': two different ones",
        "1 interaction with an item that the user had come to before: left out",
    ]
    assert (tmp_path / "out" / "labels.txt").read_text().split() == ["2.5", "3", "5", "5.0"]
    assert (tmp_path / "out" / "train_rows.txt").read_text().split() == ["2", "7"]


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (("--time", "t", "--test-from", 9), "no user has items before and from 9 on"),
        (("--test-fraction", 1e-9), "--test-fraction 1e-09 drew no user of 2 items"),
    ],
)
def test_a_split_without_test_points_says_why(tmp_path, capsys, flags, why):
    rows = [("a", "x", 1), ("a", "y", 2), ("b", "x", 3), ("b", "y", 4)]
    source = write_csv(tmp_path / "log.csv", rows, header=("user", "item", "t"))
    call("data", "interactions", source, "--out", tmp_path / "out", *flags)
    assert f"there are no test points to evaluate on: {why}\n" in capsys.readouterr().out


@pytest.mark.parametrize("form", ["csv", "jsonl"])
@pytest.mark.parametrize(
    ("name", "times", "told"),
    [
        ("Date", ("2024-05-31", "2024-05-01", "2024-06-01"), True),
        ("seen on", ("2024-05-31T12:00", "2024-05-01", "2024-06-01"), True),
        ("ts", ("30", "4", "5"), True),
        ("ts", ("1", "2", "3"), False),
        ("ts", ("30", "n/a", "5"), False),
        ("price", ("30", "4", "5"), False),
    ],
)
def test_rows_in_another_order_than_their_times(tmp_path, capsys, form, name, times, told):
    """The rows of each user count: those of all need not be in one order."""
    rows = [("a", "x", times[0]), ("a", "y", times[1]), ("b", "x", times[0]), ("b", "y", times[2])]
    source = tmp_path / f"log.{form}"
    if form == "csv":
        write_csv(source, rows, header=("user", "item", name))
    else:
        lines = (json.dumps(dict(zip(("user", "item", name), row, strict=True))) for row in rows)
        source.write_text("".join(f"{line}\n" for line in lines))
    call("data", "interactions", source, "--out", tmp_path / "out")
    column = "'seen on'" if " " in name else name
    hint = f"rows are not in the order of {name!r}, which looks like times: --time {column} orders"
    assert (f"{hint} them\n" in capsys.readouterr().out) == told
    if told:
        call("data", "interactions", source, "--out", tmp_path / "again", "--time", name)
        assert "looks like" not in capsys.readouterr().out


REFUSED = {
    "no column": ("u,item\n1,2\n", (), ":1: found no column 'user' among u, item"),
    "no user": ("user,item\n1,2\n ,2\n", (), ":3: found no value of 'user', expected one in each"),
    "a separator": ('user,item\n1,"a,b"\n', (), ":2: found ',' in the item 'a,b', expected anoth"),
    "no time": (
        "user,item,t\n1,2,3\n1,3,now\n",
        ("--time", "t"),
        ":3: found t: 'now', expected a number, as in",
    ),
    "two kinds": (
        "user,item,t\n1,2,2024-01-01\n1,3,4\n",
        ("--time", "t"),
        ":3: found t: '4', expected a date, as in the",
    ),
    "no time at all": (
        "user,item,t\n1,2,then\n",
        ("--time", "t"),
        ":2: found t: 'then', expected a number, or a date such as 2024-05-31T12:00",
    ),
    "no row": ("user,item\n", (), "found no interaction, expected at least one"),
    "single items": (
        "user,item\n1,2\n2,2\n",
        (),
        "found no user to train on, expected one with 2 different items",
    ),
    "both": (
        "user,item\n1,2\n",
        ("--leave-last", 1, "--test-fraction", 0.1),
        "expected one of the",
    ),
    "a time and a share": (
        "user,item,t\n1,2,3\n",
        ("--time", "t", "--test-from", 1, "--test-fraction", 0.1),
        "--test-from: found --test-fraction as well, expected one of the two",
    ),
    "a time without times": (
        "user,item\n1,2\n",
        ("--test-from", 1),
        "--test-from: found no --time, expected the column or field with the time",
    ),
    "what is no time": (
        "user,item,t\n1,2,3\n",
        ("--time", "t", "--test-from", "June"),
        "--test-from: found 'June', expected a number, or a date such as",
    ),
    "a time of another kind": (
        "user,item,t\n1,2,3\n",
        ("--time", "t", "--test-from", "2024-06-01"),
        ":2: found t: '3', expected a date, as in --test-from",
    ),
    "nobody before": (
        "user,item,t\n1,2,3\n1,3,4\n",
        ("--time", "t", "--test-from", 4),
        "no user to train on, expected one with 2 different items before 4 (see --test-from, ",
    ),
    "a long separator": ("user,item\n1,2\n", ("--separator", "::"), "expected one character such"),
    "a share": (
        "user,item\n1,2\n",
        ("--label-share", 1),
        "--label-share: found 1.0, expected above",
    ),
    "few users": (
        "user,item\n1,2\n",
        ("--min-users", 0),
        "--min-users: found 0, expected 1 or more",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused_leaves_no_folder(tmp_path, capsys, what):
    text, options, said = REFUSED[what]
    (tmp_path / "log.csv").write_text(text)
    found = refused(
        capsys, "data", "interactions", tmp_path / "log.csv", "--out", tmp_path / "out", *options
    )
    assert said in found
    assert [path.name for path in tmp_path.iterdir()] == ["log.csv"]


def test_other_formats_are_refused(tmp_path, capsys):
    (tmp_path / "log.svm").write_text("1 2:1\n")
    said = refused(capsys, "data", "interactions", tmp_path / "log.svm", "--out", tmp_path / "out")
    assert said.endswith(
        "found no CSV, JSON lines or Parquet (svmlight), expected a user and an item a row"
    )
    (tmp_path / "log.jsonl").write_text('{"user": ["a"], "item": 1}\n')
    said = refused(capsys, "data", "interactions", tmp_path / "log.jsonl", "--out", tmp_path / "o")
    assert "log.jsonl:1: found user: ['a'], expected texts or numbers" in said
