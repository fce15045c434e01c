"""Counts how often a mesh mines other labels than one device does (flips at near ties).

python -m benchmarks.devices.flips                                   # generated data: ten minutes
python -m benchmarks.devices.flips generated path/to/data --out FILE # with a data set of your own

The benchmark takes the same steps on one device and on meshes of simulated CPU devices. Scores are
float32 sums, and a mesh changes the order of summation. If two labels have nearly equal scores,
either one may be among the k' best of a point. The first steps of a run are compared in two ways:

- *same state*: every step of the mesh starts from the parameters of the one device. This shows the
  effect of rounding within one step.
- *own state*: the mesh trains on its own. This shows the difference between runs, with the rounding
  and the flips of earlier steps.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np

from benchmarks.command_line import make_parser, write_results

MESHES = ("label=2", "data=2,label=4", "label=8")
STEPS = 50
GENERATED = dict(points=12_800, test_points=1, features=20_000, labels=13_000, seed=1)
SETTINGS = dict(dim=256, members=1, batch_size=256, sampled=4096)


@dataclasses.dataclass
class Flips:
    """Differences over several steps.

    Attributes:
      mined: number of mined slots compared: points x k', over all steps.
      flipped: number of slots with a label that the other side did not mine.
      steps: number of steps with a flip.
      first_step: the first step with a flip, counted from 0, or None.
      first_in_spacings: the largest gap in that step, in float32 spacings at that score.
      tied: number of points for which, on one device, the lowest mined score equals the highest
        score that was not mined. These are not flips, but a device that mines by thresholds shares
        the slot between both labels, and a mesh does not.
      widest: the largest gap of all flips: score of the label that was replaced minus score of the
        label that replaced it, on one device.
      widest_in_spacings: the same in float32 spacings.
      scores: the largest difference between the scores of a label that both mined.
      loss: the largest relative difference between the losses of a step.
    """

    mined: int = 0
    flipped: int = 0
    steps: int = 0
    first_step: int | None = None
    first_in_spacings: float = 0.0
    tied: int = 0
    widest: float = 0.0
    widest_in_spacings: float = 0.0
    scores: float = 0.0
    loss: float = 0.0

    def add(self, number: int, one: Mined, many: Mined) -> None:
        """Adds the differences of step `number`."""
        assert one.every is not None
        mine = chosen(one)
        gaps, spacings = gaps_of_flips(one.every, mine, chosen(many))
        last = np.where(mine, one.every, np.inf).min(axis=1)
        self.tied += int((last == np.where(mine, -np.inf, one.every).max(axis=1)).sum())
        self.mined += one.slots.size
        self.flipped += gaps.size
        self.steps += bool(gaps.size)
        if self.first_step is None and gaps.size:
            self.first_step, self.first_in_spacings = number, float(spacings.max())
        self.widest = max(self.widest, float(gaps.max(initial=0.0)))
        self.widest_in_spacings = max(self.widest_in_spacings, float(spacings.max(initial=0.0)))
        here = np.take_along_axis(one.every, many.slots, axis=1)
        self.scores = max(self.scores, float(np.abs(here - many.scores).max(initial=0.0)))
        self.loss = max(self.loss, abs(many.loss / one.loss - 1))

    @property
    def rate(self) -> float:
        """Flips per mined slot."""
        return self.flipped / self.mined


@dataclasses.dataclass(frozen=True)
class Mined:
    """The mined labels of a step.

    Attributes:
      slots: int32 [n, k'], positions in the sample.
      scores: float32 [n, k'], their scores.
      every: float32 [n, S], scores of the whole sample on one device; None on a mesh.
      loss: loss of the step.
    """

    slots: np.ndarray
    scores: np.ndarray
    every: np.ndarray | None
    loss: float


def chosen(mined: Mined) -> np.ndarray:
    """The mined slots as a mask, bool [n, S]."""
    size = int(mined.slots.max()) + 1 if mined.every is None else mined.every.shape[1]
    mask = np.zeros((len(mined.slots), size), bool)
    np.put_along_axis(mask, mined.slots, True, axis=1)
    return mask


def gaps_of_flips(
    scores: np.ndarray, here: np.ndarray, there: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Score gaps of the labels that only `there` has to the best label that they replaced.

    Args:
      scores: float32 [n, S], the scores of `here`.
      here: bool [n, S], the labels with the highest scores.
      there: bool [n, up to S], the other choice, with as many labels in each row.

    Returns:
      The gap of each flip, and the same in float32 spacings at the higher score.

    Example:
      >>> import numpy as np
      >>> scores = np.float32([[4, 3, 2.5, 1]])
      >>> here, there = np.array([[True, True, False, False]]), np.array([[True, False, True]])
      >>> gaps_of_flips(scores, here, there)[0].tolist()
      [0.5]
    """
    there = np.pad(there, [(0, 0), (0, here.shape[1] - there.shape[1])])
    lost, came = here & ~there, there & ~here
    assert (lost.sum(axis=1) == came.sum(axis=1)).all()
    best = np.where(lost, scores, -np.inf).max(axis=1, keepdims=True)
    points, slots = np.nonzero(came)
    gaps = (best[points, 0] - scores[points, slots]).astype(np.float64)
    return gaps, gaps / np.spacing(np.abs(best[points, 0]))


def compared(
    data: Any, meshes: tuple[str, ...], steps: int, report: Callable[[str], None], **settings: Any
) -> Iterator[tuple[str, str, int, Flips]]:
    """Takes `steps` training steps on one device and on each mesh.

    Args:
      data: a data set.
      meshes: meshes, written as for `--mesh`.
      steps: number of steps.
      report: progress callback; called with a short text.
      settings: changes of the default preset.

    Yields:
      Mesh, `same state` or `own state`, k', and the differences.
    """
    import snm
    from snm.batches.device_parts import spread_stack
    from snm.batches.schedule import Schedule
    from snm.batches.sources.build import make_run_source
    from snm.config.resolve import resolve
    from snm.data.weighting import Weighting
    from snm.distributed.mesh import make_mesh
    from snm.model.from_config import make_model
    from snm.model.placement import init_state_on, shard_state

    config = resolve(dataclasses.replace(snm.preset("default"), **settings), data)
    train = data.train
    weighting = Weighting.fit(config.weighting, train.features)
    places = {name: make_mesh(name, train.num_labels, config.batch_size) for name in ("", *meshes)}
    model = make_model(config, train.num_features, train.num_labels)
    assert model.spec.exclude == "all" and isinstance(model.spec.mined, int)
    sources = {
        name: dataclasses.replace(
            make_run_source(config, model.spec, train, None, weighting, mesh, seed=config.seed),
            schedule=Schedule.of(config, steps),
        )
        for name, mesh in places.items()
    }
    programs: dict[Any, Any] = {}

    def step(name: str, state: Any, number: int) -> tuple[Any, Mined]:
        source, mesh = sources[name], places[name]
        shape = source.shape(number)
        if (name, shape) not in programs:
            programs[name, shape] = _step(model, source, shape, mesh)
        stack = spread_stack(source.stack(number, 1), mesh)
        state, loss, (slots, scores, every) = programs[name, shape](state, stack)
        found = Mined(np.asarray(slots), np.asarray(scores), None, float(loss))
        return state, dataclasses.replace(found, every=None if every is None else np.asarray(every))

    one = init_state_on(model)
    own = {name: init_state_on(model, places[name]) for name in meshes}
    found = {(name, what): Flips() for name in meshes for what in ("same state", "own state")}
    for number in range(steps):
        report(f"step {number + 1} of {steps}")
        after, mine = step("", one, number)
        for name in meshes:
            _, same = step(name, shard_state(one, places[name]), number)
            found[name, "same state"].add(number, mine, same)
            own[name], other = step(name, own[name], number)
            found[name, "own state"].add(number, mine, other)
        one = after
    for (name, what), flips in found.items():
        yield name, what, model.spec.mined, flips


def _step(model: Any, source: Any, shape: Any, mesh: Any) -> Any:
    """Compiles a training step that also returns the mined labels."""
    import jax
    from jax.sharding import PartitionSpec

    from snm.batches.device_parts import stack_specs
    from snm.distributed.mesh import DATA, on_mesh, training_axes
    from snm.head import by_threshold as thresholds
    from snm.head import head
    from snm.head.mining import mine
    from snm.model.placement import state_specs
    from snm.model.train_step import train_step

    axes = training_axes(mesh)
    collect_inputs = head.collect_inputs

    def run(state: Any, stack: Any) -> Any:
        recorded = []

        # Runs the unchanged step and records the inputs that it collects.
        def record(spec: Any, *args: Any) -> Any:
            inputs = collect_inputs(spec, *args)
            best = mine(inputs)
            every = None
            if mesh is None:
                every = thresholds.mask_excluded(inputs, thresholds.all_scores(inputs))
            recorded.append((best.slots, best.scores, every))
            return inputs

        item = jax.tree.map(lambda leaf: leaf[0], stack)
        with mock.patch.object(head, "collect_inputs", record):
            state, metrics = train_step(
                model, state, source.materialize((), item, shape), axes=axes
            )
        return state, metrics.loss, recorded[0]

    if mesh is None:
        return jax.jit(run)

    def on_all(state: Any, stack: Any) -> Any:
        specs, points = state_specs(state, mesh), PartitionSpec(DATA)
        inputs = (specs, stack_specs(stack, mesh))
        outputs = (specs, PartitionSpec(), (points, points, None))
        return on_mesh(mesh, run, inputs, outputs)(state, stack)

    return jax.jit(on_all)


_COLUMNS = (
    "mesh", "from", "k'", "mined", "flips", "steps with any", "first", "its gap in spacings",
    "widest gap", "tied", "scores differ by", "losses differ by",
)  # fmt: skip


def main() -> None:
    """Prints a table for each data set, and writes the rows as JSON."""
    parser = make_parser(__doc__)
    parser.add_argument("data", nargs="*", help="data sets; `generated` is the default")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--mined", type=int, nargs="+", default=[64, 256], help="k'")
    given = parser.parse_args()

    import jax

    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", 8)
    import snm

    found = []
    for name in given.data or ["generated"]:
        data = snm.generate(**GENERATED) if name == "generated" else snm.load_data(name)
        found.append(measure(name if name == "generated" else data.name, data, given))
    write_results(given.out, found)


def measure(name: str, data: Any, given: argparse.Namespace) -> dict[str, Any]:
    """Measures a data set, prints its table, and returns the rows as JSON values."""
    import jax
    from rich.console import Console

    train = data.train
    rows = []
    with Console(stderr=True).status("compiling") as bar:
        for mined in given.mined:
            settings = {**SETTINGS, "mined": mined}
            for mesh, what, count, flips in compared(
                data, MESHES, given.steps, bar.update, **settings
            ):
                rows.append(
                    {"mesh": mesh, "from": what, "mined_a_point": count, "rate": flips.rate,
                     **dataclasses.asdict(flips)}
                )  # fmt: skip
    print(f"{name}: {train.num_points:,} points, {train.num_labels:,} labels, {given.steps} steps")
    print(f"| {' | '.join(_COLUMNS)} |\n|---|---|{'---:|' * (len(_COLUMNS) - 2)}")
    for row in rows:
        cells = (
            f"`{row['mesh']}`", row["from"], row["mined_a_point"], f"{row['mined']:,}",
            row["flipped"], row["steps"], "" if row["first_step"] is None else row["first_step"],
            f"{row['first_in_spacings']:.0f}", f"{row['widest']:.1e}", row["tied"],
            f"{row['scores']:.1e}", f"{row['loss']:.1e}",
        )  # fmt: skip
        print(f"| {' | '.join(map(str, cells))} |", flush=True)
    return {"data": name, "points": train.num_points, "features": train.num_features,
            "labels": train.num_labels, "steps": given.steps, **SETTINGS,
            "jax": jax.__version__, "rows": rows}  # fmt: skip


if __name__ == "__main__":
    main()
