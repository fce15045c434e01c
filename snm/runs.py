"""A run folder: what was asked for, what happened, what came out of it.

- `config.toml`: every setting, resolved
- `run.json`: the data it is trained on, and what the model's arrays look like
- `weighting.npz`: the fitted feature weighting
- `labels.txt`: names of the labels, where the data has them
- `vectorizer.json`: what turns texts into features, where the data were made from texts
- `log.jsonl`: one line an event
- `tensorboard/`: the same as event files
- `trackers.json`: ids of the run in services that it is logged to, where there are any
- `checkpoints/`: parameters
- `result.json`: metrics on the test points, time, memory, versions
"""

from __future__ import annotations

import dataclasses
import json
import platform
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np
from jax.sharding import Mesh

from snm import rules, sampling
from snm.checkpoints import Checkpoints
from snm.config import Config, preset, read_config, write_config
from snm.data.dataset import Dataset
from snm.data.formats import read_names
from snm.data.vectorizer import Vectorizer
from snm.data.weighting import Weighting
from snm.errors import InputError
from snm.lists import LIST_LOSSES, ListLoss
from snm.locks import LOCK
from snm.memory import peak_memory
from snm.meshes import abstract_on, joined
from snm.model import Model, TrainState, join
from snm.prediction import Predictor
from snm.spec import HeadSpec

__all__ = [
    "RunFolder",
    "assemble",
    "head_spec",
    "head_stages",
    "load",
    "load_member",
    "make_model",
    "phase_names",
    "resolve",
    "versions",
    "whole",
    "write_json",
]

_OFFSET = 1.1  # the linear psi is then 21 times as large at the highest score as at the lowest

# Settings that may differ when a run goes on: they do not change the steps already done.
_MAY_CHANGE = ("auc", "epochs", "keep_checkpoints", "mesh", "on_nonfinite")


def resolve(config: Config, dataset: Dataset) -> Config:
    """Replaces settings that depend on the data by their values.

    Raises:
      InputError: a setting that does not fit the data: an integer B >= K, k' > B.
    """
    config.check()
    num_labels = dataset.train.num_labels
    if num_labels < 2:
        raise InputError("data", f"{num_labels} label", "at least 2: there are no negatives")
    if not dataset.train.labels.nnz:
        raise InputError("data", "no training point with a label", "at least one")
    members = config.members
    if members == "auto":
        members = rules.auto_members(dataset.train.num_points)
    sampled: int | Literal["all"]
    if config.sampled == "auto":
        sampled = sampling.auto_size(num_labels, members=members)
    else:
        sampled = config.sampled
    if config.sampler == "in-batch":
        # The candidates are the batch's own positives; one label more would mean "all others".
        sampled = min(config.batch_size, max(1, num_labels - 2))
    if sampled != "all" and sampled >= num_labels:
        found = f"{sampled} of {num_labels} labels"
        raise InputError("--sampled", found, f"at most {num_labels - 1}, or `all` others")
    most = num_labels - 1 if sampled == "all" else sampled
    mined: int | Literal["all"]
    if config.mined == "auto":
        suits = rules.auto_mined(num_labels)
        mined = "all" if suits >= most else suits
    else:
        mined = config.mined
    # The k' of a preset is meant for many labels; asked for by the user, it is refused instead.
    if isinstance(mined, int) and mined > most:
        if mined != preset(config.preset).mined or isinstance(config.sampled, int):
            raise InputError("--mined", f"{mined} of {most} sampled labels", f"at most {most}")
        mined = "all"
    start = config.mined_start
    if start and (mined == "all" or (isinstance(start, int) and not mined <= start <= most)):
        low = "--mined, which is all" if mined == "all" else f"{mined} (--mined)"
        raise InputError("--mined-start", f"{start}", f"a number from {low} to {most}, or 0")
    scale, epochs = config.score_scale, config.epochs
    if scale == "auto":
        exponentials = rules.takes_exponentials(config.loss, config.transformation)
        scale = rules.auto_score_scale(num_labels) if exponentials else 1.0
    rate = config.learning_rate
    if rate == "auto":
        rate = rules.auto_learning_rate(config.loss, config.transformation)
    if epochs == "auto":
        epochs = rules.auto_epochs(dataset.train.num_points)
    return dataclasses.replace(
        config,
        sampled=sampled,
        mined=mined,
        score_scale=scale,
        learning_rate=rate,
        epochs=epochs,
        members=members,
    )


