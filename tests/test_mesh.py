"""Meshes: a run over many devices is the run of one, in its losses, its files and its memory."""

import dataclasses
import re

import jax
import numpy as np
import pytest
from jax.sharding import NamedSharding

import snm
from snm import rows as rows_module
from snm.batches import Source
from snm.data.weighting import Weighting
from snm.errors import InputError
from snm.loop import NonFiniteError, Stepped, compiled_steps
from snm.meshes import LABEL, initial, make_mesh, parse_mesh, spread, state_specs
from snm.model import abstract_state, init_state
from snm.order import Order
from snm.phases import Started
from snm.runs import make_model, resolve
from snm.sources import make_source
from snm.trainer import training

# Neither the features nor the labels can be cut into 2, 4 or 8 equal parts.
DATA = snm.generate(points=320, test_points=160, features=301, labels=203, seed=1)
SMALL = dataclasses.replace(
    snm.preset("default"), epochs=2, dim=16, members=1, batch_size=32, mined=8, sampled=64,
    steps_per_dispatch=1,
)  # fmt: skip


def run(folder, **changes):
    """Losses step by step, and the metrics on the test points."""
    losses, metrics, began = [], {}, []
    for event in training(DATA, dataclasses.replace(SMALL, **changes), folder):
        if isinstance(event, Stepped):
            losses.append(event.loss)
        elif isinstance(event, Started):
            began.append(event.step)
        elif not hasattr(event, "step"):
            metrics = event.result["metrics"]
    return np.array(losses), metrics, began


CASES = {
    "decoupled softmax": {},
    "bowl, one positive": dict(
        preset="paper", loss="bowl", positives="one", exclude="positive", encoder="relu", bias=False
    ),
    "negative sampling": dict(loss="bowl", mined="all"),
    "powl by products": dict(loss="powl", mined=60),
    "all labels": dict(sampled="all"),
    "full softmax": dict(sampled="all", mined="all"),
    "adagrad": dict(row_optimizer="adagrad", learning_rate=0.1),
    "subsample": dict(loss="bowl", vartheta="subsample"),
    "frequency": dict(sampler="frequency", mined="all"),
    "in-batch": dict(sampler="in-batch", mined="all"),
    "on the device": dict(data_on="device"),
    "learned scale": dict(learn_score_scale=True),
    "two members": dict(members=2),
    "lists": dict(loss="listmle"),
    "lists of the whole sample": dict(loss="rankcosine", mined="all", learning_rate=20.0),
}
MESHES = ("data=2", "label=2", "data=2,label=4", "label=8")
EVERYDAY = {("decoupled softmax", "data=2,label=4")}


@pytest.fixture(scope="module")
def on_one(tmp_path_factory):
    """The run of one device for each case, made once."""
    found = {}

    def of(case):
        if case not in found:
            found[case] = run(tmp_path_factory.mktemp("one") / "run", **CASES[case])
        return found[case]

    return of


@pytest.mark.parametrize(
    ("case", "mesh"),
    [
        pytest.param(case, mesh, marks=[] if (case, mesh) in EVERYDAY else pytest.mark.slow)
        for case in CASES
        for mesh in MESHES
    ],
)
def test_a_mesh_computes_what_one_device_does(case, mesh, on_one, tmp_path):
    if case == "on the device":
        pytest.skip("draws on the device: compared with itself below")
    losses, metrics, _ = on_one(case)
    here, found, _ = run(tmp_path / "run", mesh=mesh, **CASES[case])
    np.testing.assert_allclose(here, losses, rtol=1e-4)
    for name, value in metrics.items():
        assert found[name] == pytest.approx(value, abs=0.3), name


