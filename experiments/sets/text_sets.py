"""Makes text data sets whose labels are words, from files found on most machines.

    python -m experiments.sets.text_sets docstrings PATH ... --out docstrings.csv
    python -m experiments.sets.text_sets parameters PATH ... --out parameters.csv
    python -m experiments.sets.text_sets modules PATH ... --out modules.csv
    python -m experiments.sets.text_sets imports PATH ... --out imports.csv
    python -m experiments.sets.text_sets packages PATH ... --out packages.csv
    python -m experiments.sets.text_sets tags PATH ... --out tags.csv
    python -m experiments.sets.text_sets depends PATH ... --out depends.csv
    python -m experiments.sets.text_sets maintainers PATH ... --out maintainers.csv
    python -m experiments.sets.text_sets readmes PATH ... --out readmes.csv
    python -m experiments.sets.text_sets glosses PATH ... --out glosses.csv
    python -m experiments.sets.text_sets hypernyms PATH ... --out hypernyms.csv

The first four read Python packages, for example a folder `site-packages`: docstrings, and as
labels the words of the function's or class's name, the names of a function's parameters, or the
module and the packages that it is in; or the names that a module uses, and what it imports.
`packages` reads files `Packages` of a Debian mirror: one-line descriptions, and the words of the
package's name; `maintainers` the same texts, and who maintains the package, a single label. `tags`
and `depends` read these and a file `Translation-en`: whole descriptions, and the tags of the
package, or the packages that it depends on or recommends. `readmes` reads folders of npm packages:
the file `README`, and the keywords of `package.json`. `glosses` and `hypernyms` read files
`data.noun` and `data.verb` of WordNet: definitions, and the words that they define, or all more
general terms. Texts of imports, tags, depends and readmes are long. Labels of fewer than three
texts are left out. Rows are shuffled with seed 0. To import:

    snm data import FILE --label-separator ';' --test-fraction 0.1 --out DATA
"""

from __future__ import annotations

import ast
import csv
import json
import random
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import tyro

from experiments.command_line import run_command
from snm.errors import InputError
from snm.system.files import atomic_file

FEWEST = 3
LONGEST = 300  # characters of a docstring
MOST_NAMES = 1500  # of a module, in the order of their use

Row = tuple[str, Sequence[str]]
Kind = Literal["docstrings", "parameters", "modules", "imports", "packages", "maintainers", "tags",
               "depends", "readmes", "glosses", "hypernyms"]  # fmt: skip


def main(
    kind: tyro.conf.Positional[Kind],
    paths: tyro.conf.Positional[list[Path]],
    out: Path,
) -> None:
    """Writes the CSV.

    Args:
      kind: what texts and labels are.
      paths: folders of Python or npm packages, or files of a Debian mirror or of WordNet.
      out: a CSV file to write, with the columns text and labels.
    """
    for path in paths:
        if not path.exists():
            raise InputError(str(path), "no such file or folder", "one with texts")
    write_rows(distinct(KINDS[kind](paths)), out, f"{' '.join(map(str, paths))}: {kind}")


def write_rows(rows: Sequence[Row], out: Path, source: str, fewest: int = FEWEST) -> None:
    """Writes the CSV, shuffled, without labels of fewer rows than `fewest`.

    Args:
      rows: texts and their labels.
      out: the file to write.
      source: where the rows come from, for messages.
      fewest: rows that a label needs.

    Raises:
      InputError: no row is left.
    """
    counts = Counter(label for _, labels in rows for label in set(labels))
    kept = []
    for text, labels in rows:
        frequent = [label for label in dict.fromkeys(labels) if counts[label] >= fewest]
        if frequent:
            kept.append((text, ";".join(frequent)))
    if not kept:
        raise InputError(source, f"no text of a label that {fewest} have", "such texts")
    random.Random(0).shuffle(kept)
    with atomic_file(out) as partial, partial.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "labels"), *kept])
    print(f"{len(kept):,} texts, {sum(n >= fewest for n in counts.values()):,} labels in {out}")


