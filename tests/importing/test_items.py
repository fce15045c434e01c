"""`snm data import --same-items`: one numbering of features and labels, and the hint to it."""

import csv
import json

import numpy as np
import pytest
from command_line import answers, call, refused
from data.documents import write_jsonl

import snm
from snm.config.resolve import resolve
from snm.data.formats.foreign import Row
from snm.data.vectorizer import Vectorizer
from snm.importing.items import Overlap

BASKETS = [
    (["New York", "Rome"], ["Paris", "Oslo"]),
    (["Paris", "7"], ["Rome"]),
    (["Oslo", "Rome"], ["New York", "Bern"]),
    (["Bern"], ["7"]),
]
ITEMS = sorted({item for pair in BASKETS for side in pair for item in side})


def write_csv(path, rows=BASKETS, mark=","):
    with path.open("w", newline="") as out:
        lines = [[mark.join(first), ",".join(later)] for first, later in rows]
        csv.writer(out).writerows([["bought", "later"], *lines])
    return path


def write_lists(path):
    """Lists, one of them with a number; one text that lists items."""
    rows = [{"bought": first, "later": later} for first, later in BASKETS]
    rows[1]["bought"] = ["Paris", 7]
    rows[2]["bought"] = "Oslo , Rome"
    return write_jsonl(path, rows)


def write_svmlight(path, first=0):
    """The same baskets, each item by its place in `ITEMS`."""
    ids = {item: number + first for number, item in enumerate(ITEMS)}
    with path.open("w") as out:
        for features, labels in BASKETS:
            pairs = " ".join(f"{i}:1" for i in sorted(ids[item] for item in features))
            out.write(f"{','.join(str(ids[item]) for item in labels)} {pairs}\n")
    return path


FIELDS = ("--text", "bought", "--labels", "later")
WRITERS = {
    "csv": (lambda path: write_csv(path / "in.csv"), FIELDS),
    "spaced": (
        lambda path: write_csv(path / "in.csv", mark=" | "),
        (*FIELDS, "--item-separator", "|"),
    ),
    "jsonl": (lambda path: write_lists(path / "in.jsonl"), FIELDS),
    "svmlight": (lambda path: write_svmlight(path / "in.svm"), ()),
    "svmlight from 1": (lambda path: write_svmlight(path / "in.svm", first=1), ()),
}


def import_items(source, out, *options):
    call("data", "import", source, "--out", out, "--same-items", *options)
    return snm.load_data(out)


@pytest.mark.parametrize("form", WRITERS)
def test_features_and_labels_get_the_same_ids(tmp_path, form):
    writer, options = WRITERS[form]
    data = import_items(writer(tmp_path), tmp_path / "out", *options)
    for place, part in enumerate((data.train.features, data.train.labels)):
        assert part.shape == (4, len(ITEMS))
        wanted = [[float(item in pair[place]) for item in ITEMS] for pair in BASKETS]
        np.testing.assert_array_equal(part.toarray(), wanted)
    first = int(form == "svmlight from 1")
    numbers = [str(first + place) for place in range(len(ITEMS))]
    assert list(data.label_names) == (numbers if "svm" in form else ITEMS)


