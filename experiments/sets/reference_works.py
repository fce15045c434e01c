"""Makes data sets from reference works in Debian packages: genes, a thesaurus, RFCs, pictures.

    python -m experiments.sets.reference_works genes org.Hs.eg.sqlite --out genes.csv
    python -m experiments.sets.reference_works papers org.Hs.eg.sqlite --out papers.csv
    python -m experiments.sets.reference_works terms GO.sqlite --out terms.csv
    python -m experiments.sets.reference_works thesaurus th_en_US_v2.dat --out thesaurus.csv
    python -m experiments.sets.reference_works rfcs RFC --out rfcs.csv
    python -m experiments.sets.reference_works pictures openclipart --out pictures.csv

`genes` are words of a gene's name and the families of its protein, and as labels the terms of the
Gene Ontology that it was given. `terms` are names and definitions of these terms, and as labels
the terms above them. `rfcs` are the bodies of RFCs, and the RFCs that they cite; `pictures` titles
and file names, and the tags of the picture. `papers` and `thesaurus` are for recommenders: the
genes that a paper is about, or the synonyms of a word; a random half is the text, the others are
the labels. The files are in the packages r-bioc-org.hs.eg.db, r-bioc-go.db, mythes-en-us,
openclipart-svg, and in doc-rfc-informational, -std-proposed, -others, -old-std and -std. Labels of
fewer than three texts are left out. Rows are shuffled with seed 0. To import:

    snm data import FILE --label-separator ';' --test-fraction 0.1 --out DATA
    snm data import papers.csv --same-items --label-separator ';' --test-fraction 0.1 --out papers
"""

from __future__ import annotations

import gzip
import re
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import tyro

from experiments.sets.csv_rows import Row, halves, write_rows
from experiments.shared.command_line import run_command
from snm.errors import InputError

LONGEST = 20_000  # characters of an RFC
BASKETS = range(4, 61)  # items of a paper that is taken
FEWEST_SYNONYMS = 4

Kind = Literal["genes", "papers", "terms", "thesaurus", "rfcs", "pictures"]


def main(
    kind: tyro.conf.Positional[Kind],
    path: tyro.conf.Positional[Path],
    out: Path,
) -> None:
    """Writes the CSV.

    Args:
      kind: what texts and labels are.
      path: a file or folder of a Debian package.
      out: a CSV file to write, with the columns text and labels.
    """
    if not path.exists():
        raise InputError(str(path), "no such file or folder", f"one with {kind}")
    write_rows(list(KINDS[kind](path)), out, f"{path}: {kind}")


def query(path: Path, text: str) -> list[tuple[Any, ...]]:
    """The rows that a query finds in a database, which is only read."""
    with sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True) as database:
        return database.execute(text).fetchall()


def read_genes(path: Path) -> Iterator[Row]:
    """Genes as words and families, and the terms that they were given."""
    words: dict[int, list[str]] = defaultdict(list)
    for gene, name, symbol in query(path, "select _id, gene_name, symbol from gene_info"):
        words[gene] += re.findall(r"\w+", name.lower())
        words[gene] += [f"symbol_{letters.lower()}" for letters in re.findall("^[A-Za-z]+", symbol)]
    for table, column in (("pfam", "pfam_id"), ("prosite", "prosite_id"), ("ec", "ec_number"),
                          ("chromosomes", "chromosome")):  # fmt: skip
        for gene, value in query(path, f"select distinct _id, {column} from {table}"):
            if value:
                words[gene].append(f"{table}_{re.sub(r'[^a-z0-9]', '_', value.lower())}")
    terms: dict[int, set[str]] = defaultdict(set)
    for table in ("go_bp", "go_mf", "go_cc"):
        for gene, term in query(path, f"select _id, go_id from {table}"):
            terms[gene].add(term)
    for gene, labels in terms.items():
        yield " ".join(words[gene]), sorted(labels)