def head_spec(config: Config, num_labels: int) -> HeadSpec:
    """The head of a resolved configuration."""
    sampled = num_labels - 1 if config.sampled == "all" else config.sampled
    assert isinstance(sampled, int) and config.mined != "auto"  # resolved
    return HeadSpec(
        num_labels=num_labels,
        sampled=sampled,
        mined=sampled if config.mined == "all" else config.mined,
        # With two grades RankSVM's pairs are POWL's: see `snm.lists`.
        loss="powl" if config.loss == "ranksvm" else config.loss,
        list_loss=_list_loss(config),
        phi=config.phi,
        ramp_rho=config.ramp_rho,
        vartheta=config.vartheta,
        weight_scale=config.weight_scale,
        retrieval_k=config.retrieval_k,
        power_alpha=config.power_alpha,
        tail_epsilon=config.tail_epsilon,
        subsample_draws=config.subsample_draws,
        negative_weight=config.negative_weight,
        exclude=config.exclude,
        positives=config.positives,
        row_optimizer=config.row_optimizer,
        bias=config.bias,
        learn_scale=config.learn_score_scale,
        compute_dtype=config.compute_dtype,
        table_dtype=config.table_dtype,
    )


def _list_loss(config: Config) -> ListLoss | None:
    if config.loss not in LIST_LOSSES:
        return None
    assert config.score_scale != "auto"  # resolved
    return ListLoss(
        config.loss,
        transformation=config.transformation,
        temperature=config.temperature,
        grade=config.score_scale,
        # The largest score is the multiplier, but for rounding; psi is positive above -offset.
        offset=_OFFSET * config.score_scale / config.temperature,
    )


