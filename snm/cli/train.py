"""`snm train`."""

from __future__ import annotations

import dataclasses
import math
import shlex
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import OmitArgPrefixes, Positional, arg

from snm.config.settings import Config
from snm.errors import STOPPED, InputError
from snm.machine.cores import num_cores
from snm.text import counted, duration, format_bytes

if TYPE_CHECKING:
    from rich.progress import Progress

    from snm.data.dataset import Dataset
    from snm.stores.address import Address

__all__ = ["Train", "run_training"]

_MIN_TIMED = 2.0  # seconds of steps before the rest is estimated
_MIN_ESTIMATE = 10.0  # seconds; shorter estimates are not shown
_LINE_EVERY = 1.0  # seconds of steps between two lines
_MIN_COMPILING = 0.1  # seconds; --profile-time leaves out programs that compile faster
_STOP_NOTE = "finishing the step and taking a checkpoint; again stops at once"
_RESUME_NOTE = "goes on from the last checkpoint"
_SIGTERM_NOTE = f"SIGTERM: stopped; the same command {_RESUME_NOTE}, if there is one"


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
    run_dir: Path
    """Folder of the run; refused if it holds a run with other settings or other data. At an address
    in a store, each checkpoint and the result appear as a whole."""
    config: Path | None = None
    """TOML file with settings, such as the config.toml of a run."""
    warm_start: Path | None = None
    """Folder of a run whose parameters initialize this one; labels are mapped by their names."""
    same_ids: bool = False
    """Take labels without names to mean the same in DATA as in the run of --warm-start."""
    dry_run: bool = False
    """Print the settings, which of them were chosen for DATA, and sizes, without training."""
    profile: bool = False
    """Write a profiler trace of a few steps to the folder of the run."""
    profile_time: bool = False
    """Print what every second was spent on; result.json has it too."""
    device_memory: str | None = None
    """Refuse a run that needs more device memory, such as 80GiB; by default what the device
    reports."""
    log_to: tuple[Literal["wandb", "mlflow"], ...] = ()
    """Services to log to, besides log.jsonl and TensorBoard files; each needs the extra of its
    name."""
    coordinator: str | None = None
    """HOST:PORT of process 0, for runs of several processes; SLURM, Open MPI and GKE set it."""
    num_processes: int | None = None
    """Number of processes of the run; 1 trains alone, even under a launcher."""
    process_id: int | None = None
    """Index of this process, from 0."""
    peer_timeout: int = 30
    """Seconds after which a process that does not respond ends the run."""
    settings: OmitArgPrefixes[Config] = dataclasses.field(default_factory=Config)
    """Settings of the run."""

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
                from snm.distributed.launch import ProcessOptions, process_group
                from snm.system.compilation_cache import enable_compilation_cache

                enable_compilation_cache()
            asked = ProcessOptions(
                self.coordinator, self.num_processes, self.process_id, self.peer_timeout
            )
            with process_group(asked):
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
        from snm.distributed.dataset import load_together
        from snm.distributed.processes import is_first_process
        from snm.runs.log.trackers import check_trackers, log_to_trackers
        from snm.runs.same_command import check_same_command

    console.quiet = not is_first_process()
    command.settings.check()  # before the data are read, which may take long
    check_trackers(command.log_to)
    if command.same_ids and command.warm_start is None:
        raise InputError("--same-ids", "no --warm-start", "the run that has the same ids")
    if command.device_memory is not None:  # an invalid size is refused also with --dry-run
        from snm.planning.byte_sizes import parse_bytes

        parse_bytes(command.device_memory)

    asked = {
        "dry_run": command.dry_run,
        "warm_start": command.warm_start is not None,
        "same_ids": command.same_ids,
    }
    check_same_command(command.data, command.settings, command.run_dir, asked)
    with waiting(f"reading {command.data}"), part("reading"):
        dataset = load_together(command.data)
    if command.dry_run:
        _print_settings(dataset, command.settings)
        return

    with waiting("planning"), part("starting"):
        from snm.planning.fit_check import check_disk, check_fits
        from snm.runs.folder import RunFolder
        from snm.runs.mirror import open_location
        from snm.stores.address import Address
        from snm.system.signals import announced_stop
        from snm.trainer.run import PlannedRun, RunRequest

    with open_location(command.run_dir) as location:
        with waiting("planning"), part("planning"):
            run = PlannedRun.of(dataset, command.settings, location)
            check_fits(dataset, run.config, command.device_memory)
            warning = check_disk(dataset, run.config, location.folder)  # all processes call it
            if warning is not None and not RunFolder(location.folder).result.exists():
                say(warning)
        with progress_bar() as bar, announced_stop(_STOP_NOTE, _RESUME_NOTE) as stop:
            request = RunRequest(
                source=command.data,  # as typed, so that `evaluate` finds the data again
                warm_start=command.warm_start,
                same_ids=command.same_ids,
                profile=command.profile,
                stop=stop,
            )
            display = _Display(bar, run.config.members)
            services = command.log_to if is_first_process() else ()
            for event in log_to_trackers(run.events(request), services, location.folder):
                display.show(event)
    if not display.started:
        say(f"{command.run_dir} is finished: nothing was trained")
    place_of_run = Address.of(command.run_dir) or command.run_dir
    _print_result(display.result, dataset.name, place_of_run)
    _print_times(command.profile_time)
    _print_next(bool(display.result["metrics"].get("points")), place_of_run)


