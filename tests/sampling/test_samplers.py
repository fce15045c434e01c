"""The table of samplers: what every entry keeps to, and that a new one needs nothing else."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny

import snm
from snm.batches.epoch_order import Order
from snm.batches.sources.build import keeps_on_device, make_run_source, make_source
from snm.config.resolve import resolve
from snm.data.weighting import Weighting
from snm.errors import InputError
from snm.head.spec import HeadSpec
from snm.machine.platform import compiling_for
from snm.model.from_config import head_spec, make_model
from snm.model.model import init_state
from snm.sampling.frequency import FrequencySampler
from snm.sampling.in_batch import InBatchSampler
from snm.sampling.protocol import SamplerInputs
from snm.sampling.sample import Sample, host_rng, sample_of_draws
from snm.sampling.samplers import SAMPLERS
from snm.trainer.steps.programs import jitted_steps

K = 40


@pytest.fixture
def data():
    return snm.generate(points=60, test_points=1, features=30, labels=K, seed=1)


def source_with(data, name, *, resident=False, data_parts=None):
    config = dataclasses.replace(tiny.CONFIG, sampler=name, mined="all", loss="softmax")
    config = resolve(config, data)
    model = make_model(config, data.train.num_features, data.train.num_labels)
    source = make_source(
        model.spec, data.train.features, data.train.labels,
        Order.of(data.train.num_points, 16, 9, data_parts or 1),
        sampler=SAMPLERS[name], sampler_options={"frequency_power": 0.5},
        resident=resident, data_parts=data_parts,
    )  # fmt: skip
    return model, source


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_draw_is_a_function_of_the_step_and_keeps_its_shape(name):
    kind = SAMPLERS[name]
    frequency = np.arange(K)[::-1].copy() if kind.needs_label_frequency else None
    draws = np.full((2, K), 0.5) if kind.needs_batch_positives else None
    options = {"frequency_power": 0.75} if name == "frequency" else {}
    inputs = SamplerInputs(num_labels=K, size=9, seed=4, num_points=90, batch_size=6,
                           label_frequency=frequency, label_draws=draws,
                           options=options)  # fmt: skip
    sampler = kind.build(inputs)
    with pytest.raises(dataclasses.FrozenInstanceError):
        sampler.num_labels = 3
    positives = None
    if kind.needs_batch_positives:
        positives = np.array([3, 3, 0, K, 17, 39, K, 5, 5], np.int32)
    samples = [sampler.on_host(step, positives) for step in (0, 5, 5)]
    if sampler.on_device is not None:
        draw = jax.jit(sampler.on_device)
        samples += [draw(jnp.int32(step), positives, jnp.uint32(4)) for step in (5, 5)]
        assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(samples[-1]))
    for sample in samples:
        ids = np.asarray(sample.ids)
        drawn = ids[ids < K]
        assert ids.shape == samples[0].ids.shape and ids.dtype == np.int32
        assert ids.tolist() == [*sorted(set(drawn)), *[K] * (len(ids) - len(drawn))]
        assert (drawn >= 0).all() and 0 <= sample.drop <= len(ids)
        if sample.log_weights is not None:
            assert sample.log_weights.shape == ids.shape
            assert sample.log_weights.dtype == np.float32
            np.testing.assert_array_equal(np.isneginf(sample.log_weights), ids == K)
    for one, again in ((samples[1], samples[2]), (samples[-2], samples[-1])):
        for mine, other in zip(one, again, strict=True):
            np.testing.assert_array_equal(mine, other)


@dataclasses.dataclass(frozen=True, kw_only=True)
class LogUniform:
    """Draws label j with probability log((j + 2) / (j + 1)) / log(K + 1), with replacement."""

    num_labels: int
    size: int
    seed: int
    needs_label_frequency: ClassVar[bool] = False
    needs_batch_positives: ClassVar[bool] = False
    uniform: ClassVar[bool] = False
    with_replacement: ClassVar[bool] = True
    on_device: ClassVar[None] = None

    @classmethod
    def build(cls, inputs: SamplerInputs) -> LogUniform:
        return cls(num_labels=inputs.num_labels, size=inputs.size, seed=inputs.seed)

    def log_q(self, labels):
        return np.log(np.log1p(1 / (labels + 1)) / np.log1p(self.num_labels))

    def on_host(self, step, positives=None) -> Sample:
        draws = host_rng(self.seed, step).random(self.size)
        drawn = np.expm1(draws * np.log1p(self.num_labels)).astype(np.int64)
        return sample_of_draws(np.minimum(drawn, self.num_labels - 1), self.num_labels, self.log_q)


@pytest.mark.parametrize("resident", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_new_sampler_is_one_entry_of_the_table(resident, data, monkeypatch):
    """No other file has to know it: its samples reach the compiled steps, which train."""
    monkeypatch.setitem(SAMPLERS, "log-uniform", LogUniform)
    model, source = source_with(data, "log-uniform", resident=resident)
    expected = LogUniform(num_labels=K, size=model.spec.sampled + 1, seed=9)
    assert source.sampler == expected
    resident_arrays, stack = source.resident_arrays(), source.stack(0, 2)
    for step in (0, 1):
        item = jax.tree.map(lambda leaf, n=step: leaf[n], stack)
        batch = source.materialize(resident_arrays, item, source.shape(0))
        for found, drawn in zip(batch.sample, expected.on_host(step), strict=True):
            np.testing.assert_array_equal(found, drawn)
    state = init_state(model)
    before = np.asarray(state.head.table.rows).copy()
    state, metrics = jitted_steps(model, source, source.shape(0))(state, resident_arrays, stack)
    assert np.isfinite(metrics.loss).all() and metrics.ok.all() and metrics.loss.shape == (2,)
    assert not np.array_equal(before, state.head.table.rows)


def test_its_weights_are_unbiased():
    # The mean of the sum of weights is K: standard error 14 of 1000 over 200 samples of 64.
    sampler = LogUniform(num_labels=1000, size=64, seed=0)
    totals = [np.exp(sampler.on_host(step).log_weights).sum() for step in range(200)]
    assert abs(np.mean(totals) - 1000) < 50


class HostInBatch(InBatchSampler):
    """In-batch negatives that only the host draws."""

    on_device = None


@pytest.mark.parametrize(("resident", "parts"), [(True, None), (False, 4), (True, 4)])
def test_the_host_sees_the_positives_of_whole_batches(resident, parts, data, monkeypatch):
    """Where it draws for a device that has the points, or one part of them."""
    monkeypatch.setitem(SAMPLERS, "host in-batch", HostInBatch)
    _, plain = source_with(data, "in-batch")
    _, source = source_with(data, "host in-batch", resident=resident, data_parts=parts)
    others = [source, source_with(data, "in-batch", data_parts=parts)[1]]
    if parts:  # the device's own draw would see one part of the batch
        others.append(source_with(data, "in-batch", resident=resident, data_parts=parts)[1])
    for step in (0, plain.steps_per_epoch - 1):
        expected = plain.stack(step, 1).sample
        real = expected.ids[0] < K
        for other in others:
            found = other.stack(step, 1).sample
            slots = found.ids[0] < K
            np.testing.assert_array_equal(found.ids[0][slots], expected.ids[0][real])
            np.testing.assert_array_equal(
                found.log_weights[0][slots], expected.log_weights[0][real]
            )


def test_a_run_gives_a_sampler_the_settings_that_it_lists(data, monkeypatch):
    given = []

    class Mine(LogUniform):
        @classmethod
        def build(cls, inputs: SamplerInputs) -> LogUniform:
            given.append(dict(inputs.options))
            return super().build(inputs)

    class Reader(Mine):
        option_names = frozenset({"frequency_power", "no_setting"})

    for kind, expected in ((Mine, {}), (Reader, {"frequency_power": 0.25})):
        monkeypatch.setitem(SAMPLERS, "mine", kind)
        changes = dict(sampler="mine", loss="softmax", mined="all", **expected)
        config = resolve(dataclasses.replace(tiny.CONFIG, **changes), data)
        spec, unweighted = head_spec(config, K), Weighting.fit("none", data.train.features)
        source = make_run_source(config, spec, data.train, None, unweighted, seed=config.seed)
        assert isinstance(source.sampler, kind) and given.pop() == expected


@pytest.mark.parametrize(
    ("name", "needed"), [("frequency", "label_frequency"), ("in-batch", "label_draws")]
)
def test_a_sampler_made_by_hand_says_what_it_needs(name, needed):
    inputs = SamplerInputs(num_labels=3, size=2, seed=0, num_points=9, batch_size=4)
    with pytest.raises(ValueError, match=f"this sampler needs {needed}"):
        SAMPLERS[name].build(inputs)


def test_an_order_of_other_points_is_refused(data):
    points = data.train.features, data.train.labels
    with pytest.raises(ValueError, match="60 points, and 59 in the order"):
        make_source(HeadSpec(num_labels=K, sampled=8, mined=2), *points, Order.of(59, 16, seed=0))


def test_nothing_is_drawn_where_all_labels_are_negatives(data):
    config = resolve(dataclasses.replace(tiny.CONFIG, sampled="all", mined="all"), data)
    head = make_model(config, data.train.num_features, K).spec
    source = make_source(
        head, data.train.features, data.train.labels,
        Order.of(data.train.num_points, 16, seed=9), sampler=FrequencySampler,
    )  # fmt: skip
    assert source.sampler is None and source.stack(0, 1).sample is None


def test_a_mesh_over_points_keeps_them_on_the_host_if_the_whole_batch_is_asked_for():
    for name, mesh, expected in (
        ("in-batch", "", True), ("in-batch", "label=4", True), ("in-batch", "data=2", False),
        ("uniform", "data=2", True), ("frequency", "data=2", True),
    ):  # fmt: skip
        auto = dataclasses.replace(tiny.CONFIG, sampler=name, mesh=mesh, data_on="auto")
        with compiling_for("gpu", 1 << 40):
            assert keeps_on_device(auto, 10) is expected
        asked = dataclasses.replace(auto, data_on="device")
        if expected:
            assert keeps_on_device(asked, 10)
        else:
            with pytest.raises(InputError, match="found sampler in-batch and a mesh of 2 data"):
                keeps_on_device(asked, 10)


def test_points_with_more_entries_than_int32_has_numbers_stay_on_the_host():
    """On a device that has room for them."""
    auto, device = (dataclasses.replace(tiny.CONFIG, data_on=on) for on in ("auto", "device"))
    with compiling_for("gpu", 1 << 40):
        assert keeps_on_device(auto, 2**31 - 1, 5)
        assert not keeps_on_device(auto, 2**31, 5)
    with pytest.raises(InputError, match="data_on device: found 2,147,483,648 entries"):
        keeps_on_device(device, 5, 2**31)


def _descending(step, positives, seed):
    return Sample(jnp.arange(9, dtype=jnp.int32)[::-1], jnp.int32(0))


def _positives(step, positives, seed):
    ids = jnp.sort(positives)
    return Sample(jnp.where(positives[0] < K, ids + K, ids), jnp.int32(0))


@pytest.mark.parametrize(
    ("draw", "said"),
    [(_descending, "label 7 after 8, expected ascending labels"), (_positives, "label ")],
)
def test_a_draw_on_the_device_is_checked_once_when_a_run_starts(draw, said, monkeypatch, tmp_path):
    """Descending ids trained to half the precision, without a word."""

    @dataclasses.dataclass(frozen=True)
    class Wrong:
        needs_label_frequency: ClassVar[bool] = False
        needs_batch_positives: ClassVar[bool] = draw is _positives
        uniform: ClassVar[bool] = False
        with_replacement: ClassVar[bool] = False
        on_device: ClassVar = staticmethod(draw)

        @classmethod
        def build(cls, inputs):
            return cls()

    monkeypatch.setitem(SAMPLERS, "wrong", Wrong)
    changes = dict(sampler="wrong", data_on="device", sampled=8, mined=2, loss="softmax")
    config = dataclasses.replace(tiny.CONFIG, **changes)
    data = snm.generate(points=60, test_points=1, features=30, labels=K, seed=1)
    with pytest.raises(InputError) as error:
        snm.train(data, config, tmp_path / "run")
    assert str(error.value).startswith(f"sampler Wrong, on_device at step 0: found {said}")
