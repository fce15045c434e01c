"""What each verb does, for people: progress, tables, and files that are whole or not there."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from snm.config.settings import Config
from snm.errors import InputError
from snm.system.terminal import console, displayed, progress_bar, say, waiting

__all__ = [
    "metrics_table",
    "print_stats",
    "run_evaluation",
    "run_prediction",
    "run_training",
    "write_synthetic",
]

_PREDICTED_ROWS = 4096  # points read and answered at once


# -- data ------------------------------------------------------------------------------------


def print_stats(data: str, *, as_json: bool) -> None:
    """Prints the statistics of a data set."""
    from snm.data.load import load
    from snm.data.statistics import describe

    with waiting(f"reading {data}"):
        found = describe(load(data))
    if as_json:
        print(json.dumps(found))
        return
    table = Table(title=found.pop("name", data), title_justify="left", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for name, value in found.items():
        table.add_row(name.replace("_", " "), displayed(value))
    console.print(table)


def write_synthetic(out: Path, *, points: int, test_points: int, **options: Any) -> None:
    """Writes a generated data set as text files into a new folder."""
    from snm.data.formats.dispatch import write_text
    from snm.data.synthetic import generate

    if out.exists():
        raise InputError(str(out), "a file or folder of that name", "a new folder")
    with waiting("generating"):
        dataset = generate(points=points, test_points=test_points, **options)
    try:
        out.mkdir(parents=True)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(str(out), reason, "a folder that can be made") from error
    for name, part in (("train.txt", dataset.train), ("test.txt", dataset.test)):
        if part is not None:
            with waiting(f"writing {out / name}"):
                write_text(out / name, part.features, part.labels)
    say(f"{points} training and {test_points} test points in {out}")


# -- training --------------------------------------------------------------------------------


def run_training(
    data: str,
    config: Config,
    run_dir: Path,
    *,
    warm_start: Path | None,
    dry_run: bool,
    profile: bool,
    device_memory: str | None = None,
    log_to: Sequence[str] = (),
) -> None:
    """Trains with a progress bar, and prints the metrics on the test points.

    Of several processes the first prints.
    """
    from snm.distributed.dataset import load_together
    from snm.distributed.processes import first
    from snm.runs.trackers import check_trackers, tracked

    console.quiet = not first()
    check_trackers(log_to)

    with waiting(f"reading {data}"):
        dataset = load_together(data)
    if dry_run:
        _print_plan(dataset, config)
        return

    from snm.config.resolve import resolve
    from snm.planning.fit_check import refuse_what_cannot_fit
    from snm.runs.events import Evaluated, Finished, Noted, Skipped, Started, Stepped
    from snm.trainer.training import resolved_training

    with waiting("planning"):
        resolved = resolve(config, dataset)
        refuse_what_cannot_fit(dataset, resolved, device_memory)
    result: dict[str, Any] = {}
    with progress_bar() as bar, _stop_wished() as stop:
        task = None
        total = per_epoch = seen = begun = 0
        losses: list[float] = []
        clock = time.perf_counter()
        # The folder keeps the path that was typed, so that `evaluate` finds the data again.
        events = resolved_training(
            dataset,
            resolved,
            run_dir,
            source=data,
            warm_start=warm_start,
            profile=profile,
            stop=stop,
        )
        for event in tracked(events, log_to if first() else (), run_dir):
            if isinstance(event, Started):
                total, per_epoch, begun = event.last_step, event.steps_per_epoch, event.step
                clock, seen = time.perf_counter(), 0
                task = bar.add_task(event.phase, total=total, completed=begun)
                if event.phase != "train":
                    bar.console.print(event.phase)
                if begun:
                    bar.console.print(f"{event.phase}: going on from step {begun} of {total}")
            elif isinstance(event, Stepped) and task is not None:
                seen += event.points
                if not math.isnan(event.loss):  # all of its steps were skipped
                    losses.append(event.loss)
                rate = seen / (time.perf_counter() - clock)
                text = f"epoch {-(-event.step // per_epoch)} loss {event.loss:.4f} {rate:,.0f}/s"
                bar.update(task, completed=event.step, description=text)
                if event.step % per_epoch == 0:
                    epoch = event.step // per_epoch
                    mean = float(np.mean(losses)) if losses else math.nan
                    bar.console.print(
                        f"epoch {epoch:>3} of {total / per_epoch:.0f}   loss {mean:8.4f}   "
                        f"{rate:9,.0f} examples/s"
                    )
                    losses.clear()
            elif isinstance(event, Evaluated):
                shown = "  ".join(f"{k} {event.metrics[k]:.2f}" for k in ("P@1", "P@3", "P@5")
                                  if k in event.metrics)  # fmt: skip
                star = "  best" if event.best else ""
                bar.console.print(f"step {event.step:>7}   validation {shown}{star}")
            elif isinstance(event, Noted):
                bar.console.print(event.text, soft_wrap=True)
            elif isinstance(event, Skipped):
                bar.console.print(f"step {event.step} skipped: {event.tensor} not finite")
            elif isinstance(event, Finished):
                result = event.result
    if result["metrics"]:
        _print_metrics(result, f"{dataset.name}: test points")
    else:
        console.print("no test points: nothing to evaluate on")
    say(
        f"{result['epochs']:.4g} epochs in {result['seconds']:.1f} s "
        f"({result['examples_per_second']:,.0f} examples/s), "
        f"{result['peak_memory_bytes'] / 2**20:,.0f} MiB at most; all in {run_dir}"
    )
    if result.get("skipped_steps"):
        say(f"{result['skipped_steps']} steps were skipped: loss or gradient not finite")


@contextlib.contextmanager
def _stop_wished() -> Iterator[Callable[[], bool]]:
    from snm.system.signals import stop_wished

    def first(signal: Any) -> None:
        print(f"snm: {signal.name}: finishing the step and taking a checkpoint; "
              "again stops at once", file=sys.stderr, flush=True)  # fmt: skip

    def second() -> None:
        console.show_cursor(True)  # the progress bar hides it
        print("snm: error: stopped at once; the same command goes on from the last checkpoint",
              file=sys.stderr, flush=True)  # fmt: skip

    with stop_wished(first, second) as wished:
        yield wished


def _print_plan(dataset: Any, config: Config) -> None:
    import dataclasses

    from snm.config.resolve import resolve

    resolved = resolve(config, dataset)
    table = Table(title="settings", title_justify="left", show_header=False)
    for name, value in dataclasses.asdict(resolved).items():
        table.add_row(name, str(value))
    console.print(table)
    rows = dataset.train.num_features + dataset.train.num_labels
    parameters = config.dim * (rows + (config.dim if config.encoder != "linear" else 0))
    parameters *= resolved.members
    held = round(dataset.train.num_points * config.validation_fraction)
    steps = -(-(dataset.train.num_points - held) // config.batch_size)
    console.print(
        f"{parameters:,} parameters, {parameters * 4 / 2**20:,.0f} MiB; about {steps} steps an "
        f"epoch, {steps * resolved.epochs * resolved.members} in all. "
        "Nothing was trained (--dry-run)."
    )


# -- evaluation ------------------------------------------------------------------------------


def run_evaluation(
    run: Path, data: str | None, *, as_json: bool, index: Path | None = None, auc: bool = False
) -> None:
    """Evaluates a run and prints its metrics; with an index, also what the search loses."""
    from snm.trainer.evaluate import evaluate

    if index is not None:
        from snm.export.index import IndexedPredictor
        from snm.runs.load import load

        # Opened first: an index of another run is refused before the long part.
        searched = IndexedPredictor.open(index, load(run))
    with waiting(f"evaluating {run}"):
        found = evaluate(run, data, auc=auc or None)
    if index is not None:
        with waiting(f"searching {index}"):
            found["by_index"] = evaluate(run, data, wrap=lambda _: searched)["metrics"]
    if as_json:
        print(json.dumps(found, default=lambda x: np.asarray(x).tolist()))
        return
    _print_metrics(found, f"{run}: test points")
    if index is not None:
        console.print(metrics_table(found["by_index"], f"the same by {index}"))
        lost = {
            name: value - found["by_index"][name] if "@" in name else value
            for name, value in found["metrics"].items()
        }
        console.print(metrics_table(lost, "lost to the search"))


def _print_metrics(found: dict[str, Any], title: str) -> None:
    console.print(metrics_table(found["metrics"], title))
    if "without_repeats" in found:
        fresh = found["without_repeats"]
        left = found["metrics"]["points"] - fresh["points"]
        repeats = f"without the {left} test points that repeat a training point"
        console.print(metrics_table(fresh, repeats))
    if "AUC" in found["metrics"]:
        area = found["metrics"]["AUC"]
        console.print(f"AUC {area:.2f} %: a relevant label above an irrelevant one, mean of points")
    unlabelled = found["metrics"]["points_without_labels"]
    if unlabelled:
        console.print(f"{unlabelled} points without labels were left out")
    groups = found.get("by_label_frequency") or []
    if groups:
        table = Table(title="labels by training frequency, rarest tenth first")
        for name in groups[0]:
            table.add_column(name.replace("_", " "), justify="right")
        for group in groups:
            table.add_row(*(displayed(value) for value in group.values()))
        console.print(table)


def metrics_table(metrics: dict[str, Any], title: str) -> Table:
    """Metrics in percent: a row a measure, a column a k."""
    ks = sorted({int(name.split("@")[1]) for name in metrics if "@" in name})
    table = Table(title=f"{title} ({metrics['points']})", title_justify="left")
    table.add_column("%")
    for k in ks:
        table.add_column(f"@{k}", justify="right")
    names = list(dict.fromkeys(name.split("@")[0] for name in metrics if "@" in name))
    for name in names:
        cells = (metrics.get(f"{name}@{k}") for k in ks)
        table.add_row(name, *("" if cell is None else f"{cell:.2f}" for cell in cells))
    return table


# -- prediction ------------------------------------------------------------------------------


def run_prediction(
    run: Path, source: Path, output: Path, *, k: int, form: str, texts: bool = False
) -> None:
    """Streams a file of features through a model; the output appears when it is whole."""
    from snm.runs.load import load

    if output.is_dir() or not output.resolve().parent.is_dir():
        found = "a folder" if output.is_dir() else "no such folder"
        raise InputError(f"--output {output}", found, "a file in a folder that is there")
    predictor = load(run)
    names = predictor.label_names if form == "jsonl" else None
    # With the process in its name, it is nobody's file that is overwritten and removed.
    beside = output.with_name(f".{os.getpid()}.{output.name}")
    rows = 0
    try:
        with beside.open("w", encoding="utf-8") as lines, progress_bar(counted=False) as bar:
            task = bar.add_task("points", total=None)
            if form == "sparse":
                # Room for the number of rows, which is known at the end.
                lines.write(f"{'':>20} {predictor.model.head.num_labels}\n")
            for features in _inputs(source, predictor.model.num_features, texts):
                for labels, scores in predictor.top(features, k):
                    lines.writelines(_lines(labels, scores, names, form))
                    rows += len(labels)
                    bar.update(task, completed=rows, description=f"{rows:,} points")
        if form == "sparse":
            with beside.open("r+", encoding="utf-8") as lines:
                lines.write(f"{rows:<20}")
        beside.replace(output)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"--output {output}", reason, "a file that can be written") from error
    finally:
        beside.unlink(missing_ok=True)
    say(f"{rows:,} points answered in {output}")


def _inputs(source: Path, num_features: int, texts: bool) -> Iterator[Any]:
    """Pieces of a file of features, or of texts."""
    packed = source.name.removesuffix(".gz").lower()
    if not texts and not packed.endswith(".jsonl"):
        from snm.data.formats.dispatch import iter_features

        yield from iter_features(source, num_features, _PREDICTED_ROWS)
        return
    from snm.data.formats.foreign import read_texts

    rows = read_texts(source)
    while piece := list(itertools.islice(rows, _PREDICTED_ROWS)):
        yield piece


def _lines(
    labels: np.ndarray, scores: np.ndarray, names: tuple[str, ...] | None, form: str
) -> Iterator[str]:
    for ids, of_ids in zip(labels, scores, strict=True):
        row, row_scores = ids[ids >= 0].tolist(), of_ids[ids >= 0].tolist()
        if form == "sparse":
            pairs = sorted(zip(row, row_scores, strict=True))
            yield " ".join(f"{label}:{score:.6g}" for label, score in pairs) + "\n"
            continue
        answer: dict[str, Any] = {"labels": row}
        if names is not None:
            answer["names"] = [names[label] for label in row]
        answer["scores"] = [round(score, 6) for score in row_scores]
        yield json.dumps(answer, ensure_ascii=False) + "\n"
