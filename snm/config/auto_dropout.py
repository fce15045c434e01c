"""The rule behind `--input-dropout auto`, chosen as those of `snm.config.auto`."""

from __future__ import annotations

from snm.config.auto_epochs import FREQUENT, epochs_for_length

__all__ = ["auto_input_dropout", "auto_may_use_dropout"]

_EPOCHS_WITHOUT_DROPOUT = 3
_DROPOUT_THRESHOLDS = (0.05, 0.08)  # evidence lost: full dropout below, none above


def auto_may_use_dropout(epochs: int, features: float) -> bool:
    """Whether `--input-dropout auto` may be above 0: not in a training of few epochs.

    Dropout pays once a point is seen often enough to be overfitted. In 2 and 3 epochs it cost
    on eight of ten held-out parts (`experiments/results/dropout-by-passes.json`). Long
    points have none within the epochs that `--epochs auto` gives them for their length.

    Args:
      epochs: of the training.
      features: the mean over points of how many they have.

    Example:
      >>> [auto_may_use_dropout(epochs, 20) for epochs in (3, 4)], auto_may_use_dropout(4, 320)
      ([False, True], False)
    """
    return epochs > max(_EPOCHS_WITHOUT_DROPOUT, epochs_for_length(features))


def auto_input_dropout(
    points_of_label: float,
    evidence_lost: float,
    *,
    thresholds: tuple[float, float] = _DROPOUT_THRESHOLDS,
) -> float:
    """The share for `--input-dropout auto`: 0.5, or less if it would remove decisive features.

    A label with few points overfits to features that they share by chance, and dropout prevents
    that. A label with hundreds of points does not: 0.3. If one of few features decides, such as a
    word that names the label, a visit without it has no evidence to learn from. So the share falls
    linearly, from 0.5 where 0.05 of the evidence is lost to 0 at 0.08.

    Args:
      points_of_label: the mean over labels of the training points that have it.
      evidence_lost: see `snm.config.evidence.evidence_lost`.
      thresholds: the evidence lost up to which dropout is full, and from which there is none.

    Example:
      >>> [auto_input_dropout(points, 0.03) for points in (4.3, 14.0, 250.2)]
      [0.5, 0.5, 0.3]
      >>> [round(auto_input_dropout(14.0, lost), 2) for lost in (0.05, 0.07, 0.17)]
      [0.5, 0.17, 0.0]
    """
    low, high = thresholds
    share = 0.5 * min(1.0, max(0.0, (high - evidence_lost) / (high - low)))
    return min(share, 0.3) if points_of_label >= FREQUENT else share
