"""`snm plan --target`: the memory and the traffic of a run on an absent accelerator."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from rich.table import Table

from snm.config.resolve import resolve
from snm.config.settings import Config
from snm.data.load import load
from snm.distributed.mesh import parse_mesh
from snm.errors import InputError
from snm.machine.platform import compiling_for
from snm.system.terminal import console, make_table, say
from snm.targets.programs import Program, compile_run
from snm.targets.table import Target, find_target
from snm.text import counted, duration, format_bytes

__all__ = ["estimate_seconds", "limits", "plan_target", "report", "with_mesh_of_target"]

_ASSUMPTIONS = (
    "Times are arithmetic, not measured: peak rates, every byte counted from the compiled program "
    "once, nothing overlapping but memory, products and links; start, batches and checkpoints left "
    "out."
)


def plan_target(data: str, settings: Config, text: str, memory: int | None, as_json: bool) -> None:
    """Compiles the programs of a run for a target, and prints what they need.

    Args:
      data: folder of the data set, or `synthetic`.
      settings: the settings of the run; the CPU simulates the devices of its mesh.
      text: the target, such as h100 or v5e-4; without a mesh, N devices are `label=N`.
      memory: bytes of a device that the run may use; None is all that the target leaves to JAX.
      as_json: whether to print one JSON object.

    Raises:
      InputError: an unknown target, no compiler for it, data or settings that cannot be used.
    """
    target, settings = with_mesh_of_target(text, settings)
    with compiling_for(target.backend, target.memory, target.on_chip):
        dataset = load(data)
        config = resolve(settings, dataset)
    programs, steps = compile_run(dataset, config, target)
    limit = target.usable if memory is None else memory
    result = report(target, config.mesh, programs, steps, limit)
    if as_json:
        print(json.dumps(result))
    else:
        _print(result)


def with_mesh_of_target(text: str, settings: Config) -> tuple[Target, Config]:
    """The target, and the settings with a mesh of as many devices as `-N` says.

    Raises:
      InputError: an unknown target, or a mesh of another number of devices.
    """
    target, count = find_target(text)
    data, label = parse_mesh(settings.mesh)
    if not settings.mesh and count is not None and count > 1:
        return target, dataclasses.replace(settings, mesh=f"label={count}")
    if count is not None and count != data * label:
        expected = f"--mesh of {count} devices, or --target {target.name}"
        raise InputError(f"--target {text}", f"--mesh {settings.mesh}", expected)
    find_target(f"{target.name}-{data * label}")  # raises if the compiler does not support so many
    return target, settings


def report(
    target: Target, mesh: str, programs: list[Program], steps_per_epoch: int, limit: int
) -> dict[str, Any]:
    """What the programs need on each device, and the times that follow from the target's peaks.

    The time of an epoch is the mean over the run, whose stages may have other sizes.
    """
    peak = max(program.peak for program in programs)
    training = [program for program in programs if program.name.startswith("training")]
    step = sum(program.share * estimate_seconds(program, target)[0] for program in training)
    return {
        "target": target.name,
        "source": target.source,
        "mesh": mesh,
        "limit_bytes": limit,
        "peak_bytes": peak,
        "fits": peak <= limit,
        "programs": [_program_entries(program, target) for program in programs],
        "steps_per_epoch": steps_per_epoch,
        "seconds_per_epoch": step * steps_per_epoch,
        "assumptions": _ASSUMPTIONS,
    }


def limits(program: Program, target: Target) -> dict[str, float]:
    """Seconds of a step by each of the target's peaks."""
    account, steps = program.account, program.steps
    products = sum(
        count / target.rates[target.default_products if kind == "default" else kind]
        for kind, count in account.operations.items()
        if kind in target.rates or kind == "default"
    )
    return {
        "memory": account.moved / steps / target.bandwidth,
        "products": products / steps,
        "links": account.sent / steps / target.link,
    }


def estimate_seconds(program: Program, target: Target) -> tuple[float, str]:
    """Seconds of a step, and the peak that bounds it."""
    seconds = limits(program, target)
    bound = max(seconds, key=lambda name: seconds[name])
    return seconds[bound], bound


