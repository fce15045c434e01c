"""`snm train`."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import OmitArgPrefixes, Positional, arg

from snm.cli.train.display import Display
from snm.config.settings import Config
from snm.distributed.launch import ProcessOptions, process_group
from snm.errors import STOPPED, InputError
from snm.stores.marks import OwnAddress
from snm.text import counted, format_bytes

if TYPE_CHECKING:
    from snm.data.dataset import Dataset
    from snm.stores.address import Address

__all__ = ["Train", "run_training"]

_MIN_COMPILING = 0.1  # seconds; --profile-time leaves out programs that compile faster
_SHOWN_PARTS = {"memory": "memory of neighbours"}  # alone, it might be taken for RAM
_STOP_NOTE = "finishing the step and taking a checkpoint; again stops at once"
_RESUME_NOTE = "goes on from the last checkpoint"
_SIGTERM_NOTE = f"SIGTERM: stopped; the same command {_RESUME_NOTE}, if there is one"


@dataclasses.dataclass
class Watching:
    """Logs, profiles, and what a run may take."""

    log_to: tuple[Literal["wandb", "mlflow"], ...] = ()
    """Services to log to, besides log.jsonl and TensorBoard files; each needs the extra of its
    name."""
    profile: bool = False
    """Write a profiler trace of a few steps to the folder of the run."""
    profile_time: bool = False
    """Print what every second was spent on; result.json has it too."""
    device_memory: Annotated[str | None, arg(metavar="SIZE")] = None
    """Refuse a run that needs more device memory, such as 80GiB; by default what the device
    reports."""


@dataclasses.dataclass
class Train:
    """Train a model, evaluate it on the test points, and store both in a folder.

    If the run was interrupted, the same command resumes it from the last checkpoint. SIGTERM and
    Ctrl-C finish the current step, write a checkpoint and exit with status 75; another signal,
    a second later or more, stops at once. Before the first step, SIGTERM stops at once with status
    75. Flags override the TOML file, which overrides the preset.

    For example:

      snm train path/to/eurlex --run-dir runs/eurlex
      snm train path/to/eurlex --run-dir runs/quick --preset fast
      snm train synthetic --run-dir runs/ns --preset paper --mined all
      snm train path/to/eurlex --run-dir runs/stop --validation-fraction 0.1 --patience 3
      snm train path/to/eurlex --run-dir runs/eurlex --log-to wandb mlflow
      srun snm train path/to/amazon3m --run-dir runs/big --mesh data=2,label=8
      snm train gs://bucket/eurlex --run-dir gs://bucket/runs/eurlex
    """

    data: Annotated[Positional[str], arg(metavar="DATA")]
    """Folder of the data set, or `synthetic`; a `weights.txt` in it weighs the training points, a
    `label_weights.txt` the labels. An address such as gs://bucket/eurlex (extra gcs) or s3://...
    (extra s3) is copied first."""
    run_dir: OwnAddress[Path]
    """Folder of the run; refused if it holds a run with other settings or other data. At an address
    in a store, each checkpoint and the result appear as a whole."""
    config: Path | None = None
    """TOML file with settings, such as the config.toml of a run."""
    dry_run: bool = False
    """Print the settings, which of them were chosen for DATA, and sizes, without training."""
    warm_start: OwnAddress[Path | None] = None
    """Folder of a run whose parameters initialize this one; labels are mapped by their names."""
    same_ids: bool = False
    """Take labels without names to mean the same in DATA as in the run of --warm-start."""
    settings: OmitArgPrefixes[Config] = dataclasses.field(default_factory=Config)
    """Settings of the run."""
    watching: Annotated[OmitArgPrefixes[Watching], arg(name="logging and limit")] = (
        dataclasses.field(default_factory=Watching)
    )
    """Logs, profiles, and the memory that a run may take."""
    processes: Annotated[OmitArgPrefixes[ProcessOptions], arg(name="multi-process")] = (
        dataclasses.field(default_factory=ProcessOptions)
    )
    """Several processes for one run."""

    def __call__(self) -> None:
        """Runs the verb."""
        from snm.machine.ram import check_ulimits
        from snm.system.signals import sigterm_exits
        from snm.system.terminal import ignore_broken_pipe, waiting
        from snm.system.timing import part

        check_ulimits()
        # Until the steps begin, which `announced_stop` ends in order.
        with ignore_broken_pipe(), sigterm_exits(STOPPED, _SIGTERM_NOTE):
            with waiting("starting"), part("starting"):
                from snm.system.compilation_cache import enable_compilation_cache

                enable_compilation_cache()
            with process_group(self.processes):
                run_training(self)


def run_training(command: Train) -> None:
    """Trains with a progress bar, and prints the metrics on the test points.

    If there are several processes, only the first prints.

    Raises:
      InputError: data, settings or a folder that cannot be used.
    """
    from snm.system.terminal import console, progress_bar, say, waiting
    from snm.system.timing import part

    with waiting("starting"), part("starting"):
        from snm.distributed.processes import is_first_process
        from snm.runs.log.trackers import log_to_trackers
        from snm.trainer.request import RunRequest, load_for_run

    console.quiet = not is_first_process()
    _check_options(command)
    request = RunRequest(
        source=command.data,  # as typed, so that `evaluate` finds the data again
        warm_start=command.warm_start,
        same_ids=command.same_ids,
        profile=command.watching.profile,
    )
    with waiting(f"reading {command.data}"):
        dataset = load_for_run(
            command.data, command.settings, command.run_dir, request, dry_run=command.dry_run
        )
    if command.dry_run:
        _print_settings(dataset, command.settings)
        return

    with waiting("planning"), part("starting"):
        from snm.planning.fit_check import check_disk, check_fits
        from snm.runs.mirror import open_location
        from snm.stores.address import Address
        from snm.system.signals import announced_stop
        from snm.trainer.run import PlannedRun

    with open_location(command.run_dir) as location:
        with waiting("planning"), part("planning"):
            run = PlannedRun.of(dataset, command.settings, location)
            check_fits(dataset, run.config, command.watching.device_memory)
            # All processes call it.
            warning = check_disk(dataset, run.config, location.folder, command.run_dir)
            if warning is not None:
                say(warning)
        with progress_bar() as bar, announced_stop(_STOP_NOTE, _RESUME_NOTE) as stop:
            request = dataclasses.replace(request, stop=stop)
            display = Display(bar, run.config.members)
            services = command.watching.log_to if is_first_process() else ()
            for event in log_to_trackers(run.events(request), services, location.folder):
                display.show(event)
    if not display.started:
        say(f"{command.run_dir} is finished: nothing was trained")
    place_of_run = Address.of(command.run_dir) or command.run_dir
    _print_result(display.result, dataset.name, place_of_run)
    _print_times(command.watching.profile_time)
    _print_next(bool(display.result["metrics"].get("points")), place_of_run)


def _check_options(command: Train) -> None:
    """Checks what does not depend on the data, which may take long to read."""
    from snm.planning.byte_sizes import parse_bytes
    from snm.runs.log.trackers import check_trackers

    command.settings.check()
    check_trackers(command.watching.log_to)
    if command.same_ids and command.warm_start is None:
        raise InputError("--same-ids", "no --warm-start", "the run that has the same ids")
    if command.watching.device_memory is not None:  # an invalid size is refused also with --dry-run
        parse_bytes(command.watching.device_memory)


def _print_result(result: dict[str, Any], name: str, run_dir: Path | Address) -> None:
    from snm.cli.metrics_tables import print_held_out, print_summary
    from snm.system.terminal import console, say

    if result["metrics"]:
        print_summary(result, f"{name}: test points")
    else:
        console.print("no test points, so nothing was evaluated")
    if "validation" in result:
        print_held_out(result["validation"])
    say(
        f"{result['epochs']:.4g} epoch{'s' * (result['epochs'] != 1)} in {result['seconds']:.1f} s "
        f"({result['examples_per_second']:,.0f} examples/s), "
        f"{format_bytes(result['peak_memory_bytes'])} of RAM at the peak; "
        f"written to {run_dir}"
    )
    if result["skipped_steps"]:
        steps = counted(result["skipped_steps"], "step")
        say(f"left out: {steps}, where loss or gradient was not finite")


def _print_next(evaluated: bool, run_dir: Path | Address) -> None:
    """Prints the next commands for the run."""
    from snm.system.terminal import say

    run = shlex.quote(str(run_dir))
    evaluate = f"snm evaluate {run} for more of these metrics, " if evaluated else ""
    say(f"next: {evaluate}snm predict {run} INPUT, or snm serve {run}")


def _print_times(table: bool) -> None:
    """Prints the time by part: one line, or with `table` every part and program."""
    from snm.system.terminal import console, make_table, say
    from snm.system.timing import COMPILING, times

    timings = times()
    whole, parts, programs = timings
    parts = {_SHOWN_PARTS.get(name, name): seconds for name, seconds in parts.items()}
    parts["the rest"] = timings.rest
    ordered = sorted(parts, key=lambda name: -parts[name])
    if not table:
        shown = ", ".join(f"{parts[name]:.1f} {name}" for name in ordered[:4])
        say(f"{whole:.1f} s from the command to the result: {shown} (--profile-time shows all)")
        return
    lines = make_table("from the command to the result", ["part"], ["seconds", "share"])
    for name in ordered:
        lines.add_row(name, f"{parts[name]:.2f}", f"{parts[name] / whole:.1%}")
        if name == COMPILING:
            for program in sorted(programs, key=lambda program: -programs[program]):
                if programs[program] >= _MIN_COMPILING:
                    lines.add_row(f"  {program}", f"  ({programs[program]:.2f})", "")
    lines.add_row("all", f"{whole:.2f}", "")
    console.print(lines)


def _print_settings(dataset: Dataset, config: Config) -> None:
    """Prints the settings and sizes of a run, for `--dry-run`."""
    from snm.config.resolve import resolve
    from snm.config.resolved import changed_by_data
    from snm.planning.forecast import count_parameters
    from snm.system.terminal import console, make_table
    from snm.trainer.phase import count_steps_per_epoch

    resolved = resolve(config, dataset)
    steps = count_steps_per_epoch(resolved, dataset)
    chosen = changed_by_data(config, resolved)
    table = make_table("settings", ["setting", "value", "chosen for"])
    for name, value in dataclasses.asdict(resolved).items():
        table.add_row(name, str(value), str(chosen.get(name, "")))
    console.print(table)
    parameters, size = count_parameters(resolved, dataset)
    total_steps = steps * resolved.epochs * resolved.members
    console.print(
        f"{parameters:,} parameters, {format_bytes(size)}; about "
        f"{counted(steps, 'step')} an epoch, {total_steps:,} in all. "
        "Nothing was trained (--dry-run). `snm plan` with the same settings predicts memory and "
        "time."
    )
