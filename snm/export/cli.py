"""Runs `snm export`: a folder that is whole or not there, and what an index is worth."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from snm.errors import InputError
from snm.export.arrays import arrays_of, manifest_of, write_arrays
from snm.export.command import Export
from snm.export.index import LIBRARIES, IndexedPredictor, Settings, build_index
from snm.export.measure import measure
from snm.model.predictor import Predictor
from snm.runs.folder import RunFolder, read_json, write_json
from snm.runs.load import load
from snm.system.files import made_whole
from snm.system.terminal import console

__all__ = ["run_export"]


def run_export(command: Export) -> None:
    """Exports a run.

    Raises:
      InputError: no run, a missing library, a folder that is there already, no points to measure
        an index on.
    """
    out = command.output
    if out.exists():
        raise InputError(f"--output {out}", "a file or folder of that name", "a new folder")
    indexed = command.to in LIBRARIES
    points = _points(command) if indexed else None
    predictor = load(command.run)
    manifest = manifest_of(predictor, command.run)
    with made_whole("--output", out) as beside:
        beside.mkdir(parents=True)
        with console.status(Text(f"writing {out}")):
            if indexed:
                manifest["index"] = _index(command, predictor, points, manifest, beside)
            else:
                manifest["file"] = write_arrays(arrays_of(predictor), command.to, beside)
            folder = RunFolder(command.run)
            for extra in (folder.names, folder.vectorizer, folder.fitted_weighting):
                if extra.exists():
                    shutil.copyfile(extra, beside / extra.name)
            write_json(beside / "manifest.json", manifest)
    if indexed:
        console.print(_table(manifest["index"]))
    size = sum(file.stat().st_size for file in out.iterdir())
    console.print(f"{size / 2**20:,.1f} MiB in {out}", soft_wrap=True)


def _points(command: Export) -> Any:
    """Raw features that measure an index: of the test points, or of train where there are none."""
    from snm.data.load import load as load_data

    folder = RunFolder(command.run)
    if not folder.config.exists():
        raise InputError(str(command.run), "no config.toml", "the folder of a run (`snm train`)")
    dataset = load_data(command.data or read_json(folder.facts)["data"])
    part = dataset.test or dataset.train
    return part.features


def _index(
    command: Export, predictor: Predictor, points: Any, manifest: dict[str, Any], folder: Path
) -> dict[str, Any]:
    settings = Settings(command.links, command.build_effort, command.search_effort)
    about = {
        "library": command.to,
        "file": build_index(predictor, command.to, settings, folder),
        "links": settings.links,
        "build_effort": settings.build_effort,
        "search_effort": settings.search_effort,
    }
    write_json(folder / "manifest.json", {**manifest, "index": about})
    searched = IndexedPredictor.open(folder, predictor)  # what is measured is what was written
    return {**about, "measured": measure(searched, points)}


def _table(index: dict[str, Any]) -> Table:
    found = index["measured"]
    most = max(map(int, found["recall"]))
    title = f"{index['library']}: the best {most} of each of {found['points']} points"
    table = Table(title=title, title_justify="left")
    table.add_column("")
    for k in found["recall"]:
        table.add_column(f"recall@{k}", justify="right")
    table.add_column("queries/s", justify="right")
    shares = (f"{share:.4f}" for share in found["recall"].values())
    table.add_row("index", *shares, f"{found['queries_per_second']:,.0f}")
    ones = ("1.0000" for _ in found["recall"])
    table.add_row("exact", *ones, f"{found['exact_queries_per_second']:,.0f}")
    return table
