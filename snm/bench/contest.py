"""Times contestants in alternation and reports ratios round by round.

Every round runs each contestant once and measures the machine's rates in between, so that drift of
the machine affects all contestants alike.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from snm.bench.rates import MachineRates, Rates, Work
from snm.machine.ram import reset_peak

__all__ = [
    "Contest",
    "Contestant",
    "Missing",
    "OwnContestant",
    "quartiles",
    "ratios",
    "run_contest",
]


@dataclasses.dataclass
class Contestant:
    """A job to time.

    Attributes:
      name: its name in ratios.
      call: does the job, and returns when it is complete.
      times: the number of jobs of a call.
      settle: waits for background work of the job, so that it does not slow down the next
        contestant.
    """

    name: str
    call: Callable[[], Any]
    times: int = 1
    settle: Callable[[], Any] | None = None


@dataclasses.dataclass
class OwnContestant(Contestant):
    """A contestant of this package, which becomes a row of the results.

    Attributes:
      case: the name of the job within the part.
      sampled: B, or None if the job samples nothing.
      mined: k', `all`, or None.
      work: the minimal work of the job.
      points: the number of points of a job, or 0.
      against: the names of the contestants to compare it with.
      notes: additional columns of the row, JSON values.
    """

    case: str = ""
    sampled: int | None = None
    mined: int | str | None = None
    work: Work = dataclasses.field(default_factory=Work)
    points: int = 0
    against: tuple[str, ...] = ()
    notes: dict[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Missing:
    """A peer that cannot run here, and the reason."""

    name: str
    reason: str


@dataclasses.dataclass
class Contest:
    """Our contestants and their peers, for one job and one size.

    Attributes:
      part: the part of a training step.
      shape: the name of the data set whose sizes are used.
      machine: measures the rates.
      ours: our contestants, each a row of the results.
      peers: creates the peers. It is called after ours have run once, so that the peers' memory is
        not counted as ours.
      max_rounds: the maximum number of rounds, for slow jobs; None for no maximum.
      has_peaks: whether the peak of memory is that of one contestant: not where the contestants
        have tables of their own, which are all in memory at once.
    """

    part: str
    shape: str
    machine: MachineRates
    ours: list[OwnContestant]
    peers: Callable[[], Sequence[Contestant | Missing]] = tuple
    max_rounds: int | None = None
    has_peaks: bool = True


def run_contest(
    contest: Contest, repeats: int, report: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Runs a contest.

    Args:
      contest: the contestants and their job.
      repeats: rounds; each contestant runs once per round.
      report: called with a description of the current activity.

    Returns:
      A row for each of our contestants.
    """
    peaks: dict[str, int] = {}
    for mine in contest.ours:
        report(f"{contest.part} {contest.shape}: {mine.name}, warm-up")
        reset_peak()
        mine.call()
        if contest.has_peaks:
            peaks[mine.name] = contest.machine.peak_memory()
    rounds = repeats if contest.max_rounds is None else min(repeats, contest.max_rounds)
    alone = _rounds(contest, contest.ours, rounds, report)
    report(f"{contest.part} {contest.shape}: peers, warm-up")
    found = list(contest.peers())
    missing = {one.name: one.reason for one in found if isinstance(one, Missing)}
    peers = [one for one in found if isinstance(one, Contestant)]
    for peer in peers:
        peer.call()
    # The rounds with peers are separate: the floor must not include the peers' effect on the caches
    # and cores.
    together = _rounds(contest, [*contest.ours, *peers], rounds, report) if peers else alone
    return [
        _row(contest, one, alone, together, peaks.get(one.name), missing) for one in contest.ours
    ]


@dataclasses.dataclass
class _Times:
    """The seconds of each contestant and the floors of ours in each round, and all rates."""

    seconds: dict[str, list[float]]
    floors: dict[str, list[float]]
    rates: list[Rates]


def _rounds(
    contest: Contest, everyone: Sequence[Contestant], rounds: int, report: Callable[[str], None]
) -> _Times:
    seconds: dict[str, list[float]] = {one.name: [] for one in everyone}
    floors: dict[str, list[float]] = {one.name: [] for one in contest.ours}
    rates: list[Rates] = []
    for number in range(rounds):
        report(f"{contest.part} {contest.shape}: round {number + 1} of {rounds}")
        before = contest.machine.rates()
        for one in everyone:
            begin = time.perf_counter()
            one.call()
            seconds[one.name].append((time.perf_counter() - begin) / one.times)
            if one.settle is not None:
                one.settle()
            after = contest.machine.rates(copies=False)
            if isinstance(one, OwnContestant):
                floors[one.name].append(one.work.seconds(before.between(after)))
            rates.append(after)
            before = after
    return _Times(seconds, floors, rates)


def _row(
    contest: Contest,
    one: OwnContestant,
    alone: _Times,
    together: _Times,
    peak: int | None,
    missing: dict[str, str],
) -> dict[str, Any]:
    mine, floors, rates = alone.seconds[one.name], alone.floors[one.name], alone.rates
    to_floor = ratios(mine, floors) if one.work != Work() else None
    to_peer = {}
    for name in one.against:
        times = alone if name in alone.seconds else together
        if name in times.seconds:
            to_peer[name] = ratios(times.seconds[name], times.seconds[one.name])
    return {
        "part": contest.part,
        "shape": contest.shape,
        "case": one.case,
        "sampled": one.sampled,
        "mined": one.mined,
        "device": contest.machine.platform,
        "median_s": quartiles(mine)[1],
        "quartiles_s": [quartiles(mine)[0], quartiles(mine)[2]],
        "floor_s": quartiles(floors)[1] if to_floor else None,
        "ratio_to_floor": to_floor[1] if to_floor else None,
        "ratio_to_floor_quartiles": [to_floor[0], to_floor[2]] if to_floor else None,
        "ratio_to_peer": {name: found[1] for name, found in to_peer.items()},
        "ratio_to_peer_quartiles": {n: [found[0], found[2]] for n, found in to_peer.items()},
        "peers_missing": {name: missing[name] for name in one.against if name in missing},
        "peak_bytes": peak,
        "rounds": len(mine),
        **_rates(one, quartiles(mine)[1], rates),
        "flop_per_s": float(np.median([rate.flop for rate in rates])),
        "copy_bytes_per_s": float(np.median([rate.bytes for rate in rates])),
        **one.notes,
    }


def _rates(one: OwnContestant, seconds: float, rates: Sequence[Rates]) -> dict[str, float]:
    """Points per second, and unavoidable work per second as fractions of the machine's rates."""
    found = {"examples_per_s": one.points / seconds} if one.points else {}
    if one.work.flop:
        median = float(np.median([rate.flop for rate in rates]))
        found["share_of_products"] = one.work.flop / seconds / median
    if one.work.bytes:
        median = float(np.median([rate.bytes for rate in rates]))
        found["share_of_copies"] = one.work.bytes / seconds / median
    return found


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """The lower quartile, median and upper quartile."""
    low, middle, high = np.percentile(values, (25, 50, 75))
    return float(low), float(middle), float(high)


def ratios(these: Sequence[float], others: Sequence[float]) -> tuple[float, float, float]:
    """The quartiles of the ratios of two timings of the same rounds."""
    return quartiles([this / other for this, other in zip(these, others, strict=True)])