@pytest.mark.slow
@pytest.mark.parametrize("mesh", MESHES)
def test_points_on_the_device_are_cut_too(mesh, on_one, tmp_path):
    losses, metrics, _ = on_one("on the device")
    here, found, _ = run(tmp_path / "run", mesh=mesh, data_on="device")
    np.testing.assert_allclose(here, losses, rtol=1e-4)
    assert found["P@1"] == pytest.approx(metrics["P@1"], abs=0.3)


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("", "label=8"),
        pytest.param("label=8", "data=2", marks=pytest.mark.slow),
        pytest.param("data=2,label=4", "", marks=pytest.mark.slow),
    ],
)
def test_a_checkpoint_goes_on_under_another_mesh(first, then, tmp_path):
    half, _, _ = run(tmp_path / "run", mesh=first, epochs=1, schedule="constant")
    rest, found, began = run(tmp_path / "run", mesh=then, epochs=2, schedule="constant")
    assert began == [10]  # of 20 steps
    whole, metrics, _ = run(tmp_path / "whole", schedule="constant")
    np.testing.assert_allclose(np.concatenate([half, rest]), whole, rtol=1e-4)
    assert found["P@1"] == pytest.approx(metrics["P@1"], abs=0.3)
    # What was kept has no added rows: it loads on one device.
    assert snm.load(tmp_path / "run").state.head.table.rows.shape == (203, 16)


# -- the start ---------------------------------------------------------------------------------


def model_of(**changes):
    config = resolve(dataclasses.replace(SMALL, **changes), DATA)
    return make_model(config, DATA.train.num_features, DATA.train.num_labels, 100)


