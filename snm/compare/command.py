"""`snm compare` on the command line; everything heavy is imported when it runs."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from snm.config.settings import Config, preset, read_config

__all__ = ["Compare"]


@dataclasses.dataclass
class Compare:
    """Compare SNM with negative sampling, in runs over several seeds, and report it.

    Interrupted, the same command goes on: finished runs are kept, others resume from their
    checkpoints. OUT gets results.json, table.md and report.html.

    For example:

      snm compare path/to/eurlex --out out/eurlex
      snm compare path/to/eurlex --out out/tuned --mined 1 16 64 --seeds 5 --tune --jobs 2
      snm compare synthetic --out out/quick --epochs 2 --dim 64 --no-equal-seconds
      snm compare path/to/eurlex --out out/more --losses bowl softmax --extras anneal in-batch
      snm compare path/to/eurlex --out out/lists --losses bowl listnet listmle ranksvm
      snm compare path/to/eurlex --out out/peers --peers omikuji fasttext
    """

    data: Annotated[Positional[str], arg(metavar="DATA")]
    """Folder of the data set, or `synthetic`."""
    out: Path
    """Folder of the comparison."""
    mined: tuple[int, ...] = (1, 16, 64, 256)
    """Every k' to compare with negative sampling."""
    sampled: int | Literal["all", "auto"] | None = None
    """B, the labels sampled for each batch; all, or auto, a size that suits K."""
    seeds: int = 3
    """Runs of each arm, with seeds from 0."""
    losses: tuple[str, ...] = ()
    """Losses to compare in; the preset's by default. The listwise ones take all positives of a
    point at each visit."""
    extras: tuple[str, ...] = ()
    """More arms: power-law, epsilon-tail, subsample, all-labels, anneal, logistic, squared-hinge,
    frequency, in-batch, full-softmax."""
    exclude_all: bool = False
    """Each arm also with all known labels of a point left out of its negatives."""
    tune: bool = False
    """Also each arm at the best of six settings, chosen on a held-out fifth of train."""
    tune_epochs: int | None = None
    """Epochs of a trial; half of --epochs by default."""
    equal_seconds: bool = True
    """Also each arm with as many epochs as fit the time of negative sampling."""
    peers: tuple[str, ...] = ()
    """Other packages on the same split: omikuji, fasttext, napkinxc (`pip install snm[peers]`)."""
    preset: Literal["paper", "default"] = "paper"
    """Where the arms' settings start."""
    config: Path | None = None
    """TOML file with settings of all arms, over the preset's."""
    epochs: int | None = None
    """Passes over the training points; the preset's by default."""
    dim: int | None = None
    """Dimension of embeddings; the preset's by default."""
    batch_size: int | None = None
    """Points a step; the preset's by default."""
    jobs: int = 1
    """Runs at a time. Seconds are comparable only among runs that had equal company."""

    def base(self) -> Config:
        """The settings that all arms share.

        Raises:
          InputError: a file or a value that cannot be used.
        """
        # Every arm has its own k', which the preset's need not fit.
        start = dataclasses.replace(preset(self.preset), mined="all")
        if self.config is not None:
            start = read_config(self.config, base=start)
        names = ("sampled", "epochs", "dim", "batch_size")
        given = {name: value for name in names if (value := getattr(self, name)) is not None}
        return dataclasses.replace(start, **given, mined="all")

    def __call__(self) -> None:
        """Runs it."""
        from snm.compare.cli import run_comparison

        run_comparison(self)
