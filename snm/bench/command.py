"""`snm bench` on the command line; everything heavy is imported when it runs."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

__all__ = ["Bench"]


@dataclasses.dataclass
class Bench:
    """Time each part beside what the machine allows and beside what you would use instead.

    Ratios are the result: seconds depend on what else the machine does. Contestants take turns
    within one process, and the machine's rates are measured between them. Peers need
    `pip install 'snm[bench]'`; one that is missing is named and left out.

    For example:

      snm bench step --shape amazon670k
      snm bench step sample --shape eurlex amazoncat --json before.json
      snm bench step sample --shape eurlex amazoncat --vs before.json
      snm bench step epoch --shape eurlex --sampled 1024 all --mined 1 16 64 256
      snm bench step epoch --shape amazon3m --sampled 32768 all --mined 16 256 --device gpu
    """

    parts: Annotated[Positional[tuple[str, ...]], arg(metavar="[PART ...]")] = ()
    """Of read, sample, bag, score_mine, step, growth, epoch, evaluate, predict, checkpoint; all of
    them by default."""
    shape: tuple[Literal["eurlex", "amazoncat", "wikilshtc", "amazon670k", "amazon3m"], ...] = (
        "eurlex",
    )
    """Data sets whose sizes to take; the data themselves are synthetic."""
    device: Literal["cpu", "gpu"] = "cpu"
    """Where to run; where no GPU is to be had, `gpu` is skipped and says so."""
    sampled: tuple[int | Literal["all"], ...] = ()
    """Of the parts step and epoch: labels drawn a batch, B; by default the shape's."""
    mined: tuple[int, ...] = ()
    """Of the same: the k' to time besides all; by default the shape's."""
    compute_dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Factors of products, in ours and in the floor; auto is bfloat16 on a GPU."""
    repeats: int = 15
    """Rounds; parts that take long take fewer."""
    peers: bool = True
    """Also time the peers."""
    json: Path | None = None
    """Write the results to this file."""
    vs: Path | None = None
    """Compare with a file of an earlier run; exit status 1 where something became slower."""

    def __call__(self) -> None:
        """Runs it."""
        from snm.bench.cli import run_bench

        run_bench(self)