def head_stages(config: Config, num_labels: int, steps: int) -> list[tuple[int, HeadSpec]]:
    """The heads of a run of `steps` steps: each with the step that it is used from.

    One, unless k' falls: then it is halved from `mined_start` down to `mined`, and every k' is
    used for the same number of steps.
    """
    last = head_spec(config, num_labels)
    if not config.mined_start:
        return [(0, last)]
    mined = [last.sampled if config.mined_start == "all" else config.mined_start]
    while mined[-1] > last.mined:
        mined.append(max(mined[-1] // 2, last.mined))
    return [
        (number * steps // len(mined), dataclasses.replace(last, mined=count))
        for number, count in enumerate(mined)
    ]


def make_model(config: Config, num_features: int, num_labels: int, total_steps: int) -> Model:
    """The model of a resolved configuration."""
    assert config.score_scale != "auto"  # resolved
    assert config.learning_rate != "auto"
    return Model(
        head=head_spec(config, num_labels),
        num_features=num_features,
        dim=config.dim,
        encoder=config.encoder,
        feature_init=config.feature_init,
        score_scale=config.score_scale,
        input_dropout=config.input_dropout,
        learning_rate=config.learning_rate,
        tower_learning_rate=config.tower_learning_rate,
        tower_momentum=config.tower_momentum,
        scale_learning_rate=config.scale_learning_rate,
        schedule=config.schedule,
        total_steps=total_steps,
        seed=config.seed,
    )


@dataclasses.dataclass(frozen=True)
class RunFolder:
    """The files of a run."""

    path: Path

    @property
    def config(self) -> Path:
        """Every resolved setting."""
        return self.path / "config.toml"

    @property
    def facts(self) -> Path:
        """The data and the shapes of the model."""
        return self.path / "run.json"

    @property
    def result(self) -> Path:
        """Metrics on the test points."""
        return self.path / "result.json"

    @property
    def log(self) -> Path:
        """One JSON line an event."""
        return self.path / "log.jsonl"

    def checkpoints(
        self, keep: int, phase: str = "train", about: dict[str, Any] | None = None
    ) -> Checkpoints:
        """The checkpoints of a phase, by its name: see `phase_names`; `about` is kept with each."""
        folder = self.path / "checkpoints"
        place = folder if phase == "train" else folder / phase
        return Checkpoints(place, keep=keep, about=about)

    @property
    def names(self) -> Path:
        """Names of the labels, where there are any."""
        return self.path / "labels.txt"

    @property
    def fitted_weighting(self) -> Path:
        """The feature weighting, fitted."""
        return self.path / "weighting.npz"

    @property
    def vectorizer(self) -> Path:
        """What turns texts into features, where there is such a thing."""
        return self.path / "vectorizer.json"

    def check(self, config: Config, facts: dict[str, Any]) -> None:
        """Finds nothing in the folder, or the same run; writes nothing.

        Args:
          config: resolved settings.
          facts: as in `run.json`: the data, the widths, where the run starts from.

        Raises:
          InputError: the folder holds another run, or something that is no run.
        """
        if self.config.exists():
            self._refuse_another(config, facts)
        elif self.path.exists() and not self._only_begun():
            raise InputError(str(self.path), "something that is no run", "a new or empty folder")

    def _only_begun(self) -> bool:
        """Whether the folder is empty, or `write` was interrupted in it."""
        files = (self.config, self.facts, self.names, self.fitted_weighting, self.vectorizer)
        ours = {path.stem for path in files}
        return self.path.is_dir() and all(
            path.stem in ours or path.name == LOCK for path in self.path.iterdir()
        )

    def write(self, config: Config, facts: dict[str, Any], weighting: Weighting,
              names: tuple[str, ...] | None, vectorizer: Path | None = None) -> None:  # fmt: skip
        """Makes the folder, with all that does not change while training; `config.toml` last.

        Raises:
          InputError: a place that cannot be written to.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            # Written again when a run goes on: the data may have moved.
            write_json(self.facts, facts)
            beside = self.path / "weighting.partial"
            weighting.save(beside)
            beside.replace(self.fitted_weighting)
            if names is not None:
                beside = self.path / "labels.partial"
                text = "".join(f"{name}\n" for name in names)
                beside.write_text(text, encoding="utf-8", newline="\n")
                beside.replace(self.names)
            if vectorizer is not None:
                beside = self.path / "vectorizer.partial"
                beside.write_bytes(vectorizer.read_bytes())
                beside.replace(self.vectorizer)
            write_config(self.config, config)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise InputError(f"--run-dir {self.path}", reason, "a folder to write to") from error

    def _refuse_another(self, config: Config, facts: dict[str, Any]) -> None:
        old, known = read_config(self.config), read_json(self.facts)
        if known["sha256"] != facts["sha256"]:
            found = f"a run on other data ({known['data']})"
            raise InputError(str(self.path), found, "the same data: choose another --run-dir")
        if known["warm_start"] != facts["warm_start"]:
            found = f"a run with --warm-start {known['warm_start']}"
            expected = f"{facts['warm_start']}: choose another --run-dir"
            raise InputError(str(self.path), found, expected)
        for field in dataclasses.fields(Config):
            before, now = getattr(old, field.name), getattr(config, field.name)
            if before != now and field.name not in _MAY_CHANGE:
                found = f"a run with {field.name} = {before!r}"
                raise InputError(str(self.path), found, f"{now!r}: choose another --run-dir")


def phase_names(member: int) -> tuple[str, str]:
    """The names of a member's training and of its refit on all of train; members count from 1.

    Example:
      >>> phase_names(1), phase_names(2)
      (('train', 'refit'), ('member-2', 'refit-2'))
    """
    return ("train", "refit") if member == 1 else (f"member-{member}", f"refit-{member}")


def _member(folder: RunFolder, config: Config, model: Model, member: int,
            finished: bool, mesh: Mesh | None = None) -> TrainState:  # fmt: skip
    """Parameters of a member's best checkpoint, or of its last where nothing was watched."""
    train, refit = phase_names(member)
    checkpoints = folder.checkpoints(config.keep_checkpoints, train)
    step = checkpoints.best()
    # A refit that is not over yet is worth less than what it starts anew from.
    if config.refit and finished:
        again = folder.checkpoints(config.keep_checkpoints, refit)
        if again.latest() is not None:
            checkpoints, step = again, again.latest()
    if step is None:
        raise InputError(str(folder.path), "no checkpoint", "a run that has saved one")
    return checkpoints.load(step, abstract_on(mesh, model))


def whole(folder: RunFolder, config: Config, model: Model, mesh: Mesh | None) -> bool:
    """Whether what a finished run is made of (each member's checkpoint) is what was written."""
    assert config.members != "auto"  # resolved
    try:
        for member in range(1, config.members + 1):
            _member(folder, config, model, member, finished=True, mesh=mesh)
    except InputError:
        return False
    return True


def load(run: str | Path) -> Predictor:
    """A trained model, from its run folder; of a run that is not over, its first member so far.

    Raises:
      InputError: no run, or none that has saved a checkpoint yet.
    """
    folder, config, facts = _opened(run)
    names = read_names(folder.names, facts["num_labels"]) if folder.names.exists() else None
    weighting = Weighting.load(folder.fitted_weighting)
    return assemble(folder, config, facts, weighting, names, folder.result.exists())


def load_member(run: str | Path, member: int, mesh: Mesh | None = None) -> tuple[Model, TrainState]:
    """One member of a run, counted from 1; its last where it has fewer.

    Raises:
      InputError: no run, or none that has saved a checkpoint yet.
    """
    folder, config, facts = _opened(run)
    finished = folder.result.exists()
    assert config.members != "auto"  # resolved
    member = min(member, config.members if finished else 1)
    model = make_model(config, facts["num_features"], facts["num_labels"], 1)
    return model, _member(folder, config, model, member, finished, mesh)


def _opened(run: str | Path) -> tuple[RunFolder, Config, dict[str, Any]]:
    folder = RunFolder(Path(run))
    if not folder.config.exists():
        raise InputError(str(run), "no config.toml", "the folder of a run (`snm train`)")
    config = read_config(folder.config)
    # Runs of before there were members have one.
    members = 1 if config.members == "auto" else config.members
    return folder, dataclasses.replace(config, members=members), read_json(folder.facts)


def assemble(folder: RunFolder, config: Config, facts: dict[str, Any], weighting: Weighting,
             names: tuple[str, ...] | None, finished: bool,
             mesh: Mesh | None = None) -> Predictor:  # fmt: skip
    """The predictor of a run's checkpoints, all members joined where the run is over.

    It is on one device, or spread over a mesh.

    Raises:
      InputError: a checkpoint is missing.
    """
    model = make_model(config, facts["num_features"], facts["num_labels"], 1)
    assert config.members != "auto"  # resolved
    members = config.members if finished else 1
    states = [_member(folder, config, model, member, finished, mesh)
              for member in range(1, members + 1)]  # fmt: skip
    model = dataclasses.replace(model, members=members)
    state = join(states) if mesh is None else joined(states, mesh)
    texts = Vectorizer.read(folder.vectorizer) if folder.vectorizer.exists() else None
    return Predictor(model, state, weighting, names, vectorizer=texts, mesh=mesh)


def read_json(path: Path) -> Any:
    """A JSON file of a run.

    Raises:
      InputError: it is missing or damaged.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(str(path), (error.strerror or "").lower(), "a file of the run") from error
    except (ValueError, RecursionError) as error:
        raise InputError(str(path), "damaged JSON", "a file written by `snm train`") from error


def write_json(path: Path, value: Any) -> None:
    """Writes beside and renames; arrays and NumPy scalars become lists and numbers."""
    beside = path.with_suffix(".partial")
    text = json.dumps(value, indent=1, default=lambda x: np.asarray(x).tolist())
    beside.write_text(text + "\n", encoding="utf-8")
    beside.replace(path)


def surroundings() -> dict[str, Any]:
    """Versions, the device, and the peak memory of this process in bytes."""
    device = jax.local_devices()[0]
    stats = device.memory_stats() or {}
    return {
        "peak_memory_bytes": peak_memory(),
        "peak_device_memory_bytes": stats.get("peak_bytes_in_use"),
        "versions": versions(),
        "device": f"{device.platform}: {device.device_kind}",
    }


def versions() -> dict[str, str]:
    """Of Python and of the libraries that the bits of a run depend on."""
    packages = ("snm", "jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy", "scipy")
    return {
        "python": platform.python_version(),
        **{package: metadata.version(package) for package in packages},
    }