def read_papers(path: Path) -> Iterator[Row]:
    """Half of the genes that a paper is about, and the others."""
    genes: dict[str, list[int]] = defaultdict(list)
    for gene, paper in query(path, "select _id, pubmed_id from pubmed"):
        genes[paper].append(gene)
    baskets = ([f"gene {one}" for one in found] for found in genes.values())
    yield from halves(basket for basket in baskets if len(basket) in BASKETS)


def read_terms(path: Path) -> Iterator[Row]:
    """Names and definitions of terms, and the names of the terms above."""
    terms = {one: rest for one, *rest in query(path, "select _id, term, definition from go_term")}
    above: dict[int, set[str]] = defaultdict(set)
    for table in ("go_bp_parents", "go_mf_parents", "go_cc_parents"):
        for term, parent in query(path, f"select _id, _parent_id from {table}"):
            if parent in terms:
                above[term].add(terms[parent][0].replace(";", ","))
    for term, labels in above.items():
        if term in terms:
            name, definition = terms[term]
            yield f"{name} {definition or ''}"[:600], sorted(labels)


def read_thesaurus(path: Path) -> Iterator[Row]:
    """Half of the synonyms of a word, and the others."""
    entries: list[set[str]] = []
    for line in path.read_text(encoding="utf-8").splitlines()[1:]:  # after the encoding
        if re.search(r"\|\d+$", line) and not line.startswith("("):
            entries.append(set())  # a new word, and the number of its senses
        else:
            synonyms = (re.sub(r" \(.*?\)", "", one) for one in line.split("|")[1:])
            entries[-1].update(re.sub("[,;]", " ", one).strip() for one in synonyms)
    found = (sorted(entry - {""}) for entry in entries)
    yield from halves(entry for entry in found if len(entry) >= FEWEST_SYNONYMS)


def read_rfcs(folder: Path) -> Iterator[Row]:
    """Bodies of RFCs without their references and numbers of RFCs, and the RFCs that they cite."""
    for path in sorted(folder.rglob("rfc*.txt*")):
        number = re.match(r"rfc(\d+)\.txt", path.name)
        if number is None or "links" in path.parts or not path.is_file():
            continue
        text = read(path).replace("\0", "")
        cited = dict.fromkeys(int(one) for one in re.findall(r"RFC[- ]?0*(\d{1,4})", text))
        cited.pop(int(number[1]), None)
        body = re.sub(
            r"\n\s*[\d.]*\s*(Normative |Informative )?References\s*\n.*", "", text, flags=re.S
        )
        body = re.sub(r"\s+", " ", re.sub(r"RFC[- ]?\d+", "", body))
        yield body[:LONGEST], [f"rfc{one}" for one in cited]


def read_pictures(folder: Path) -> Iterator[Row]:
    """Titles, descriptions and file names of pictures, and their tags."""
    for path in sorted(folder.rglob("*.svg*")):
        if not path.is_file():
            continue
        text = read(path)
        parts = [
            re.search(rf"<dc:{one}>(.*?)</dc:{one}>", text, re.S)
            for one in ("title", "description")
        ]
        name = path.name.split(".")[0].replace("_", " ")
        tags = re.findall(r"<rdf:li>(.*?)</rdf:li>", text, re.S)
        labels = [re.sub(r"[;\s]+", " ", one).strip().lower() for one in tags]
        words = " ".join([*(part[1] for part in parts if part), name])
        yield " ".join(words.split()), [one for one in labels if one and one != "unsorted"]


def read(path: Path) -> str:
    """A text, which may be compressed, with marks for what is no UTF-8."""
    found = path.read_bytes()
    if found.startswith(b"\x1f\x8b"):
        found = gzip.decompress(found)
    return found.decode(errors="replace")


KINDS: dict[Kind, Callable[[Path], Iterator[Row]]] = {
    "genes": read_genes,
    "papers": read_papers,
    "terms": read_terms,
    "thesaurus": read_thesaurus,
    "rfcs": read_rfcs,
    "pictures": read_pictures,
}
"""Kind of the texts -> what reads them, and the labels of each."""


if __name__ == "__main__":
    run_command(main, description=__doc__)
