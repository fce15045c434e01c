"""Timing side by side: A B A B, with the machine's rates between, and ratios round by round."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from snm.bench.machine import Machine, Rates, Work
from snm.system.memory import reset_peak

__all__ = ["Contest", "Contestant", "Missing", "Ours", "held", "quartiles", "ratios"]


@dataclasses.dataclass
class Contestant:
    """Something to time.

    Attributes:
      name: what ratios to it are called.
      call: does the job, and returns when it is done.
      times: how often a call does it.
      settle: waits until nothing of the job goes on, so that it does not slow down the others.
    """

    name: str
    call: Callable[[], Any]
    times: int = 1
    settle: Callable[[], Any] | None = None


@dataclasses.dataclass
class Ours(Contestant):
    """Something of ours: it becomes a row of the results.

    Attributes:
      case: which of the part's jobs.
      sampled: B, or None where nothing is sampled.
      mined: k', `all`, or None.
      work: what the job cannot avoid.
      points: of the data that it takes each time it is done, or 0.
      against: names of the contestants that it is compared with.
      notes: more to say of it, JSON values.
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
    """A peer that cannot run here, and why."""

    name: str
    reason: str


@dataclasses.dataclass
class Contest:
    """Ours and their peers, at one job and one size.

    Attributes:
      part: what is timed.
      shape: of which data set's size.
      machine: measures the rates.
      ours: each a row of the results.
      peers: made only after ours were run once, so that their memory is not counted.
      repeats: at most so many rounds, where a round takes long.
    """

    part: str
    shape: str
    machine: Machine
    ours: list[Ours]
    peers: Callable[[], Sequence[Contestant | Missing]] = tuple
    repeats: int = 10**9


def held(contest: Contest, repeats: int, told: Callable[[str], None]) -> list[dict[str, Any]]:
    """Runs a contest.

    Args:
      contest: who, and at what.
      repeats: rounds; in each every contestant runs once.
      told: hears what is going on.

    Returns:
      A row for each of ours.
    """
    peaks = {}
    for mine in contest.ours:
        told(f"{contest.part} {contest.shape}: {mine.name}, warm-up")
        reset_peak()
        mine.call()
        peaks[mine.name] = contest.machine.peak_memory()
    rounds = min(repeats, contest.repeats)
    alone = _rounds(contest, contest.ours, rounds, told)
    told(f"{contest.part} {contest.shape}: peers, warm-up")
    invited = list(contest.peers())
    missing = {one.name: one.reason for one in invited if isinstance(one, Missing)}
    peers = [one for one in invited if isinstance(one, Contestant)]
    for peer in peers:
        peer.call()
    # Again with the peers: what they do to the caches and to the cores is no part of the floor.
    together = _rounds(contest, [*contest.ours, *peers], rounds, told) if peers else alone
    return [_row(contest, one, alone, together, peaks[one.name], missing) for one in contest.ours]


@dataclasses.dataclass
class _Times:
    """Seconds of each contestant round by round, floors of ours, and the rates of the machine."""

    seconds: dict[str, list[float]]
    floors: dict[str, list[float]]
    rates: list[Rates]


def _rounds(
    contest: Contest, everyone: Sequence[Contestant], rounds: int, told: Callable[[str], None]
) -> _Times:
    seconds: dict[str, list[float]] = {one.name: [] for one in everyone}
    floors: dict[str, list[float]] = {one.name: [] for one in contest.ours}
    rates: list[Rates] = []
    for number in range(rounds):
        told(f"{contest.part} {contest.shape}: round {number + 1} of {rounds}")
        before = contest.machine.rates()
        for one in everyone:
            begin = time.perf_counter()
            one.call()
            seconds[one.name].append((time.perf_counter() - begin) / one.times)
            if one.settle is not None:
                one.settle()
            after = contest.machine.rates(copies=False)
            if isinstance(one, Ours):
                floors[one.name].append(one.work.seconds(before.between(after)))
            rates.append(after)
            before = after
    return _Times(seconds, floors, rates)


def _row(
    contest: Contest,
    one: Ours,
    alone: _Times,
    together: _Times,
    peak: int,
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


def _rates(one: Ours, seconds: float, rates: Sequence[Rates]) -> dict[str, float]:
    """Points a second, and the shares of the machine's rates that the unavoidable work is."""
    found = {"examples_per_s": one.points / seconds} if one.points else {}
    if one.work.flop:
        median = float(np.median([rate.flop for rate in rates]))
        found["share_of_products"] = one.work.flop / seconds / median
    if one.work.bytes:
        median = float(np.median([rate.bytes for rate in rates]))
        found["share_of_copies"] = one.work.bytes / seconds / median
    return found


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Lower quartile, median, upper quartile."""
    low, middle, high = np.percentile(values, (25, 50, 75))
    return float(low), float(middle), float(high)


def ratios(these: Sequence[float], others: Sequence[float]) -> tuple[float, float, float]:
    """Quartiles of the ratio of two timings of the same round, round by round."""
    return quartiles([this / other for this, other in zip(these, others, strict=True)])
