"""Texts and labels from npm packages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from experiments.sets.csv_rows import Row

__all__ = ["read_readmes"]


def read_readmes(folders: Sequence[Path]) -> Iterator[Row]:
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
