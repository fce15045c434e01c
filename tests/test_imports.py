"""Modules import each other one way only: also for types alone, and inside functions."""

import ast
import graphlib
from collections.abc import Iterator
from pathlib import Path

import snm

PACKAGE = Path(snm.__file__).parent


def module_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_by(path: Path, modules: set[str]) -> Iterator[str]:
    """The modules of `snm` that a file imports anywhere, of packages or of names."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from modules.intersection(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}:{node.lineno} imports relatively"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield from modules & {inner if inner in modules else node.module}


def test_no_module_imports_itself_through_others():
    files = {module_of(path): path for path in PACKAGE.rglob("*.py")}
    graph = {name: {*imported_by(path, {*files})} for name, path in files.items()}
    assert "snm.errors" in graph["snm.config.settings"]
    assert "snm.losses.transformations" in graph["snm.config.settings"]  # inside a function
    graphlib.TopologicalSorter(graph).prepare()  # raises a CycleError with the circle


def test_a_name_that_another_module_imports_is_in_the_list_of_public_names():
    trees = {module_of(p): ast.parse(p.read_text(encoding="utf-8")) for p in PACKAGE.rglob("*.py")}
    public = {name: names for name, tree in trees.items() if (names := listed(tree))}
    assert "Config" in public["snm.config.settings"]
    unlisted = {
        f"{node.module}.{alias.name} in {name}"
        for name, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in public
        for alias in node.names
        if alias.name not in public[node.module] | {"__version__"}
        and f"{node.module}.{alias.name}" not in trees
    }
    assert not unlisted


def listed(tree: ast.Module) -> set[str]:
    """The names in `__all__`; none in most packages, whose names are modules."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    return set()