def _program_entries(program: Program, target: Target) -> dict[str, Any]:
    account, steps = program.account, program.steps
    seconds, bound = estimate_seconds(program, target)
    kinds: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for exchange in account.exchanges:
        kinds[exchange.kind] += 1
        sizes[exchange.kind] += exchange.size
    return {
        "name": program.name,
        "steps": steps,
        "argument_bytes": program.arguments,
        "aliased_bytes": program.aliased,
        "result_bytes": program.results,
        "temporary_bytes": program.temporaries,
        "peak_bytes": program.peak,
        "moved_bytes_per_step": account.moved / steps,
        "operations_per_step": {kind: n / steps for kind, n in account.operations.items()},
        "collectives_per_step": {
            kind: {"count": kinds[kind] / steps, "bytes": sizes[kind] / steps} for kind in kinds
        },
        "sent_bytes_per_step": account.sent / steps,
        "seconds_per_step": seconds,
        "seconds_by": limits(program, target),
        "bound": bound,
        "loops_of_unknown_length": account.unknown_loops,
        "faults": program.faults,
        "compile_seconds": program.seconds,
    }


def _print(result: dict[str, Any]) -> None:
    console.print(_table(result))
    for line in _remarks(result):
        say(line)


def _table(result: dict[str, Any]) -> Table:
    """A column for each program: its memory, what it moves, and the time that follows."""
    programs = result["programs"]
    where = f" ({result['mesh']})" if result["mesh"] else ""
    names = (program["name"] for program in programs)
    table = make_table(f"{result['target']}{where}, MiB of each device", [""], names)

    def row(name: str, cell: Callable[[dict[str, Any]], str]) -> None:
        table.add_row(name, *map(cell, programs))

    def mebibytes(key: str) -> Callable[[dict[str, Any]], str]:
        return lambda program: f"{program[key] / 2**20:,.1f}"

    row("arguments", mebibytes("argument_bytes"))
    row("of them aliased", mebibytes("aliased_bytes"))
    row("temporaries", mebibytes("temporary_bytes"))
    row("at the peak", mebibytes("peak_bytes"))
    table.add_section()
    row("moved a step", mebibytes("moved_bytes_per_step"))
    row(
        "GFLOP a step", lambda program: f"{sum(program['operations_per_step'].values()) / 1e9:,.1f}"
    )
    if any(program["sent_bytes_per_step"] for program in programs):
        row("sent a step", mebibytes("sent_bytes_per_step"))
        row("collectives", _collectives)
    row("ms by arithmetic", lambda program: f"{program['seconds_per_step'] / 1e-3:,.4g}")
    row("bound by", lambda program: program["bound"])
    return table


def _collectives(program: dict[str, Any]) -> str:
    """How many of each kind a step has, and their MiB."""
    return ", ".join(
        f"{entry['count']:.4g} {kind} {entry['bytes'] / 2**20:.2f}"
        for kind, entry in program["collectives_per_step"].items()
    )


def _remarks(result: dict[str, Any]) -> Iterator[str]:
    """Faults of the programs, the time of an epoch, and whether the run fits."""
    for program in result["programs"]:
        for fault in program["faults"]:
            yield f"{program['name']}: {fault}"
        if program["loops_of_unknown_length"]:
            loops = counted(program["loops_of_unknown_length"], "loop")
            text = f"{loops} of unknown length, counted for a shard that holds its mean share"
            yield f"{program['name']}: {text}"
    epoch, steps = result["seconds_per_epoch"], result["steps_per_epoch"]
    several = sum(program["name"].startswith("training") for program in result["programs"]) > 1
    mean = " on average" if several else ""
    text = f"{counted(steps, 'step')} an epoch: at least {duration(epoch)}{mean}."
    yield f"{text} {result['assumptions']}"
    peak, limit = result["peak_bytes"], result["limit_bytes"]
    text = f"{format_bytes(peak)} at the peak, {format_bytes(limit)} available: "
    difference = format_bytes(abs(limit - peak))
    yield (
        f"fits: {text}{difference} to spare"
        if result["fits"]
        else f"does not fit: {text}{difference} short"
    )