def test_training_takes_them_for_the_same_and_lists_are_answered(tmp_path, capsys):
    """The road from baskets to answers: no item that the list has."""
    rng = np.random.default_rng(0)
    kinds = [[f"film {kind} {n}" for n in range(8)] for kind in range(4)]
    rows = []
    for _ in range(120):
        items = list(rng.permutation(kinds[rng.integers(4)]))
        rows.append((items[:4], items[4:6]))
    data = import_items(write_csv(tmp_path / "in.csv", rows), tmp_path / "out", *FIELDS)
    settings = resolve(snm.preset("default"), data)
    assert settings.seen == "drop" and settings.item_splits == 1
    assert "--same-items" not in capsys.readouterr().out
    call("train", tmp_path / "out", "--run-dir", tmp_path / "run", "--preset", "fast")
    labels, _ = snm.load(tmp_path / "run").predict(["film 2 0, film 2 5"], k=4)
    found = {data.label_names[label] for label in labels[0]}
    assert found <= set(kinds[2]) - {"film 2 0", "film 2 5"} and len(found) == 4
    later = [(["film 1 0", "film 1 1"], ["film 1 2"]), (["film 3 0", "new"], ["film 3 1"])]
    rows = ({"bought": first, "later": after} for first, after in later)
    source = write_jsonl(tmp_path / "later.jsonl", rows)
    capsys.readouterr()
    found, said = answers(capsys, tmp_path / "run", source, "--k", 3)
    assert "text from 'bought'" in said
    for (first, _), answer in zip(later, found, strict=True):
        kind = first[0].rpartition(" ")[0]
        labels = set(answer["names"])
        assert len(labels - set(first)) == 3 and all(one.startswith(kind) for one in labels)
    call(
        "data", "import", source, "--out", tmp_path / "more", "--like", tmp_path / "run",
        "--text", "bought", "--labels", "later",
    )  # fmt: skip
    more = snm.load_data(tmp_path / "more")
    assert more.label_names == data.label_names
    assert more.train.features.nnz == 3  # without the new item
    assert Vectorizer.read(tmp_path / "more" / "vectorizer.json").vocabulary == data.label_names
    # A new item is a label only: no growth of the run is advised, which would be refused.
    source.write_text(json.dumps({"bought": ["film 1 0"], "later": ["new"]}) + "\n")
    capsys.readouterr()
    call(
        "data", "import", source, "--out", tmp_path / "new", "--like", tmp_path / "run",
        "--text", "bought", "--labels", "later", "--new-labels", "append",
    )  # fmt: skip
    said = capsys.readouterr().out
    assert "next: new items need a training anew" in said and "snm grow" not in said
    said = refused(capsys, "train", tmp_path / "new", "--run-dir", tmp_path / "next", "--preset",
                   "fast", "--warm-start", tmp_path / "run")  # fmt: skip
    assert said.endswith("such as 'new', expected data without them; new items need a training "
                         "anew, on data with the old and the new ones")  # fmt: skip


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--item-separator", ";"), "--item-separator: found no --same-items, expected lists"),
        (("--same-items", "--min-points", "2"), "--same-items: found --min-points as well"),
        (("--same-items", "--like", "x"), "expected --like alone, which knows its items"),
        (("--same-items", "--item-separator", "ab"), "--item-separator: found 'ab'"),
        (("--same-items", "--item-separator", "\t"), r"--item-separator: found '\t'"),
        (
            ("--same-items", "--item-separator", " "),
            "in.csv:2: found ' ' in the label 'New York', expected another --item-separator",
        ),
        (
            ("--same-items", "--item-separator", "|"),
            "found no item that is in a text and a label; one of the texts is 'Bern,Rome'",
        ),
    ],
)
def test_refusals(tmp_path, capsys, options, message):
    rows = [(["Bern", "Rome"], ["New York"]), (["New York", "Oslo"], ["Rome"])]
    source = write_csv(tmp_path / "in.csv", rows)
    arguments = ("data", "import", source, "--out", tmp_path / "out", *FIELDS, *options)
    assert message in refused(capsys, *arguments)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("first", "later", "message"),
    [
        # The text of one item is also a label, so this would pass as data of single items.
        ("a;b\na\nb;c", "c\nb;c\na", "in.csv: found ';' in 2 of 3 texts, and ',' in none, "
         "expected --item-separator ';', as --label-separator"),
        ("a;b\nb;c", "c;d,e\na", "in.csv:2: found ',' in the label 'd,e', expected another "
         "--item-separator, which no item holds, such as ';' of --label-separator"),
    ],
)  # fmt: skip
def test_the_separator_of_labels_is_advised_for_items(tmp_path, capsys, first, later, message):
    source, out = tmp_path / "in.csv", tmp_path / "out"
    rows = zip(first.split("\n"), later.split("\n"), strict=True)
    source.write_text("bought,later\n" + "".join(f'"{one}","{two}"\n' for one, two in rows))
    arguments = ("data", "import", source, "--out", out, "--same-items", *FIELDS)
    arguments += ("--label-separator", ";")
    assert refused(capsys, *arguments).endswith(message)
    call(*arguments, "--item-separator", ";")
    assert set("abc") <= set(snm.load_data(out).label_names)


def test_few_texts_with_the_separator_of_labels_are_items(tmp_path):
    """One text of three has it, so the texts are taken for single items."""
    source = tmp_path / "in.csv"
    source.write_text("bought,later\na;b,c\nc,a\na,c\n")
    data = import_items(source, tmp_path / "out", *FIELDS, "--label-separator", ";")
    assert data.label_names == ("a", "a;b", "c")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("in.svm", "one 1:1\n", "in.svm:1: found label 'one', expected the number of a feature"),
        ("in.svm", "1 99999999999:1\n", "found item 99999999999"),
        (
            "in.jsonl",
            '{"bought": ["a", ["b"]], "later": ["a"]}\n',
            "in.jsonl:1: found bought: ['b'], expected names or numbers without ','",
        ),
        ("in.jsonl", '{"bought": ["a,b"], "later": ["a"]}\n', "found bought: 'a,b'"),
    ],
)
def test_files_that_are_refused(tmp_path, capsys, name, text, message):
    source = tmp_path / name
    source.write_text(text)
    fields = FIELDS if name.endswith("jsonl") else ()
    arguments = ("data", "import", source, "--out", tmp_path / "out", "--same-items", *fields)
    assert message in refused(capsys, *arguments)
    assert not (tmp_path / "out").exists()


def test_lists_are_no_texts_without_the_option(tmp_path, capsys):
    source = write_lists(tmp_path / "in.jsonl")
    arguments = ("data", "import", source, "--out", tmp_path / "out", *FIELDS)
    assert "expected a text in 'bought'" in refused(capsys, *arguments)


