"""Shows how far a comparison is, and how long the rest will take."""

from __future__ import annotations

import statistics
import time
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, TimeElapsedColumn

from snm.compare.jobs import Running
from snm.errors import counted, duration
from snm.system.terminal import make_bar

__all__ = ["Display", "seconds_left"]

_SHORTEST_ESTIMATE = 10.0  # seconds


class Display:
    """Shows progress: a bar on a terminal, a line per finished run elsewhere.

    Says how long the rest will take once a run is done, and again once every arm has had one.

    Args:
      at_once: number of concurrent runs.
    """

    def __init__(self, at_once: int = 1) -> None:
        self._at_once, self._estimated_from = at_once, 0
        columns = BarColumn(bar_width=24), MofNCompleteColumn(), TimeElapsedColumn()
        self.bar = make_bar(*columns, stays=True)
        self._tasks: dict[str, Any] = {}
        self._done: dict[str, int] = {}
        self._begun = time.monotonic()

    def __call__(self, stage: str, standing: Running) -> None:
        """Shows the state of the jobs of a stage."""
        if stage not in self._tasks:
            self._tasks[stage] = self.bar.add_task(stage, total=standing.total)
        at_work = ", ".join(
            f"{name} {100 * done / total:.0f}%" if total else name
            for name, done, total in standing.working
        )
        text = f"{stage}: {at_work}" if at_work else stage
        self.bar.update(self._tasks[stage], completed=standing.done, description=text)
        if self.bar.disable and standing.done != self._done.get(stage):
            self._done[stage] = standing.done
            spent = time.monotonic() - self._begun
            self.bar.console.print(
                f"{spent:7.0f} s  {stage}: {standing.done} of {standing.total} runs"
            )
        self._estimate(standing)

    def _estimate(self, standing: Running) -> None:
        left, timed = seconds_left(standing, self._at_once)
        arms = {arm for arm, _ in (*standing.left, *standing.later)}
        all_timed = arms <= timed
        if left < _SHORTEST_ESTIMATE or self._estimated_from >= (2 if all_timed else 1):
            return
        self._estimated_from = 2 if all_timed else 1
        runs = counted(len(standing.left) + len(standing.later), "run")
        self.bar.console.print(f"about {duration(left)} left: {runs}")


def seconds_left(standing: Running, at_once: int) -> tuple[float, set[str]]:
    """Seconds that all other runs will take, 0 before one is done; and the arms that were timed.

    A run takes as long for each epoch as those of its arm took, and one of an arm that was not
    timed as long as the mean of the arms.
    """
    paces: dict[str, list[float]] = {}
    for arm, seconds, epochs in standing.took:
        paces.setdefault(arm, []).append(seconds / epochs)
    if not paces:
        return 0.0, set()
    of_arm = {arm: statistics.fmean(found) for arm, found in paces.items()}
    other = statistics.fmean(of_arm.values())
    runs = (*standing.left, *standing.later)
    return sum(epochs * of_arm.get(arm, other) for arm, epochs in runs) / at_once, set(paces)
