"""Shows the progress of a comparison and the estimated remaining time."""

from __future__ import annotations

import statistics
import time
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, TimeElapsedColumn

from snm.compare.jobs import Running
from snm.system.terminal import make_bar
from snm.text import counted, duration

__all__ = ["Display", "seconds_left"]

_SHORTEST_ESTIMATE = 10.0  # seconds


class Display:
    """Shows progress: a bar on a terminal, a line per finished run elsewhere.

    Prints an estimate of the remaining time after the first run, and again after a run of every
    arm.

    Args:
      num_parallel: number of concurrent runs.
    """

    def __init__(self, num_parallel: int = 1) -> None:
        self._at_once, self._num_estimates = num_parallel, 0
        columns = BarColumn(bar_width=24), MofNCompleteColumn(), TimeElapsedColumn()
        self.bar = make_bar(*columns, stays=True)
        self._tasks: dict[str, Any] = {}
        self._done: dict[str, int] = {}
        self._begun = time.monotonic()

    def __call__(self, stage: str, state: Running) -> None:
        """Shows the state of the jobs of a stage."""
        if stage not in self._tasks:
            self._tasks[stage] = self.bar.add_task(stage, total=state.total)
        running = ", ".join(
            f"{name} {100 * done / total:.0f}%" if total else name
            for name, done, total in state.working
        )
        text = f"{stage}: {running}" if running else stage
        self.bar.update(self._tasks[stage], completed=state.done, description=text)
        if self.bar.disable and state.done != self._done.get(stage):
            self._done[stage] = state.done
            spent = time.monotonic() - self._begun
            self.bar.console.print(f"{spent:7.0f} s  {stage}: {state.done} of {state.total} runs")
        self._estimate(state)

    def _estimate(self, state: Running) -> None:
        left, timed = seconds_left(state, self._at_once)
        arms = {arm for arm, _ in (*state.left, *state.later)}
        all_timed = arms <= timed
        if left < _SHORTEST_ESTIMATE or self._num_estimates >= (2 if all_timed else 1):
            return
        self._num_estimates = 2 if all_timed else 1
        runs = counted(len(state.left) + len(state.later), "run")
        self.bar.console.print(f"about {duration(left)} left: {runs}")


def seconds_left(state: Running, num_parallel: int) -> tuple[float, set[str]]:
    """Estimated seconds of the remaining runs, 0 before a run is done; and the arms with a time.

    An epoch takes as long as the mean epoch of its arm; for an arm without a finished run, as the
    mean over the arms.
    """
    paces: dict[str, list[float]] = {}
    for arm, seconds, epochs in state.durations:
        paces.setdefault(arm, []).append(seconds / epochs)
    if not paces:
        return 0.0, set()
    mean_pace = {arm: statistics.fmean(values) for arm, values in paces.items()}
    default = statistics.fmean(mean_pace.values())
    runs = (*state.left, *state.later)
    return sum(epochs * mean_pace.get(arm, default) for arm, epochs in runs) / num_parallel, set(
        paces
    )
