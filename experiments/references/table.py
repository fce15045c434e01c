"""The references by name, and the settings tried for each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from scipy.sparse import csr_matrix

from experiments.references.dismec import Dismec
from experiments.references.leml import Leml
from experiments.references.pd_sparse import PDSparse
from experiments.references.pfastrexml import PfastreXML
from experiments.references.ppd_sparse import PPDSparse
from experiments.references.protocol import Reference
from experiments.references.sleec import Sleec
from snm.compare.peers.protocol import Answers, Peer, timed

__all__ = ["PEERS", "REFERENCES", "Entry"]


@dataclass(frozen=True)
class Entry:
    """A reference.

    Attributes:
      system: its class; takes settings, `seed` and `threads`.
      source: the paper.
      tried: settings to choose from.
      chosen: which of them had the highest P@1 on held-out fifths of train, mean over data sets.
      others: settings by name, which are not to choose from but show what a difference comes from.
    """

    system: Callable[..., Reference]
    source: str
    tried: tuple[dict[str, Any], ...] = ({},)
    chosen: int = 0
    others: dict[str, dict[str, Any]] = field(default_factory=dict)

    def peer(self, settings: dict[str, Any]) -> Peer:
        """The reference with settings, for `snm compare --peers`."""

        def train_and_predict(
            train_features: csr_matrix,
            train_labels: csr_matrix,
            test_features: csr_matrix,
            *,
            k: int,
            seed: int,
            threads: int,
        ) -> Answers:
            return timed(
                lambda: self.system(**settings, seed=seed, threads=threads).fit(
                    train_features, train_labels
                ),
                lambda model: model.predict(test_features, k),
                test_features.shape[0],
                k,
            )

        return Peer("scipy", f"written again after {self.source}: {format_settings(settings)}",
                    train_and_predict)  # fmt: skip


def format_settings(settings: dict[str, Any]) -> str:
    """Settings as words."""
    return ", ".join(f"{key} {value:g}" for key, value in settings.items()) or "defaults"


REFERENCES: dict[str, Entry] = {
    "dismec": Entry(Dismec, "DiSMEC (Babbar and Schölkopf, 2017)"),
    "leml": Entry(
        Leml,
        "LEML (Yu et al., 2014)",
        tuple({"rank": 200, "penalty": penalty} for penalty in (1.0, 4.0, 16.0)),
        chosen=2,
    ),
    "sleec": Entry(
        Sleec,
        "SLEEC (Bhatia et al., 2015)",
        ({"penalty": 5.0},),
    ),
    "fastxml": Entry(
        partial(PfastreXML, weighted=False, alpha=1.0), "FastXML (Prabhu and Varma, 2014)"
    ),
    "pfastrexml": Entry(
        PfastreXML,
        "PfastreXML (Jain et al., 2016)",
        tuple({"gamma": gamma} for gamma in (30.0, 10.0, 3.0)),
        chosen=2,
        others={"plain": {"gamma": 30.0, "weighted": False}},
    ),
    "pd-sparse": Entry(
        PDSparse,
        "PD-Sparse (Yen et al., 2016)",
        tuple({"penalty": penalty, "C": C} for C in (1.0, 20.0) for penalty in (0.1, 0.4)),
        chosen=3,
    ),
    "ppd-sparse": Entry(
        PPDSparse,
        "PPD-Sparse (Yen et al., 2017)",
        tuple({"penalty": penalty} for penalty in (0.01, 0.1, 1.0)),
        chosen=2,
    ),
}
"""Name -> reference."""

PEERS: dict[str, Peer] = {}
"""`NAME`, `NAME/I` with the I-th settings that are tried, and `NAME/OTHER` -> peer."""
for _name, _entry in REFERENCES.items():
    PEERS[_name] = _entry.peer(_entry.tried[_entry.chosen])
    for _number, _settings in enumerate(_entry.tried):
        PEERS[f"{_name}/{_number}"] = _entry.peer(_settings)
    for _other, _settings in _entry.others.items():
        PEERS[f"{_name}/{_other}"] = _entry.peer(_settings)
