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

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import tyro

from experiments.sets.csv_rows import Row, write_rows
from experiments.sets.debian_sets import read_depends, read_maintainers, read_packages, read_tags
from experiments.sets.npm_sets import read_readmes
from experiments.sets.python_sets import (
    read_docstrings,
    read_imports,
    read_modules,
    read_parameters,
)
from experiments.sets.wordnet_sets import read_glosses, read_hypernyms
from experiments.shared.command_line import run_command
from snm.errors import InputError

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


def distinct(rows: Iterator[Row]) -> list[Row]:
    """The first row of each text of 15 characters or more."""
    found: dict[str, Sequence[str]] = {}
    for text, labels in rows:
        if len(text) >= 15:
            found.setdefault(text, labels)
    return list(found.items())


KINDS: dict[Kind, Callable[[Sequence[Path]], Iterator[Row]]] = {
    "docstrings": read_docstrings,
    "parameters": read_parameters,
    "modules": read_modules,
    "imports": read_imports,
    "packages": read_packages,
    "maintainers": read_maintainers,
    "tags": read_tags,
    "depends": read_depends,
    "readmes": read_readmes,
    "glosses": read_glosses,
    "hypernyms": read_hypernyms,
}
"""Kind of the texts -> what reads them, and the labels of each."""


if __name__ == "__main__":
    run_command(main, description=__doc__)
