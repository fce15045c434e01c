"""`snm export`: a folder that is complete or absent, and the recall of an index."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, arg
from tyro.extras import literal_type_from_choices

from snm.errors import InputError, flag_of
from snm.export.index_libraries import LIBRARIES, GraphSettings
from snm.stores.marks import CopiedRun
from snm.text import counted, format_bytes

if TYPE_CHECKING:
    from rich.table import Table

    from snm.memory.memory import Memory
    from snm.prediction.predictor import Predictor
    from snm.runs.folder import RunFolder

__all__ = ["Export"]

_LOW_RECALL = 0.95
_FORMS = literal_type_from_choices(("npy", "npz", "safetensors", "hub", *LIBRARIES))
_INDEX_OPTIONS = ("links", "build_effort", "search_effort")
_MEASURE_OPTIONS = ("data", "min_recall")  # of indexes and of int8 rows


@dataclasses.dataclass
class Export:
    """Write a trained model as arrays, or an index of its label embeddings for approximate search.

    Creates the folder OUTPUT with the arrays or the index, manifest.json, and the label names and
    the vectorizer if the run has them. With --to npy, the model opens at once: `snm predict`,
    `snm serve` and `snm.load` take the folder in place of the run, map its arrays into memory and
    give the same answers.

    An index (HNSW, built by the library itself) is compared with exact search on the test points:
    recall@k and queries per second are printed and written to the manifest. --min-recall refuses an
    index that finds too little; without it, one below 0.95 gets a warning, and so does one that is
    slower than exact search. The same is done for --rows int8, a quarter of the size.

    Where the run uses a memory of neighbours, its points are arrays too, and the manifest says how
    they vote. An index holds the label embeddings alone; `snm evaluate` and `snm serve` add the
    votes of the run's neighbours to what they find with it.

    With --to hub, it is a folder as on the Hugging Face Hub (extra `hub`): safetensors,
    config.json, and a model card with the data, the metrics and the settings. It is opened like one
    of --to npy, but copied into memory. --push sends it to the Hub, from where hf://owner/name in
    place of a folder opens it.

    For example:

      snm export runs/eurlex --to npy --out out/model
      snm export runs/eurlex --to safetensors --out out/eurlex
      snm export runs/eurlex --to hub --license cc-by-4.0 --out out/hub
      snm export runs/eurlex --to faiss --out out/index
      snm export runs/eurlex --to hnswlib --out out/fast --search-effort 32
      snm evaluate runs/eurlex --index out/index
    """

    run: Annotated[Positional[CopiedRun[Path]], arg(metavar="RUN")]
    """Folder of a run, or its address in a store, such as gs://bucket/runs/a."""
    to: Annotated[str, arg(constructor=_FORMS)]
    """Format: arrays (npy, npz, safetensors), a folder for the Hugging Face Hub (hub) or an index
    (faiss, hnswlib)."""
    out: Path
    """Folder to create; must not exist."""
    rows: Literal["float32", "int8"] = "float32"
    """How `--to npy` stores feature and label embeddings; int8 has a scale for each of them."""
    data: str | None = None
    """Data set to measure an index, or rows of int8, on; by default the one that the run was
    trained on."""
    links: int = 32
    """Links of each label in an index (M of HNSW)."""
    build_effort: int = 200
    """Candidates examined while an index is built (efConstruction)."""
    search_effort: int = 128
    """Candidates examined by a search (efSearch)."""
    min_recall: float | None = None
    """Refuse an index, or rows of int8, whose recall@1, recall@5 or recall@10 is lower, from 0 to
    1."""
    license: str | None = None
    """Licence that the model card of `--to hub` names, as the Hub spells it, such as cc-by-4.0; by
    default unknown."""
    datasets: tuple[str, ...] = ()
    """Data sets on the Hub, owner/name, that the model card of `--to hub` links to."""
    push: str | None = None
    """Repository, owner/name, that `--to hub` is sent to; it is made if there is none."""
    private: bool = False
    """Make a new repository of --push one that its owner alone can read."""

    @property
    def builds_index(self) -> bool:
        """Whether it builds an index."""
        return self.to in LIBRARIES

    @property
    def quantizes(self) -> bool:
        """Whether it rounds rows to int8."""
        return self.rows != "float32"

    @property
    def is_approximate(self) -> bool:
        """Whether the export may miss some of the best labels; its recall is then measured."""
        return self.builds_index or self.quantizes

    def __call__(self) -> None:
        """Exports a run.

        Raises:
          InputError: no run, a missing library, a folder that exists, or no points to measure an
            index on.
        """
        from snm.export.arrays import copy_run_files, make_manifest, run_origin
        from snm.export.manifest import write_manifest
        from snm.runs.folder import RunFolder
        from snm.runs.stored_run import load
        from snm.runs.unfinished import note_if_unfinished
        from snm.system.files.atomic import atomic_folder
        from snm.system.terminal import console, say, waiting

        _check(self)
        points = _measured_points(self) if self.is_approximate else None
        predictor = load(self.run)
        note_if_unfinished(self.run)
        if self.to == "hub":
            _write_hub(self, predictor)
            return
        out, folder = self.out, RunFolder(self.run)
        manifest = make_manifest(predictor, run_origin(self.run), self.rows)
        with atomic_folder("--out", out) as partial, waiting(f"writing {out}"):
            if self.builds_index:
                manifest["index"] = _write_index(self, predictor, points, manifest, partial)
            else:
                manifest |= _write_arrays(self, predictor, folder, partial)
            copy_run_files(folder, partial)
            if self.quantizes:
                manifest["measured"] = _measure_quantized(
                    self, predictor, points, manifest, partial
                )
            write_manifest(partial, manifest)
        if self.is_approximate:
            measured = (manifest["index"] if self.builds_index else manifest)["measured"]
            console.print(_table(measured, self))
            for line in _warnings(measured, self):
                say(line)
        if self.builds_index:
            say(f"in other programs: {manifest['index']['opening']}")
        if predictor.memory is not None:
            _report_memory(self, predictor.memory)
        _report_size(out)


