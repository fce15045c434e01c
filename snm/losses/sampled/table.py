"""The losses of the head by name.

The objects in `LOSSES` are prototypes with default parameters. `Config` reads their flags,
`option_names` and `listwise` before the sample sizes are known. `configured` returns the loss that
is trained.
"""

from __future__ import annotations

from snm.losses.sampled.listwise import ListMLE, ListNet, RankCosine, SmoothedDCG
from snm.losses.sampled.ordered import Bowl, Powl, RankSVM
from snm.losses.sampled.protocol import HeadLoss
from snm.losses.sampled.softmax import Softmax

__all__ = ["LOSSES"]

_ALL: tuple[HeadLoss, ...] = (
    Bowl(), Powl(), Softmax(), ListNet(), ListMLE(), RankCosine(), SmoothedDCG(), RankSVM()
)  # fmt: skip

LOSSES: dict[str, HeadLoss] = {loss.name: loss for loss in _ALL}
"""Name on the command line -> prototype of the loss."""