def distinct(rows: Iterator[Row]) -> list[Row]:
    """The first row of each text of 15 characters or more."""
    found: dict[str, Sequence[str]] = {}
    for text, labels in rows:
        if len(text) >= 15:
            found.setdefault(text, labels)
    return list(found.items())


def trees(folders: Sequence[Path]) -> Iterator[tuple[Path, str, ast.Module]]:
    """The Python files of these folders: path, source and syntax tree."""
    for file in sorted(path for folder in folders for path in folder.rglob("*.py")):
        source = file.read_text(encoding="utf-8", errors="ignore")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(source)
        except (SyntaxError, ValueError, RecursionError):
            continue  # for another version of Python
        yield file, source, tree


def documented(
    folders: Sequence[Path],
) -> Iterator[tuple[Path, str, ast.FunctionDef | ast.ClassDef]]:
    """The functions and classes of these folders: path, docstring and node."""
    for file, _, tree in trees(folders):
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                yield file, " ".join((ast.get_docstring(node) or "").split())[:LONGEST], node


def of_docstrings(folders: Sequence[Path]) -> Iterator[Row]:
    """Docstrings, and the words of the function's or class's name."""
    for _, text, node in documented(folders):
        yield text, words(re.sub(r"([a-z])([A-Z])", r"\1 \2", node.name))


def of_parameters(folders: Sequence[Path]) -> Iterator[Row]:
    """Docstrings of functions, and the names of their parameters."""
    for _, text, node in documented(folders):
        if isinstance(node, ast.FunctionDef):
            names = [one.arg for one in (*node.args.args, *node.args.kwonlyargs)]
            yield text, [name for name in names if name not in ("self", "cls")]


def of_modules(folders: Sequence[Path]) -> Iterator[Row]:
    """Docstrings, and the module and the packages that they are in."""
    for file, text, _ in documented(folders):
        places = file.with_suffix("").parts
        if "site-packages" in places:
            places = places[places.index("site-packages") + 1 :]
        ends = [i + 1 for i, place in enumerate(places) if place != "__init__"]
        yield text, ["/".join(places[:end]) for end in ends]


def of_imports(folders: Sequence[Path]) -> Iterator[Row]:
    """The names that modules use outside of import statements, and what these import."""
    for _, source, tree in trees(folders):
        lines, modules = source.splitlines(), []
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                modules += [one.name for one in node.names]
            elif isinstance(node, ast.ImportFrom):
                modules += [node.module] if node.module and not node.level else []
            else:
                continue
            last = node.end_lineno or node.lineno
            lines[node.lineno - 1 : last] = [""] * (last - node.lineno + 1)
        names = re.findall(r"[A-Za-z_]\w+", " ".join(lines))[:MOST_NAMES]
        yield " ".join(names), [one for one in modules if one != "__future__"]


def fields(files: Sequence[Path], pattern: str) -> Iterator[tuple[str, str]]:
    """Names of packages, and a field of theirs, from files of stanzas."""
    for file in files:
        for stanza in file.read_text(encoding="utf-8").split("\n\n"):
            name = re.search(r"^Package: (.+)$", stanza, re.M)
            field = re.search(pattern, stanza, re.M)
            if name and field:
                yield name[1], " ".join(field[1].split())


def of_packages(files: Sequence[Path]) -> Iterator[Row]:
    """The first lines of descriptions, and the words of the package's name."""
    for name, text in fields(files, r"^Description(?:-en)?: (.+)$"):
        yield text, words(name)


def of_tags(files: Sequence[Path]) -> Iterator[Row]:
    """Whole descriptions, and the tags of the package; its last description counts."""
    tags = dict(fields(files, r"^Tag: (.+(?:\n .+)*)$"))
    texts = dict(fields(files, r"^Description-en: (.+(?:\n .+)*)$"))
    for name, text in texts.items():
        if name in tags:
            yield text, tags[name].split(", ")