def _check(command: Export) -> None:
    """Checks the options before the run is read.

    Raises:
      InputError: a folder that exists, options that do nothing here, or a library that is missing.
    """
    from snm.system.files.checks import check_new

    check_new("--out", command.out)
    if command.quantizes and command.to != "npy":
        raise InputError(f"--rows {command.rows}", f"--to {command.to}", "--to npy")
    _check_hub(command)
    for name in (*_INDEX_OPTIONS, *_MEASURE_OPTIONS):
        measures = name in _MEASURE_OPTIONS
        allowed = command.builds_index or (command.quantizes and measures)
        if getattr(command, name) != getattr(Export, name) and not allowed:
            more = ", or --rows int8" if measures else ""
            expected = f"--to {' or '.join(LIBRARIES)}{more}"
            raise InputError(flag_of(name), f"--to {command.to}", expected)
    if command.min_recall is not None and not 0 <= command.min_recall <= 1:
        raise InputError("--min-recall", f"{command.min_recall:g}", "0 to 1")


def _check_hub(command: Export) -> None:
    """Checks the options of the Hub before the work."""
    from snm.export.hub.transfer import check_client

    options = {"--license": command.license, "--datasets": command.datasets,
             "--push": command.push, "--private": command.private}  # fmt: skip
    for flag, value in options.items():
        if value and command.to != "hub":
            raise InputError(flag, f"--to {command.to}", "--to hub")
    if command.push is not None:
        check_client("--push", command.push)
    elif command.private:
        raise InputError("--private", "no --push", "a repository to send the model to")


def _write_hub(command: Export, predictor: Predictor) -> None:
    """Writes a hub folder, and sends it."""
    from snm.export.hub.folder import write_hub
    from snm.export.hub.transfer import push
    from snm.system.files.atomic import atomic_folder
    from snm.system.terminal import say, waiting

    out = command.out
    with atomic_folder("--out", out) as partial, waiting(f"writing {out}"):
        write_hub(
            predictor,
            command.run,
            partial,
            license=command.license,
            datasets=command.datasets,
            repository=command.push,
        )
    stored = predictor.memory
    if stored is not None:
        what = counted(len(stored.rows), "training point")
        say(f"memory.safetensors has {what}: share it only where the data may be shared")
    _report_size(out)
    if command.push is not None:
        with waiting(f"sending {out}"):
            commit = push(out, command.push, private=command.private)
        say(f"sent to {commit}")


def _write_arrays(
    command: Export, predictor: Predictor, folder: RunFolder, partial: Path
) -> dict[str, Any]:
    """Writes the arrays of a run; returns their entries of the manifest."""
    from snm.export.arrays import write_model
    from snm.export.npy.folder import write_npy

    if command.to == "npy":
        names = folder.names if folder.has(folder.names) else None
        return write_npy(predictor, folder.settings(), names, partial, rows=command.rows)
    return write_model(predictor, command.to, partial)