def test_numbers_are_names_however_they_are_written(tmp_path):
    source = tmp_path / "in.jsonl"
    source.write_text(
        '{"bought": [3, 5.0], "later": [4]}\n{"bought": [4.0, 2.5], "later": ["5"]}\n'
    )
    data = import_items(source, tmp_path / "out", *FIELDS)
    names = ["".join(data.label_names[i] for i in row.indices) for row in data.train.features]
    assert names == ["35", "2.54"]


def random_pairs(seed, together):
    """150 points of 4 of 40 items in the text, and 2 as labels, of which some are in the text."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(150):
        items = [f"item{n:02}" for n in rng.permutation(40)[:6]]
        rows.append((items[:4], [items[3] if rng.random() < together else items[4], items[5]]))
    return rows


def test_the_import_hints_at_the_option(tmp_path, capsys):
    for together, hinted in ((0.0, True), (0.2, False)):
        source = write_csv(tmp_path / f"{hinted}.csv", random_pairs(1, together))
        call("data", "import", source, "--out", tmp_path / f"out-{hinted}", *FIELDS)
        assert ("--same-items" in capsys.readouterr().out) == hinted


def test_the_hint_in_svmlight(tmp_path, capsys):
    source = tmp_path / "in.svm"
    with source.open("w") as out:
        for features, labels in random_pairs(2, 0.0):
            pairs = " ".join(f"{n}:1" for n in sorted(int(item[4:]) for item in features))
            out.write(f"{','.join(str(int(item[4:])) for item in labels)} {pairs}\n")
    call("data", "import", source, "--out", tmp_path / "out")
    assert "--same-items" in capsys.readouterr().out


def test_names_of_numbered_items_are_no_hint(tmp_path, capsys):
    """`--same-items` refuses `--label-names`."""
    write_svmlight(tmp_path / "train.svm")
    (tmp_path / "lbl.json").write_text("{}\n")
    call("data", "import", tmp_path / "train.svm", "--out", tmp_path / "data")
    assert "--label-names" in capsys.readouterr().out
    import_items(tmp_path / "train.svm", tmp_path / "items")
    assert "--label-names" not in capsys.readouterr().out


def test_overlap_against_brute_force():
    """Counted in two pieces; items are stripped, and count once a point."""
    rng = np.random.default_rng(3)
    names = np.array(["a b", "c", "d", "e", "f", "g"])
    features, labels = rng.random((60, 6)) < 0.4, rng.random((60, 6)) < 0.3
    labels[:, 5] = features[:, 4] = False
    rows = [
        Row("", " ; ".join([*names[has], *names[has][:1]]), None, tuple(names[of]))
        for has, of in zip(features, labels, strict=True)
    ]
    counted = Overlap(";")
    counted.add(rows[:25])
    counted.add(rows[25:])
    assert counted.overlap == (features & labels).sum() > 0 and counted.entries == labels.sum()
    expected = (features.sum(axis=0) * labels.sum(axis=0)).sum() / 60
    assert counted.expected == pytest.approx(expected, rel=1e-12)


def test_long_texts_are_no_lists():
    rows = [Row("", " ".join(map(str, range(n, n + 301))), None, (str(n - 1),)) for n in range(50)]
    counted = Overlap(" ")
    counted.add(rows)
    counted.add(rows)
    assert counted.expected == 0 and counted.entries == 50
    shorter = Overlap(" ")
    shorter.add([row._replace(text=row.text.partition(" ")[2]) for row in rows])
    assert shorter.expected > 0


@pytest.mark.parametrize(("mark", "flag"), [(",", ""), (" ", "' '"), (";", "';'")])
def test_the_hint_names_the_separator(tmp_path, capsys, mark, flag):
    source = write_csv(tmp_path / "in.csv", random_pairs(4, 0.0), mark=mark)
    call("data", "import", source, "--out", tmp_path / "out", *FIELDS)
    said = capsys.readouterr().out
    assert said.count("--same-items") == 1
    assert f"--same-items{f' --item-separator {flag}' if flag else ''} predicts" in said


def test_empty_texts_are_told_apart_from_unknown_words(tmp_path, capsys):
    source = tmp_path / "in.csv"
    source.write_text("text,labels\n,a\n  ,b\nword again,a\n?,b\n")
    call("data", "import", source, "--out", tmp_path / "out")
    out = capsys.readouterr().out
    assert "2 points without text" in out
    assert "1 point without a feature whose text is not empty" in out


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ([], ["--token-pattern", "--analyzer"]),
        (["--token-pattern=[a-z]+"], ["--analyzer"]),
        (["--analyzer=char_wb"], []),
    ],
)
def test_texts_without_words_have_options_that_cut_them(tmp_path, capsys, options, named):
    """Characters are found in any text."""
    source = tmp_path / "in.csv"
    source.write_text("text,labels\nsome words,a\n! ? !,b\n")
    call("data", "import", source, "--out", tmp_path / "out", *options)
    out = capsys.readouterr().out
    assert [flag for flag in ("--token-pattern", "--analyzer") if flag in out] == named