class _Display:
    """Shows the events of a run: a progress bar, and lines that stay."""

    def __init__(self, bar: Progress, members: int = 1):
        self._members, self._at_once, self._estimated = members, 1, False
        self.result: dict[str, Any] = {}
        self.started = False  # whether a phase has started
        self._bar, self._task = bar, bar.add_task("preparing", total=None)
        self._total = self._per_epoch = self._points = 0
        self._losses: list[tuple[int, float]] = []  # of each dispatch: points, and their mean loss
        self._seconds, self._compiled = 0.0, False
        self._step_seconds: list[float] = []  # of each dispatch: seconds per step
        self._since_line = 0.0  # seconds since the last line
        self._pending_line = ""  # of an epoch that ended too soon after the last line
        self._partial = ""  # of which steps the losses are, if a run goes on within an epoch

    def show(self, event: Any) -> None:
        """Shows an event; the last one has the result of the run."""
        from snm.runs.events import Evaluated, Finished, Noted, Skipped, Started, Stepped

        match event:
            case Started():
                self._start(event)
            case Stepped():
                self._step(event)
            case Evaluated():
                shown = "  ".join(
                    f"{name} {event.metrics[name]:.2f}"
                    for name in ("P@1", "P@3", "P@5")
                    if name in event.metrics
                )
                self._print(f"step {event.step:>7}   validation {shown}", event.best)
            case Noted():
                self._bar.console.print(event.text, soft_wrap=True)
            case Skipped():
                self._print(f"step {event.step:,} skipped: {event.tensor} not finite")
            case Finished():
                self._print_pending()
                self.result = event.result

    def _print(self, text: str, best: bool = False) -> None:
        self._bar.console.print(text + "  best" * best)

    def _print_pending(self) -> None:
        if self._pending_line:
            self._print(self._pending_line)
        self._pending_line = ""

    def _start(self, event: Any) -> None:
        self.started = True
        self._print_pending()
        if not self._total:
            self._bar.remove_task(self._task)
        self._total, self._per_epoch = event.last_step, event.steps_per_epoch
        self._at_once = event.members_at_once
        self._seconds, self._points, self._compiled = 0.0, 0, False
        self._step_seconds, self._step_before, self._since_line = [], event.step, 0.0
        phase = self._phase_title(event.phase)
        text = f"{phase}: compiling"
        self._task = self._bar.add_task(text, total=self._total, completed=event.step)
        if phase != "train":
            self._print(phase)
        self._losses.clear()
        self._partial = f" since step {event.step:,}" if event.step % self._per_epoch else ""
        if event.step:
            self._print(f"{phase}: going on from step {event.step:,} of {self._total:,}")

    def _phase_title(self, phase: str) -> str:
        """The title of a phase; with several members, those of the first are numbered too."""
        first = {"train": "member-1", "refit": "refit-1"}
        return first.get(phase, phase) if self._members > 1 else phase

    def _step(self, event: Any) -> None:
        # By the seconds of the events, not by the clock: the events of a member that trained beside
        # another arrive all at once. The seconds of the first event are mostly compiling.
        if self._compiled:
            self._points, self._seconds = self._points + event.points, self._seconds + event.seconds
            self._step_seconds.append(event.seconds / (event.step - self._step_before))
        self._compiled, self._step_before = True, event.step
        self._since_line += event.seconds
        self._estimate(event.step)
        rate = f"{self._points / self._seconds:,.0f}" if self._points else ""
        if not math.isnan(event.loss):  # NaN if all of its steps were skipped
            self._losses.append((event.points, event.loss))
        epoch = -(-event.step // self._per_epoch)
        text = f"epoch {epoch} loss {event.loss:.4f}" + (rate and f" {rate}/s")
        self._bar.update(self._task, completed=event.step, description=text)
        if event.step % self._per_epoch == 0:
            self._finish_epoch(epoch, rate, last=event.step == self._total)

    def _finish_epoch(self, epoch: int, rate: str, last: bool) -> None:
        """Prints a line for an epoch, or keeps it if it comes too soon after another."""
        points = sum(points for points, _ in self._losses)
        total = math.fsum(points * loss for points, loss in self._losses)
        mean = total / points if points else math.nan
        line = f"epoch {epoch:>3} of {self._epochs()}   loss {mean:8.4f}{self._partial}"
        self._partial = ""
        self._pending_line = line + (rate and f"   {rate:>9} examples/s")
        if last or self._since_line >= _LINE_EVERY:
            self._print_pending()
            self._since_line = 0.0
        self._losses.clear()

    def _estimate(self, step: int) -> None:
        """Prints once, after some seconds of steps, the estimated time of all members."""
        if self._estimated or self._seconds < _MIN_TIMED:
            return
        self._estimated = True
        # With more members than cores, the first still has a core of its own, and ends early.
        rounds = self._members / min(self._at_once, num_cores())
        # Not the mean: the first steps wait for what other members compile and begin.
        left = (self._total * rounds - step) * statistics.median(self._step_seconds)
        if left >= _MIN_ESTIMATE:
            size = f"{counted(self._members, 'member')} of {counted(self._epochs(), 'epoch')}"
            self._print(f"about {duration(left)} of steps left: {size}")

    def _epochs(self) -> int:
        return round(self._total / self._per_epoch)


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
        f"{format_bytes(result['peak_memory_bytes'])} of memory at the peak; "
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
    parts = {**parts, "the rest": timings.rest}
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
