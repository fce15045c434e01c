"""The peers by name."""

from __future__ import annotations

from snm.compare.peers.neighbors import NEIGHBORS, neighbors
from snm.compare.peers.pecos import PECOS, xr_linear
from snm.compare.peers.protocol import Peer
from snm.compare.peers.trees import libmultilabel, napkinxc, omikuji
from snm.compare.peers.words import fasttext

__all__ = ["PEERS"]

_XR_LINEAR = (
    "PECOS XR-Linear, its defaults: {}; hierarchical k-means of PIFA label embeddings, leaves of "
    "up to 100 labels, squared hinge loss, beam 10"
)

PEERS: dict[str, Peer] = {
    "omikuji": Peer(
        "omikuji",
        "its defaults: 3 trees of balanced 2-means as Parabel, hinge loss, beam 10; takes no seed",
        omikuji(),
    ),
    "bonsai": Peer(
        "omikuji",
        "omikuji as Bonsai: 3 trees of unbalanced 100-means of depth 3, hinge loss, beam 10; "
        "takes no seed",
        omikuji(cluster_balanced=False, cluster_k=100, max_depth=3),
    ),
    "neighbors": Peer(
        "scipy",
        f"the labels of the {NEIGHBORS} nearest training points, each times its cosine of features",
        neighbors,
    ),
    "fasttext": Peer(
        "fasttext",
        "supervised, hierarchical softmax, dim 100, 25 epochs, rate 0.5; features are words "
        "without weights, counts repeat a word up to 10 times",
        fasttext,
        weighted=False,
    ),
    "napkinxc": Peer(
        "napkinxc",
        "PLT, its defaults: 1 tree of balanced 2-means, logistic loss, C 10, exact search",
        napkinxc,
    ),
    "libmultilabel": Peer(
        "libmultilabel",
        "its linear trees with a bias: 3 trees of 100-means, squared hinge loss, C 1, beam 10",
        libmultilabel,
    ),
    "xr-linear": Peer(
        "libpecos",
        _XR_LINEAR.format("1 tree"),
        xr_linear(1),
        interpreter=PECOS,
    ),
    "xr-linear-3": Peer(
        "libpecos",
        _XR_LINEAR.format("3 trees with different seeds, scores averaged"),
        xr_linear(3),
        interpreter=PECOS,
    ),
}
"""Name -> peer."""
