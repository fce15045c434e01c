"""How often a mesh mines another label than one device does: flips at near ties.

python -m benchmarks.flips                                      # generated data: ten minutes
python -m benchmarks.flips generated path/to/data --out FILE    # data of yours beside it

The same steps are taken on one device and on meshes that a CPU plays. Scores are sums in float32,
whose order a mesh changes, so that of two labels whose scores are nearly the same the other one may
be among a point's k' best. Two questions, each over the first steps of a run:

- *same state*: every step of the mesh starts from the parameters of one device: what rounding
  within one step does;
- *own state*: the mesh trains by itself: what a run differs by, rounding and flips of earlier steps
  included.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

MESHES = ("label=2", "data=2,label=4", "label=8")
STEPS = 50
GENERATED = dict(points=12_800, test_points=1, features=20_000, labels=13_000, seed=1)
SETTINGS = dict(dim=256, members=1, batch_size=256, sampled=4096)


@dataclasses.dataclass
class Flips:
    """What differed over some steps.

    Attributes:
      mined: slots compared: points x k', over all steps.
      flipped: of them, those that hold a label which the other does not have.
      steps: with a flip.
      first_step: the first of them, counted from 0; None where there was none.
      first_in_spacings: the largest gap in that step, in units of the distance between float32
        numbers at that score.
      tied: points whose last mined score is exactly that of the best which was not, on one device:
        no flips, but a device that mines by thresholds shares the place, and a mesh does not.
      widest: of all flips, the largest gap on one device between a label that was lost and the
        one that came instead.
      widest_in_spacings: the same in spacings of float32.
      scores: the largest difference of a score that both mined.
      loss: the largest relative difference of a step's loss.
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
        """Counts step `number`."""
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
        """Flips a mined slot."""
        return self.flipped / self.mined


@dataclasses.dataclass(frozen=True)
class Mined:
    """What a step mined.

    Attributes:
      slots: int32 [n, k'], of the sample.
      scores: float32 [n, k'].
      every: float32 [n, S], the scores of the whole sample; of one device only.
      loss: of the step.
    """

    slots: np.ndarray
    scores: np.ndarray
    every: np.ndarray | None
    loss: float


def chosen(mined: Mined) -> np.ndarray:
    """The slots of each point as a mask: bool [n, S], S no less than the largest."""
    size = int(mined.slots.max()) + 1 if mined.every is None else mined.every.shape[1]
    mask = np.zeros((len(mined.slots), size), bool)
    np.put_along_axis(mask, mined.slots, True, axis=1)
    return mask


