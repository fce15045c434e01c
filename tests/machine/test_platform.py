"""Programs that are traced for one platform are not taken for another one."""

import jax
import jax.numpy as jnp

from snm.bench.shapes import Shape, make_model
from snm.machine.platform import by_platform, cached_by_platform, compiling_for
from snm.prediction.programs import jitted_queries


@cached_by_platform(maxsize=8)
def jitted_power(exponent: int) -> jax.stages.Wrapped:
    """A program whose sign tells which platform it was traced for."""

    def power(x: jax.Array) -> jax.Array:
        return by_platform(x, cpu=lambda x: x, default=lambda x: -x) ** exponent

    return jax.jit(power)


def test_each_platform_has_programs_of_its_own() -> None:
    x, cubed = jnp.float32(2), jitted_power(3)
    assert cubed(x) == 8 and jitted_power(exponent=2)(x) == 4
    with compiling_for("tpu", 16 << 30):
        assert jitted_power(3) is jitted_power(3) is not cubed
        assert jitted_power(3)(x) == -8
    assert jitted_power(3) is cubed and cubed(x) == 8


def test_devices_with_other_memory_have_programs_of_their_own() -> None:
    found = []
    for memory, on_chip in ((1 << 34, 0), (1 << 35, 0), (1 << 34, 1 << 27)):
        with compiling_for("tpu", memory, on_chip):
            found.append(jitted_power(1))
    assert len({id(program) for program in found}) == 3


def test_the_cache_forgets() -> None:
    jitted_power.cache_clear()
    first = jitted_power(1)
    assert jitted_power.cache_info().currsize == 1
    jitted_power.cache_clear()
    assert jitted_power(1) is not first


def test_queries_of_a_cpu_are_not_those_of_an_accelerator() -> None:
    shape = Shape("tiny", 16, 30, 20, 4, 2.0, 8, 8, (2,), dim=8)
    model = make_model(shape, 2)
    here = jitted_queries(model, None)
    with compiling_for("gpu", 80 << 30):
        assert jitted_queries(model, None) is not here
    assert jitted_queries(model, None) is here
