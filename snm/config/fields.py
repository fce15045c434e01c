"""The fields of the settings, in the groups of `snm train --help`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from snm.config.marks import (
    Trait,
    UsedIf,
    above,
    at_least,
    between,
    used_by_object,
    used_if,
    used_unless,
)

__all__ = [
    "GROUPS",
    "USED_IF",
    "AnswerSettings",
    "EvaluationSettings",
    "InputSettings",
    "LossSettings",
    "MainSettings",
    "ModelSettings",
    "OptimizationSettings",
    "RunSettings",
    "marks_of",
    "settings_with",
]

Mark = TypeVar("Mark")

_WITH_VALIDATION = used_unless("validation_fraction", 0.0, "above 0")
_WITH_LEARNED_SCALE = used_unless("learn_score_scale", False, "auto or True")
_WITH_TOWER = used_if("encoder", "relu", "residual")
_READ_BY_LOSS = used_by_object("loss", expected="{values}, or {default}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class MainSettings:
    """The settings that are changed most often."""

    preset: Annotated[Literal["default", "fast", "paper"], Trait.RUN_ONLY] = "default"
    """Where the other settings start: `default` aims at precision on any data, `fast` at a model
    within seconds, `paper` is the set-up of Reddi et al. (2019), section 5."""
    epochs: Annotated[int | Literal["auto", "few"], at_least(1), Trait.MAY_CHANGE] = "auto"
    """Passes over the training points; may be raised on a finished run. auto follows from the
    number of training points, those of a label, and how many features they have; few is one epoch,
    but 4 to 30 below 2500 points, and up to 4 if points have many features."""
    batch_size: Annotated[int, at_least(1)] = 256
    """Mini-batch size, in points."""
    dim: Annotated[int, at_least(1)] = 512
    """Dimension of feature embeddings and label embeddings."""
    learning_rate: Annotated[float | Literal["auto"], above(0)] = "auto"
    """Rate of feature and label embeddings, on the mean loss of a batch; auto is set by the loss:
    20, more for ranksvm and some listwise losses, and less for bowl and powl where the mined
    negatives of a point weigh more than 1 together."""
    seed: Annotated[int, at_least(0), Trait.RUN_ONLY] = 0
    """Seed of everything that is drawn."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class InputSettings:
    """What the model sees of the features."""

    weighting: Literal["auto", "tfidf", "l2", "standard", "none"] = "auto"
    """Feature weighting, fitted on train and kept with the model; auto is standard for dense
    features or with a number in another unit, l2 where a value is negative, and tfidf otherwise."""
    input_dropout: Annotated[float | Literal["auto"], between(0.0, 0.999), Trait.FIXED_AT_START] = (
        "auto"
    )
    """Share of a point's features left out, others in each epoch, in [0, 1). auto depends on the
    number of points per label, and on how much half of the features loses of the evidence and of
    the precision of nearest neighbours. It is 0 for dense features, and for up to 3 epochs (4 if
    points have many features)."""
    label_text: Annotated[Literal["auto", "on", "off"], Trait.FIXED_AT_START, Trait.RUN_ONLY] = (
        "auto"
    )
    """Train on the names of the labels, too, each a point that has its label; for texts (`snm data
    import`). auto is on if names clearly improve a search for nearest neighbours."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """Embeddings, and how scores are made of them."""

    encoder: Literal["relu", "linear", "residual"] = "residual"
    """Layers over the feature embedding: relu is ReLU, then a linear layer (the paper's); linear is
    no further layer; residual adds a linear layer of the ReLU to the embedding."""
    feature_init: Annotated[float | Literal["auto"], above(0), Trait.FIXED_AT_START] = "auto"
    """Length of a feature embedding at the start; auto is 1, and less from 32 features a point on.
    """
    score_scale: Annotated[float | Literal["auto"], above(0)] = "auto"
    """Multiplier of the inner products, at the start where it is learned; auto is 1 + ln K for
    losses that take exponentials of scores (softmax, listwise), 1 otherwise."""
    learn_score_scale: bool | Literal["auto"] = "auto"
    """Learn the multiplier of the scores; auto does where a label has a hundred points, or 20 if
    each point has one label, and score_scale is auto."""
    class_init: Literal["auto", "centroid", "random"] = "auto"
    """Label embeddings at the start: the mean embedding of a label's training points (centroid), or
    random; auto is centroid, but random with item splits."""
    bias: bool = True
    """Add a learned bias a label to its score: embeddings of length 1 cannot tell how frequent a
    label is."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class LossSettings:
    """The loss, and how its negatives are drawn and mined."""

    loss: str = "softmax"
    """bowl or powl (binary or pairwise ordered weighted loss), softmax (sampled cross-entropy), or
    a listwise loss on a point's positives and mined negatives: listnet, listmle, rankcosine,
    smoothed-dcg, ranksvm. Others by the module that the environment variable SNM_IMPORT names."""
    transformation: Annotated[str, _READ_BY_LOSS] = "exponential"
    """What listnet, listmle and rankcosine do to scores: exponential, sigmoid, or linear, which
    needs --no-bias."""
    temperature: Annotated[float, used_by_object("loss", expected="{values}, or --score-scale")] = (
        1.0
    )
    """Divides the scores in listnet, listmle, rankcosine and smoothed-dcg."""
    phi: Annotated[str, _READ_BY_LOSS] = "hinge"
    """Surrogate of bowl and powl: hinge, logistic, squared_hinge, exponential or ramp."""
    ramp_rho: Annotated[float, used_by_object("loss", "phi")] = 1.0
    """Margin of the ramp surrogate."""
    sampled: Annotated[int | Literal["all", "auto"], at_least(1)] = "auto"
    """B, the negatives drawn for each batch: a number, all other labels, or auto: 2048 for several
    models (see --members), 4096 for one, 8192 for one where labels are many; in-batch has as many
    as the batch."""
    mined: Annotated[int | Literal["all", "auto"], at_least(1)] = "auto"
    """k', how many of them, the highest scoring, enter the loss: a number, all, which is negative
    sampling, or auto: all for up to 257 labels, 256 for up to 1448, and fewer for more labels, down
    to 32 from 5793 on; all where no more are drawn."""
    sampled_start: Annotated[int | Literal["all"], at_least(0)] = 0
    """B at the start; it halves or doubles, in equal parts of the run, until it is --sampled. 0
    keeps it constant."""
    mined_start: Annotated[int | Literal["all"], at_least(0)] = 0
    """k' at the start; it halves or doubles likewise until it is --mined. 0 keeps it constant."""
    exclude: Literal["positive", "all"] = "all"
    """Which labels of a point are never used as negatives: only the positive that a term of the
    loss has (the paper's), or all known ones."""
    positives: Literal["one", "all"] = "all"
    """Positives of a point in each epoch: one drawn uniformly (the paper's), or all of them."""
    positive_weights: Annotated[Literal["sum", "mean"], used_if("positives", "all")] = "mean"
    """With all positives, whether the terms of a point are added or averaged."""
    vartheta: Annotated[str, _READ_BY_LOSS] = "top"
    """Weights over the ranks of the mined negatives (bowl and powl): top, power-law, epsilon-tail
    or subsample."""
    weight_scale: Annotated[Literal["mean", "surrogate"], _READ_BY_LOSS] = "mean"
    """Weight of a mined negative: 1/k', or (K-1)/(kB), which bounds the retrieval loss and needs
    k' of at least k, and exclude positive. The negatives then outweigh the positive, and a learning
    rate of auto is divided by their weight."""
    retrieval_k: int = 1
    """k of the retrieval loss, used by the surrogate scale only."""
    power_alpha: Annotated[float, used_by_object("loss", "vartheta")] = 1.0
    """Exponent of the power-law weights."""
    tail_epsilon: Annotated[float, used_by_object("loss", "vartheta")] = 0.01
    """Weight of a negative that was not mined over that of a mined one (epsilon-tail)."""
    subsample_draws: Annotated[int, used_by_object("loss", "vartheta")] = 4
    """Negatives drawn from the mined ones in proportion to their weights (subsample)."""
    negative_weight: Annotated[float, _READ_BY_LOSS] = 1.0
    """Multiplies the weight of every negative (bowl and powl); if above 1, it divides the learning
    rate of auto."""
    sampler: str = "uniform"
    """How negatives are drawn: uniform, frequency or in-batch; the latter two correct a softmax by
    log Q. bowl, powl and ranksvm do not take frequency, which draws with replacement. Others by the
    module that the environment variable SNM_IMPORT names."""
    frequency_power: Annotated[float, at_least(0.0), used_by_object("sampler")] = 0.75
    """The frequency sampler draws in proportion to frequency to this power."""
    seen: Annotated[Literal["auto", "keep", "drop"], Trait.RUN_ONLY] = "auto"
    """For recommenders, whose features and labels are the same items: whether items that a point
    already has may be predicted. drop never predicts them; auto drops them if they are at most
    1% of the labels of the training points, and far fewer than by chance."""
    item_splits: Annotated[
        int | Literal["auto"], at_least(0), Trait.FIXED_AT_START, Trait.RUN_ONLY
    ] = "auto"
    """Further splits of each training point, in which half of its features are labels, where both
    are a recommender's items; auto is 1 where --seen drops, else 0."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnswerSettings:
    """What is chosen after training, on held-out points."""

    memory: Annotated[Literal["auto", "on", "off"], Trait.FIXED_AT_START] = "auto"
    """Add to a point's scores the votes of its neighbours, the nearest training points, which are
    stored. on: always tried; used only where it raises precision on held-out points, by more than
    two standard errors. auto: the same, but tried only with several models, in few epochs or with
    many points. off: never tried, and no probabilities are fitted. Held-out points are a tenth of
    the training points, at least 50 and at most 2000, on which the first of the models is not
    trained; or those of --validation-fraction."""

    logit_adjustment: Annotated[Literal["auto", "on", "off"], Trait.FIXED_AT_START] = "auto"
    """Lower the scores of labels by a multiple of their log frequency, where that raises precision
    on held-out points. auto: tried where --memory is tried, the model has biases, and at least 500
    points are held out. on: the same, but an error without the first two. off: never."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class OptimizationSettings:
    """Number of models, optimizers, rates and number types."""

    members: Annotated[int | Literal["auto", "few"], at_least(1)] = "auto"
    """Number of models (members), trained with different seeds; their scores are added. auto is 3
    up to 83,333 training points and 3 GiB of embeddings, else 1; few is 2 below 2500 training
    points, else 1."""
    members_at_once: Annotated[int | Literal["auto"], at_least(1), Trait.MAY_CHANGE] = "auto"
    """Models that train side by side in threads, on one CPU; auto is all of them where their
    embeddings are small. It changes time and memory, never the result."""
    schedule: str = "linear"
    """How the rates fall over the run: constant, linear or cosine."""
    row_optimizer: str = "sgd"
    """Optimizer of feature and label embeddings: sgd, or adagrad with one accumulator an embedding.
    """
    tower_learning_rate: Annotated[float, above(0), _WITH_TOWER] = 0.1
    """Rate of the dense layer, trained by SGD with momentum."""
    tower_momentum: Annotated[float, between(0.0, 0.999), _WITH_TOWER] = 0.9
    """Momentum of the dense layer."""
    scale_learning_rate: Annotated[float, at_least(0.0), _WITH_LEARNED_SCALE] = 0.01
    """Rate of the logarithm of a learned score_scale."""
    compute_dtype: Literal["float32", "bfloat16"] = "float32"
    """Type of the factors of matrix products; sums are float32."""
    matmul_precision: Literal["float32", "tensorfloat32"] = "float32"
    """Least precision of products of float32 factors, on any device: all 24 bits, or 11, which an
    accelerator multiplies faster; CPUs keep 24."""
    table_dtype: Literal["float32", "bfloat16"] = "float32"
    """Type of feature and label embeddings; bfloat16 halves their size, rounded stochastically."""
    mining_kernel: Literal["auto", "off"] = "auto"
    """Find the best labels by one kernel that keeps scores on the chip: on a TPU where that moves
    less memory (auto), or nowhere."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluationSettings:
    """Validation while training, and what is measured."""

    validation_fraction: Annotated[float, between(0.0, 0.9), Trait.RUN_ONLY] = 0.0
    """Share of train held out to watch; 0 watches nothing."""
    evaluate_every: Annotated[int, at_least(0), _WITH_VALIDATION, Trait.RUN_ONLY] = 0
    """Steps between evaluations on the held-out part; 0 is once an epoch."""
    patience: Annotated[int, at_least(0), Trait.RUN_ONLY] = 0
    """Stop after this many evaluations without a better score, and keep the best; 0 never stops."""
    monitor: Annotated[str, _WITH_VALIDATION, Trait.RUN_ONLY] = "P@1"
    """The metric that early stopping and the best checkpoint watch."""
    refit: Annotated[bool, Trait.RUN_ONLY] = False
    """After early stopping, train again on all of train for as many epochs as were best."""
    propensity_a: Annotated[
        float | Literal["auto"], above(0), Trait.FIXED_AT_START, Trait.RUN_ONLY
    ] = "auto"
    """Parameter A of the propensity model of Jain et al. (2016), which PSP and PSnDCG read; auto is
    that of a set of `snm data list` if the data have the name of one, else 0.55."""
    propensity_b: Annotated[
        float | Literal["auto"], above(0), Trait.FIXED_AT_START, Trait.RUN_ONLY
    ] = "auto"
    """Parameter B of the propensity model, likewise; else 1.5."""
    auc: Annotated[bool, Trait.MAY_CHANGE, Trait.RUN_ONLY] = False
    """Also the AUC of each evaluation, relevant labels against all others; it takes three times as
    long."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunSettings:
    """Checkpoints, devices and dispatches."""

    checkpoint_every: Annotated[int, at_least(0), Trait.RUN_ONLY] = 0
    """Steps between checkpoints. 0 saves after whole epochs, at least 200 steps apart; with large
    tables 2 steps per MiB apart, up to 5000. An epoch longer than that distance and than 2000 steps
    is also saved within the epoch."""
    keep_checkpoints: Annotated[int, at_least(1), Trait.MAY_CHANGE, Trait.RUN_ONLY] = 2
    """Newest checkpoints kept, beside the best."""
    on_nonfinite: Annotated[Literal["stop", "skip"], Trait.MAY_CHANGE] = "stop"
    """Where a loss or gradient is not finite: stop, or leave that step out and count it. Label
    embeddings, biases and the multiplier keep their step if only a later gradient is not finite."""
    data_on: Literal["auto", "host", "device"] = "auto"
    """Where the training set is kept: on the host, which sends each batch, or on the device. auto
    is the device if that is no CPU and the set takes less than 0.3 of its memory, else the host."""
    mesh: Annotated[str, Trait.MAY_CHANGE, Trait.RUN_ONLY] = ""
    """Devices to train on, such as data=2,label=4: parts of a batch, parts of the embeddings."""
    steps_per_dispatch: Annotated[int, at_least(0)] = 0
    """Most steps that the device runs between two exchanges with the host; 0 chooses the number by
    the device."""


GROUPS = (
    MainSettings,
    InputSettings,
    ModelSettings,
    LossSettings,
    AnswerSettings,
    OptimizationSettings,
    EvaluationSettings,
    RunSettings,
)
"""In the order of `snm train --help`."""


def marks_of(kind: type[Mark]) -> dict[str, Mark]:
    """The marks of one class, of which a setting has at most one.

    Args:
      kind: the class.

    Returns:
      Name of a setting -> its mark; settings without one are left out.
    """
    return {name: mark for name, mark in _marks() if isinstance(mark, kind)}


def settings_with(trait: Trait) -> tuple[str, ...]:
    """The names of the settings with a trait, in order."""
    return tuple(name for name, mark in _marks() if mark is trait)


def _marks() -> Iterator[tuple[str, Any]]:
    """Yields (name of a setting, mark) for each mark."""
    for group in GROUPS:
        for name, hint in get_type_hints(group, include_extras=True).items():
            if get_origin(hint) is Annotated:
                yield from ((name, mark) for mark in get_args(hint)[1:])


USED_IF = marks_of(UsedIf)
"""Name of a setting -> the other settings that control whether it is used."""
