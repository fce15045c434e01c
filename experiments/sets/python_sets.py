"""Texts and labels from Python packages, for example a folder `site-packages`."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

from experiments.sets.csv_rows import Row, words

__all__ = ["read_docstrings", "read_imports", "read_modules", "read_parameters"]

LONGEST = 300  # characters of a docstring
MOST_NAMES = 1500  # of a module, in the order of their use


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


def read_docstrings(folders: Sequence[Path]) -> Iterator[Row]:
    """Docstrings, and the words of the function's or class's name."""
    for _, text, node in documented(folders):
        yield text, words(re.sub(r"([a-z])([A-Z])", r"\1 \2", node.name))


def read_parameters(folders: Sequence[Path]) -> Iterator[Row]:
    """Docstrings of functions, and the names of their parameters."""
    for _, text, node in documented(folders):
        if isinstance(node, ast.FunctionDef):
            names = [one.arg for one in (*node.args.args, *node.args.kwonlyargs)]
            yield text, [name for name in names if name not in ("self", "cls")]


def read_modules(folders: Sequence[Path]) -> Iterator[Row]:
    """Docstrings, and the module and the packages that they are in."""
    for file, text, _ in documented(folders):
        places = file.with_suffix("").parts
        if "site-packages" in places:
            places = places[places.index("site-packages") + 1 :]
        ends = [i + 1 for i, place in enumerate(places) if place != "__init__"]
        yield text, ["/".join(places[:end]) for end in ends]


def read_imports(folders: Sequence[Path]) -> Iterator[Row]:
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