@pytest.mark.parametrize("block", [16, 64, 1 << 16])
def test_every_device_starts_with_its_own_rows(block, monkeypatch):
    monkeypatch.setattr(rows_module, "_RANDOM_ROWS", block)
    mesh = make_mesh("data=2,label=4", 203, 32)
    model = model_of()
    whole = init_state(model)
    cut = initial(model, mesh)
    for mine, rows in (
        (cut.features.rows, whole.features.rows),
        (cut.head.table.rows, whole.head.table.rows),
    ):
        assert len(mine) % 4 == 0
        np.testing.assert_allclose(np.asarray(mine)[: len(rows)], rows, rtol=1e-6)
        assert not np.asarray(mine)[len(rows) :].any()
        assert {shard.data.shape[0] for shard in mine.addressable_shards} == {len(mine) // 4}


def test_spreading_a_state_adds_rows_of_zeros():
    mesh = make_mesh("label=8", 203, 32)
    state = spread(init_state(model_of()), mesh)
    assert state.head.table.rows.shape == (208, 16)
    assert state.head.bias.shape == (208,)
    assert state.features.rows.sharding.spec == jax.P(LABEL, None)


# -- what a step moves and holds ---------------------------------------------------------------


def compiled_step(mesh, num_labels=200_000, features=100_000, **changes):
    config = dataclasses.replace(SMALL, **{"sampled": 4096, "dim": 64, **changes})
    data = snm.generate(points=64, test_points=1, features=40, labels=30, seed=0)
    config = resolve(dataclasses.replace(config, sampled=20, mined=8), data)
    config = dataclasses.replace(config, sampled=4096)
    model = make_model(config, features, num_labels, 100)
    matrix = data.train.features.copy()
    matrix.resize(64, features)
    labels = data.train.labels.copy()
    labels.resize(64, num_labels)
    source = make_source(model.head, matrix, labels, batch_size=32, seed=0, weight_of_term="mean",
                         resident=False, sampler="uniform", frequency_power=0.75,
                         lanes=mesh.shape["data"])  # fmt: skip
    parts = mesh.shape[LABEL]
    state = abstract_state(model)

    def on_device(x, spec):
        shape = list(x.shape)
        if len(spec) and spec[0] == LABEL:
            shape[0] += -shape[0] % parts
        return jax.ShapeDtypeStruct(shape, x.dtype, sharding=NamedSharding(mesh, spec))

    state = jax.tree.map(on_device, state, state_specs(state))
    step = compiled_steps(model, source, source.shape(0), mesh)
    return step.lower(state, (), source.stack(0, 1)).compile()


@pytest.mark.parametrize(
    "changes",
    [
        {},
        pytest.param(dict(loss="bowl", mined=4096), marks=pytest.mark.slow),
        pytest.param(dict(row_optimizer="adagrad"), marks=pytest.mark.slow),
    ],
)
def test_no_table_is_copied_and_none_is_sent(changes):
    mesh = make_mesh("data=2,label=2", 200_000, 32)
    compiled = compiled_step(mesh, **changes)
    text = compiled.as_text()
    copies = re.findall(r"= f32\[(?:100000|50000)(?:,64)?\]\S* copy(?:-start)?\(.*", text)
    assert not copies, copies[:3]
    table = 4 * 64 * 100_000  # this device's half of the class rows
    assert compiled.memory_analysis().temp_size_in_bytes < 0.7 * table
    for numbers in exchanged(text):
        assert numbers < 100_000, "an exchange as long as a part of a table"


def exchanged(text):
    """How many numbers each collective of a module hands over."""
    kinds = "all-gather|all-reduce|all-to-all|collective-permute|reduce-scatter"
    found = re.findall(rf"= (.*?) (?:{kinds})(?:-start)?\(", text)
    assert found
    for shapes in found:
        for dims in re.findall(r"\w+\[([\d,]*)\]", shapes):
            yield int(np.prod([int(n) for n in dims.split(",") if n], initial=1))


@pytest.mark.parametrize("mesh", ["data=3,label=2", "label=2"])
def test_predictions_are_those_of_one_device(mesh):
    """Also where the parts of a block are no whole ones, and the last block is short."""
    model = model_of()
    state, weighting = init_state(model), Weighting.fit("tfidf", DATA.train.features)
    devices = make_mesh(mesh, 203, 33)
    one = snm.Predictor(model, state, weighting)
    many = snm.Predictor(
        model, spread(state, devices), weighting, mesh=devices, block_rows=50, block_entries=8
    )
    labels, scores = one.predict(DATA.test.features, k=7)
    found, found_scores = many.predict(DATA.test.features, k=7)
    np.testing.assert_array_equal(found, labels)
    np.testing.assert_allclose(found_scores, scores, rtol=1e-5, atol=1e-6)


# -- what is not finite ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mesh",
    ["data=2,label=4", pytest.param("label=2", marks=pytest.mark.slow)],
)
def test_a_mesh_names_the_tensor_and_the_row(mesh, tmp_path, monkeypatch):
    stack = Source.stack

    def broken(self, first, count):
        """The third point of step 3 has features that are no numbers."""
        batch = stack(self, first, count)
        if first == 3:
            values, starts = batch.features.values[0], batch.features.starts[0]
            if self.lanes > 1:
                values, starts = values[0], starts[0]
            values[starts[2] : starts[3]] = np.nan
        return batch

    monkeypatch.setattr(Source, "stack", broken)
    with pytest.raises(NonFiniteError) as error:
        run(tmp_path / "run", mesh=mesh, epochs=1)
    points = Order.of(320, 32, seed=0).epoch(0)[0][3]
    assert error.value.points == points.tolist()
    assert error.value.tensor == "the feature values are"
    assert error.value.culprits == [points[2]]


# -- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["label", "label=0", "data=2,data=2", "rows=2", "label=-1", "x"])
def test_other_meshes_are_refused(text):
    with pytest.raises(InputError, match="--mesh"):
        parse_mesh(text)


@pytest.mark.parametrize(
    ("text", "labels", "batch", "said"),
    [
        ("label=16", 100, 32, "16 devices"),
        ("label=8", 5, 32, "5 labels, expected at least one a part"),
        ("data=3", 100, 32, "--batch-size 32, expected a multiple of data=3"),
    ],
)
def test_meshes_that_do_not_fit_are_refused(text, labels, batch, said):
    with pytest.raises(InputError, match=said):
        make_mesh(text, labels, batch)


def test_one_device_has_no_mesh():
    assert make_mesh("data=1,label=1", 10, 32) is None
