"""What `snm train` shows of a run while it trains."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, Any

from snm.machine.cores import num_cores
from snm.text import counted, duration

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = ["Display"]

_MIN_TIMED = 2.0  # seconds of steps before the rest is estimated
_MIN_ESTIMATE = 10.0  # seconds; shorter estimates are not shown
_LINE_EVERY = 1.0  # seconds of steps between two lines


class Display:
    """Shows the events of a run: a progress bar, and lines that stay.

    Args:
      bar: the progress bar.
      members: the members of the run.

    Attributes:
      result: of the run; empty before its last event.
      started: whether a phase has started.
    """

    def __init__(self, bar: Progress, members: int = 1):
        self._members, self._at_once, self._estimated = members, 1, False
        self.result: dict[str, Any] = {}
        self.started = False
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