def of_maintainers(files: Sequence[Path]) -> Iterator[Row]:
    """The first lines of descriptions, and the name of the package's maintainer."""
    names = dict(fields(files, r"^Maintainer: ([^<\n]+)"))
    for name, text in fields(files, r"^Description(?:-en)?: (.+)$"):
        if name in names:
            yield text, [names[name].strip().replace(";", " ")]


def needs(files: Sequence[Path]) -> dict[str, list[str]]:
    """For each package, what it depends on or recommends; of alternatives the first."""
    found: dict[str, list[str]] = {}
    for field in ("Depends", "Recommends"):
        for name, text in fields(files, rf"^{field}: (.+)$"):
            # Without versions and architectures.
            found.setdefault(name, []).extend(
                re.split(r"[ :(|]", one)[0] for one in text.split(", ")
            )
    return {name: list(dict.fromkeys(others)) for name, others in found.items()}


def of_depends(files: Sequence[Path]) -> Iterator[Row]:
    """Whole descriptions, and the packages that the package depends on or recommends."""
    needed = needs(files)
    for name, text in fields(files, r"^Description-en: (.+(?:\n .+)*)$"):
        yield text, needed.get(name, [])


def senses(files: Sequence[Path]) -> dict[str, tuple[str, list[str], list[str]]]:
    """The senses of WordNet: definition, words, and the ids of the more general senses."""
    found = {}
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines():
            if line.startswith(" "):
                continue  # the licence
            head, gloss = line.split(" | ", 1)
            part = head.split()
            pointers = 5 + 2 * int(part[3], 16)  # the number of words is hexadecimal
            general = [part[i + 2] + part[i + 1] for i in range(pointers, len(part) - 3)
                       if part[i] in ("@", "@i")]  # fmt: skip
            found[part[2] + part[0]] = (
                gloss.split('; "')[0].strip(),
                part[4 : pointers - 1 : 2],
                general,
            )
    return found


def of_glosses(files: Sequence[Path]) -> Iterator[Row]:
    """Definitions, and the words that they define."""
    for gloss, defined, _ in senses(files).values():
        yield gloss, [one for word in defined for one in words(word)]


def of_hypernyms(files: Sequence[Path]) -> Iterator[Row]:
    """Definitions, and all senses that are more general, by their first word and their place."""
    found = senses(files)
    for gloss, _, general in found.values():
        above, left = dict.fromkeys(general), list(general)
        while left:
            more = [one for one in found[left.pop()][2] if one not in above]
            above.update(dict.fromkeys(more))
            left += more
        yield gloss, [f"{found[one][1][0]}.{one}" for one in above]


def of_readmes(folders: Sequence[Path]) -> Iterator[Row]:
    """The README of npm packages, after their description, and their keywords."""
    for file in sorted(path for folder in folders for path in folder.rglob("package.json")):
        texts = sorted(file.parent.glob("[Rr][Ee][Aa][Dd][Mm][Ee]*"))
        try:
            about = json.loads(file.read_text(encoding="utf-8", errors="ignore"))
        except ValueError:  # packages have malformed ones, to test what reads them
            continue
        keywords = about.get("keywords") if isinstance(about, dict) else None
        if texts and isinstance(keywords, list):
            readme = texts[0].read_text(encoding="utf-8", errors="ignore")
            named = [str(one).lower().replace(";", " ").strip() for one in keywords]
            yield f"{about.get('description', '')} {readme}", [one for one in named if one]


KINDS: dict[Kind, Callable[[Sequence[Path]], Iterator[Row]]] = {
    "docstrings": of_docstrings,
    "parameters": of_parameters,
    "modules": of_modules,
    "imports": of_imports,
    "packages": of_packages,
    "maintainers": of_maintainers,
    "tags": of_tags,
    "depends": of_depends,
    "readmes": of_readmes,
    "glosses": of_glosses,
    "hypernyms": of_hypernyms,
}
"""Kind of the texts -> what reads them, and the labels of each."""


def words(name: str) -> list[str]:
    """Runs of three letters or more, in lower case."""
    return re.findall(r"[a-z]{3,}", name.lower())


if __name__ == "__main__":
    run_command(main, description=__doc__)
