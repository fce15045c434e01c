"""The documentation builds without a broken link, and its code blocks run in their order."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pages
import pytest

import snm

DOCS = pages.ROOT / "docs"
PAGES = sorted(path.name for path in DOCS.glob("*.md"))
OF_TABLES = "extending.md"  # adds to tables, and has a test of its own
OF_PYTHON = {"python.md", "scikit-learn.md"}  # test_readme.py runs each block by itself
CHAINS = sorted(pages.chain(DOCS / name) for name in {*PAGES} - {OF_TABLES, *OF_PYTHON})


@pytest.mark.slow
def test_the_site_builds_strictly(tmp_path):
    pytest.importorskip("mkdocs")
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--site-dir",
        tmp_path,
    ]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=pages.ROOT, capture_output=True, text=True, env=quiet)
    assert done.returncode == 0, done.stdout + done.stderr
    built = {path.relative_to(tmp_path).parts[0] for path in tmp_path.rglob("index.html")}
    assert built == {"index.html", *(Path(name).stem for name in PAGES if name != "index.md")}
    html = {path: path.read_text(encoding="utf-8") for path in tmp_path.rglob("index.html")}
    assert not [path for path, text in html.items() if "```" in text]
    for name in PAGES:
        page = tmp_path / ("" if name == "index.md" else Path(name).stem) / "index.html"
        fences = len(re.findall("^ *```\\w", (DOCS / name).read_text(), re.MULTILINE))
        assert html[page].count('class="highlight') >= fences, name
        assert '"content.code.copy"' in html[page]
    reference = html[tmp_path / "reference" / "index.html"]
    for name in snm.__all__:
        assert re.search(rf'id="snm\.(\w+\.)*{name}"', reference), name


def test_the_overview_lists_the_pages_as_the_navigation_does():
    """The same parts, titles and order; every page is in both."""
    navigation = (pages.ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]
    listed = re.findall(r"^ +- (.+?):(?: (\S+\.md))?$", navigation, re.MULTILINE)
    assert listed[1] == ("Overview", "index.md")
    found = re.findall(
        r"^(?:## (?P<part>.+)|- \[(?P<title>.+?)\]\((?P<page>\S+\.md)\): .+)$",
        (DOCS / "index.md").read_text(),
        re.MULTILINE,
    )
    assert [(part or title, page) for part, title, page in found] == [listed[0], *listed[2:]]
    assert sorted(page for _, page in listed if page) == PAGES


def test_fences_are_what_every_renderer_reads():
    """Words behind the language hide a whole block from mkdocs; only a title is known."""
    for path in (*DOCS.glob("*.md"), pages.ROOT / "README.md", pages.ROOT / "CONTRIBUTING.md"):
        for block in pages.blocks(path):
            assert re.fullmatch(r'(title="[\w.-]+")?', block.info), f"{path.name}: {block.info}"


def test_the_reference_has_every_public_name():
    listed = re.findall(r"^::: snm\.(\w+)$", (DOCS / "reference.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(snm.__all__)


def test_pictures_and_links_of_the_readmes():
    """Of files that are no part of the site."""
    of_folders = [path for folder in ("benchmarks", "experiments")
                  for path in (pages.ROOT / folder).rglob("*.md")]  # fmt: skip
    assert len(of_folders) >= 15
    for path in (pages.ROOT / "README.md", pages.ROOT / "CONTRIBUTING.md", *of_folders):
        for link in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
            if "://" in link:
                continue
            target, _, anchor = link.partition("#")
            there = path.parent / target if target else path
            where = f"{path.relative_to(pages.ROOT)}: {link}"
            assert there.exists(), where
            assert not anchor or anchor in anchors(there), where


def anchors(page: Path) -> set[str]:
    """What links to the headings of a page end with, where GitHub shows it."""
    headings = re.findall("^#+ +(.*)", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", ["../README.md", "../CONTRIBUTING.md", *PAGES])
def test_commands_are_those_that_there_are(page, monkeypatch):
    monkeypatch.chdir(pages.ROOT)  # files that they name
    count = pages.read_commands(DOCS / page)
    assert count >= {"../README.md": 5, "cli.md": 20, "tutorial.md": 4}.get(page, 0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of modules that the tutorial reads
@pytest.mark.parametrize("first", [chain[0].name for chain in CHAINS if len(chain) == 1])
def test_every_block_runs(first, tmp_path, monkeypatch, capsys):
    """With all pages that build on this one, each after those that it builds on."""
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {}
    for part in (chain[-1] for chain in CHAINS if chain[0].name == first):
        pages.run(part, scope)
        if part.name == "tutorial.md":
            answers = re.findall(r"^\['.*\]$", capsys.readouterr().out, re.MULTILINE)
            assert len(answers) == 2 and "path" in answers[0] and "math" in answers[1]


def test_examples_of_extending_run(tmp_path, monkeypatch):
    from snm.config.schedules import SCHEDULES
    from snm.losses.sampled import LOSSES
    from snm.losses.sampled.options import RANK_SHAPES
    from snm.losses.surrogates import SURROGATES
    from snm.losses.transformations import TRANSFORMATIONS
    from snm.sampling.samplers import SAMPLERS
    from snm.tables.optimizers import ROW_OPTIMIZERS

    monkeypatch.chdir(tmp_path)
    added = [
        ("smooth_hinge", SURROGATES),
        ("linear", RANK_SHAPES),
        ("raised", TRANSFORMATIONS),
        ("bpr", LOSSES),
        ("log-uniform", SAMPLERS),
        ("warm-up", SCHEDULES),
        ("rmsprop", ROW_OPTIMIZERS),
    ]
    for name, of_kind in added:
        monkeypatch.setitem(of_kind, name, None)  # undoes what the example adds
    ran = pages.run(DOCS / OF_TABLES, {"__name__": "extending"})
    assert ran == {"python": 8}
    assert all(of_kind[name] is not None for name, of_kind in added)


def test_examples_of_contributing_run(tmp_path, monkeypatch):
    from snm.cli import table
    from snm.data.formats.foreign import READERS

    monkeypatch.chdir(tmp_path)
    # Undoes what the examples add to the tables.
    monkeypatch.setattr(table, "VERBS", table.VERBS)
    monkeypatch.setitem(READERS, "tabbed", None)
    ran = pages.run(pages.ROOT / "CONTRIBUTING.md", {"__name__": "contributing"})
    assert ran == {"python": 3, "toml": 1}
    assert READERS["tabbed"] is not None
    assert table.VERBS[-1].words == "count"


def test_results_that_files_name_are_there():
    """Also where code names them: a result that was renamed leaves such words behind."""
    root = Path(__file__).parents[2]
    files = [*root.glob("*.md")]
    for folder in ("snm", "docs", "benchmarks", "experiments", "tests"):
        files += [
            file for ending in ("py", "md", "txt") for file in (root / folder).rglob(f"*.{ending}")
        ]
    named = re.compile(r"\b(?:benchmarks|experiments)/results/[\w.-]+\.(?:json|svg|md)\b")
    texts = ((file, file.read_text(encoding="utf-8")) for file in files)
    names = {(file.name, name) for file, text in texts for name in named.findall(text)}
    assert len(names) > 100
    lost = [pair for pair in sorted(names) if not (root / pair[1]).exists()]
    assert [pair for pair in lost if "NAME" not in pair[1]] == []
