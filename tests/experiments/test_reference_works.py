"""Texts and labels that `experiments.sets.reference_works` finds in small files of each kind."""

import csv
import gzip
import sqlite3

import pytest

from experiments.sets.reference_works import KINDS, main
from snm.errors import InputError


def database(path, tables):
    """Tables from name -> (columns, rows)."""
    with sqlite3.connect(path) as out:
        for name, (columns, rows) in tables.items():
            out.execute(f"create table {name} ({', '.join(columns)})")
            marks = ", ".join("?" * len(columns))
            out.executemany(f"insert into {name} values ({marks})", rows)
    out.close()
    return path


def test_genes_and_papers(tmp_path):
    none = (("_id", "go_id"), [])
    names = [(1, "alpha-2 Globulin", "A2M"), (2, "x", "9")]
    path = database(
        tmp_path / "genes.sqlite",
        {
            "gene_info": (("_id", "gene_name", "symbol"), names),
            "pfam": (("_id", "pfam_id"), [(1, "PF01"), (1, "PF01"), (2, None)]),
            "prosite": (("_id", "prosite_id"), []),
            "ec": (("_id", "ec_number"), [(1, "3.4.-")]),
            "chromosomes": (("_id", "chromosome"), [(2, "X")]),
            "go_bp": (("_id", "go_id"), [(1, "GO:2"), (1, "GO:1"), (2, "GO:1")]),
            "go_mf": none,
            "go_cc": none,
            "pubmed": (("_id", "pubmed_id"), [(g, "p") for g in range(6)] + [(1, "q"), (2, "q")]),
        },
    )  # fmt: skip
    assert list(KINDS["genes"](path)) == [
        ("alpha 2 globulin symbol_a pfam_pf01 ec_3_4__", ["GO:1", "GO:2"]),
        ("x chromosomes_x", ["GO:1"]),
    ]
    ((text, labels),) = KINDS["papers"](path)
    assert len(labels) == 3 and {*text.split(","), *labels} == {f"gene {g}" for g in range(6)}


def test_terms(tmp_path):
    none = (("_id", "_parent_id"), [])
    terms = [(1, "all", None), (2, "growth; decay", "Any growth."), (3, "root", "A root.")]
    path = database(
        tmp_path / "terms.sqlite",
        {
            "go_term": (("_id", "term", "definition"), terms),
            "go_bp_parents": (("_id", "_parent_id"), [(2, 1), (3, 2), (2, 9)]),
            "go_mf_parents": none,
            "go_cc_parents": none,
        },
    )
    found = list(KINDS["terms"](path))
    assert found == [("growth; decay Any growth.", ["all"]), ("root A root.", ["growth, decay"])]


def test_thesaurus(tmp_path):
    path = tmp_path / "th.dat"
    path.write_text(
        "UTF-8\nbig|2\n(adj)|large|grand, huge|vast (generic term)\n(adv)|loudly|large\n"
        "few|1\n(adj)|one\n"
    )
    ((text, labels),) = KINDS["thesaurus"](path)
    assert len(labels) == 2 and "," in text
    assert {*text.split(","), *labels} == {"large", "grand  huge", "vast", "loudly"}


def test_rfcs(tmp_path):
    (tmp_path / "old" / "links").mkdir(parents=True)
    text = "A protocol, as RFC 7 and RFC0012 say of RFC99.\n\n5. References\n [RFC13] more\n"
    with gzip.open(tmp_path / "old" / "rfc99.txt.gz", "wt") as out:
        out.write(text)
    (tmp_path / "old" / "links" / "rfc99.txt").write_text(text)
    (tmp_path / "old" / "rfc-index.txt").write_text(text)
    assert list(KINDS["rfcs"](tmp_path)) == [
        ("A protocol, as and say of .", ["rfc7", "rfc12", "rfc13"])
    ]


def test_pictures(tmp_path):
    (tmp_path / "red_rose_01.svg").write_text(
        "<dc:title>Rose</dc:title><dc:description>A\n flower</dc:description>"
        "<rdf:li>Flower;plant</rdf:li><rdf:li>unsorted</rdf:li>"
    )
    assert list(KINDS["pictures"](tmp_path)) == [("Rose A flower red rose 01", ["flower plant"])]


def test_rare_labels_are_left_out(tmp_path):
    path = tmp_path / "th.dat"
    lines = [f"w{n}|1\n(n)|common|{'|'.join(f'{n} {m}' for m in range(3))}\n" for n in range(12)]
    path.write_text("UTF-8\n" + "".join(lines))
    main("thesaurus", path, tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(newline="") as rows:
        labels = {row["labels"] for row in csv.DictReader(rows)}
    assert labels == {"common"}


def test_bad_input_is_refused(tmp_path):
    with pytest.raises(InputError, match="no such file or folder, expected one with genes"):
        main("genes", tmp_path / "none", tmp_path / "out.csv")
    with pytest.raises(InputError, match="no text with a label of 3 or more rows"):
        main("rfcs", tmp_path, tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()