def gaps_of_flips(
    scores: np.ndarray, here: np.ndarray, there: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """How far each label that only `there` has lies below the best that it took the place of.

    Args:
      scores: float32 [n, S], as they were here.
      here: bool [n, S], the best by these scores.
      there: bool [n, up to S], as many a row.

    Returns:
      A gap for each flip, and the same in float32 spacings at that score.

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
    data: Any, meshes: tuple[str, ...], steps: int, told: Callable[[str], None], **settings: Any
) -> Iterator[tuple[str, str, int, Flips]]:
    """Walks `steps` steps on one device and on each mesh.

    Args:
      data: a data set.
      meshes: as for `--mesh`.
      steps: of the run.
      told: hears what is going on.
      settings: changes of the default preset.

    Yields:
      Mesh, `same state` or `own state`, k', and what differed.
    """
    import jax

    import snm
    from snm.batches.build import source_of
    from snm.batches.device_parts import spread_stack
    from snm.config.resolve import resolve
    from snm.data.weighting import Weighting
    from snm.distributed.mesh import make_mesh
    from snm.model.from_config import make_model
    from snm.model.model import init_state
    from snm.model.placement import initial, spread

    config = resolve(dataclasses.replace(snm.preset("default"), **settings), data)
    train = data.train
    weighting = Weighting.fit(config.weighting, train.features)
    places = {name: make_mesh(name, train.num_labels, config.batch_size) for name in ("", *meshes)}
    model = make_model(config, train.num_features, train.num_labels, steps)
    assert model.head.exclude == "all" and isinstance(model.head.mined, int)
    sources = {
        name: source_of(config, model.head, train, None, weighting, mesh)
        for name, mesh in places.items()
    }
    programs: dict[Any, Any] = {}

    def step(name: str, state: Any, number: int) -> tuple[Any, Mined]:
        source, mesh = sources[name], places[name]
        shape = source.shape_of_step(number)
        if (name, shape) not in programs:
            programs[name, shape] = _step(model, source, shape, mesh)
        stack = source.stack(number, 1)
        stack = stack if mesh is None else spread_stack(stack, source.data_parts, mesh)
        state, loss, (slots, scores, every) = programs[name, shape](state, stack)
        found = Mined(np.asarray(slots), np.asarray(scores), None, float(loss))
        return state, dataclasses.replace(found, every=None if every is None else np.asarray(every))

    one = jax.jit(init_state, static_argnums=0)(model)
    own = {name: initial(model, places[name]) for name in meshes}
    found = {(name, what): Flips() for name in meshes for what in ("same state", "own state")}
    for number in range(steps):
        told(f"step {number + 1} of {steps}")
        after, mine = step("", one, number)
        for name in meshes:
            _, same = step(name, spread(one, places[name]), number)
            found[name, "same state"].add(number, mine, same)
            own[name], other = step(name, own[name], number)
            found[name, "own state"].add(number, mine, other)
        one = after
    for (name, what), flips in found.items():
        yield name, what, model.head.mined, flips


def _step(model: Any, source: Any, shape: Any, mesh: Any) -> Any:
    """A step of training as one program, which also hands out what was mined."""
    import jax
    from jax.sharding import PartitionSpec

    from snm.batches.device_parts import stack_specs
    from snm.distributed.mesh import DATA, on_mesh, table_axes
    from snm.head import by_threshold as thresholds
    from snm.head import head
    from snm.head.mining import mine
    from snm.model.placement import state_specs
    from snm.model.train_step import train_step

    axes = {} if mesh is None else {**table_axes(mesh), "data_axis": DATA}
    problem_of = head._problem

    def run(state: Any, stack: Any) -> Any:
        handed = []

        # The step as it is: what it makes its problem of is looked at on the way.
        def looked(spec: Any, *args: Any) -> Any:
            problem = problem_of(spec, *args)
            best = mine(spec, problem)
            handed.append(
                (best.slots, best.scores, thresholds.every_score(problem) if mesh is None else None)
            )
            return problem

        item = jax.tree.map(lambda leaf: leaf[0], stack)
        with mock.patch.object(head, "_problem", looked):
            state, metrics = train_step(model, state, source.materialize((), item, shape), **axes)
        return state, metrics.loss, handed[0]

    if mesh is None:
        return jax.jit(run)

    def on_all(state: Any, stack: Any) -> Any:
        specs, points = state_specs(state, mesh), PartitionSpec(DATA)
        inputs = (specs, stack_specs(stack, source.data_parts))
        outputs = (specs, PartitionSpec(), (points, points, None))
        return on_mesh(mesh, run, inputs, outputs)(state, stack)

    return jax.jit(on_all)


_COLUMNS = (
    "mesh", "from", "k'", "mined", "flips", "steps with any", "first", "its gap in spacings",
    "widest gap", "tied", "scores differ by", "losses differ by",
)  # fmt: skip


def main() -> None:
    """Prints a table a data set, and writes them as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", nargs="*", help="data sets; `generated` is the default")
    parser.add_argument("--out", type=Path, help="a JSON file to write")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--mined", type=int, nargs="+", default=[64, 256], help="k'")
    given = parser.parse_args()

    import jax

    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", 8)
    import snm
    from snm.system.files import write_whole

    found = []
    for name in given.data or ["generated"]:
        data = snm.generate(**GENERATED) if name == "generated" else snm.load_data(name)
        found.append(measured(name if name == "generated" else data.name, data, given))
    if given.out is not None:
        write_whole(given.out, json.dumps(found, indent=1) + "\n")


def measured(name: str, data: Any, given: argparse.Namespace) -> dict[str, Any]:
    """Prints the table of a data set; JSON values of it."""
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