def _report_memory(command: Export, memory: Memory) -> None:
    from snm.system.terminal import say

    file = f"memory{'-*' if command.to == 'npy' else ''}.{command.to}"
    if command.builds_index:
        message = "not in the index, nor in its recall; `snm evaluate` and `serve` add the votes"
    else:
        message = f"{counted(len(memory.rows), 'point')} in {file}; the manifest says how they vote"
    say(f"memory of neighbours: {message}")


def _report_size(out: Path) -> None:
    from snm.system.terminal import say

    size = sum(file.stat().st_size for file in out.iterdir())
    say(f"{format_bytes(size)} in {out}")


def _measured_points(command: Export) -> Any:
    """Raw features to measure recall on: those of test, or of train if there is no test."""
    from snm.data.load import load as load_data
    from snm.runs.stored_run import StoredRun
    from snm.trainer.run_data import training_data

    origin = StoredRun.open(command.run).origin
    dataset = training_data(origin) if command.data is None else load_data(command.data)
    part = dataset.test or dataset.train
    return part.features


def _write_index(
    command: Export, predictor: Predictor, points: Any, manifest: dict[str, Any], folder: Path
) -> dict[str, Any]:
    from snm.export.index import ARRAYS, QUERY, bias_scale, build_index, with_index
    from snm.export.manifest import write_manifest
    from snm.export.measure import measure_recall

    settings = GraphSettings(command.links, command.build_effort, command.search_effort)
    entries = {
        "library": command.to,
        "file": build_index(predictor, LIBRARIES[command.to], settings, folder),
        "links": settings.links,
        "build_effort": settings.build_effort,
        "search_effort": settings.search_effort,
        "opening": LIBRARIES[command.to].opening(settings.search_effort),
        "query": QUERY,
        "arrays": ARRAYS,
        "bias_scale": bias_scale(predictor),
    }
    write_manifest(folder, {**manifest, "index": entries})
    searched = with_index(predictor, folder)  # measures the files as written
    measured = measure_recall(predictor, searched, points)
    _check_recall(measured, command)
    return {**entries, "measured": measured}


def _measure_quantized(
    command: Export, predictor: Predictor, points: Any, manifest: dict[str, Any], folder: Path
) -> dict[str, Any]:
    from snm.export.manifest import write_manifest
    from snm.export.measure import measure_recall
    from snm.export.npy.folder import open_npy

    write_manifest(folder, manifest)
    written = open_npy(folder, memory=False)  # measures the files as written
    measured = measure_recall(predictor, written, points)
    _check_recall(measured, command)
    return measured


def _check_recall(measured: dict[str, Any], command: Export) -> None:
    from snm.export.measure import lowest_recall

    k, share = lowest_recall(measured["recall"])
    if command.min_recall is not None and share < command.min_recall:
        found, expected = f"recall@{k} {share:.4f}", f"at least that; {_advice(command)}"
        raise InputError(f"--min-recall {command.min_recall:g}", found, expected)


def _advice(command: Export) -> str:
    if command.to == "npy":
        return "--rows float32 finds all"
    return f"a higher --search-effort, such as {4 * command.search_effort}, finds more"


def _warnings(measured: dict[str, Any], command: Export) -> Iterator[str]:
    """Warnings about low recall and low speed."""
    from snm.export.measure import lowest_recall

    k, share = lowest_recall(measured["recall"])
    if command.min_recall is None and share < _LOW_RECALL:
        yield f"warning: recall@{k} is {share:.4f}, so answers get worse; {_advice(command)}"
    if command.to == "npy":
        return  # for less memory, at any speed
    if measured["queries_per_second"] < measured["exact_queries_per_second"]:
        yield "warning: the index is slower than exact search here, which needs no index"


def _table(measured: dict[str, Any], command: Export) -> Table:
    from snm.system.terminal import make_table

    what, name, other = "rows of int8", "int8", "float32"
    if command.to != "npy":
        what, name, other = command.to, "index", "exact"
    most = max(map(int, measured["recall"]))
    title = f"{what}: the best {most} of each of {counted(measured['points'], 'point')}"
    recalls = (f"recall@{k}" for k in measured["recall"])
    table = make_table(title, [""], [*recalls, f"queries/s (k {measured['timed_k']})"])
    shares = (f"{share:.4f}" for share in measured["recall"].values())
    table.add_row(name, *shares, f"{measured['queries_per_second']:,.0f}")
    ones = ("1.0000" for _ in measured["recall"])
    table.add_row(other, *ones, f"{measured['exact_queries_per_second']:,.0f}")
    return table
