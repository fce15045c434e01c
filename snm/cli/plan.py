"""`snm plan`."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import OmitArgPrefixes, Positional, arg

from snm.config.settings import Config
from snm.text import counted, duration, format_bytes

if TYPE_CHECKING:
    from rich.table import Table

    from snm.config.resolved import ResolvedConfig
    from snm.planning.bytes_by_stage import Bytes, Forecast
    from snm.planning.fit_check import MemoryCheck
    from snm.planning.programs import Programs

__all__ = ["Plan"]

_SPARE = "leave half a GiB more, as libraries and the allocator take what no plan predicts"


@dataclasses.dataclass
class Plan:
    """Predict what a run needs: memory by part and stage, and the time of an epoch.

    Takes the settings of `snm train`. Compiles the programs, and times a few steps if the run fits
    this machine; writes nothing.

    For example:

      snm plan path/to/eurlex
      snm plan path/to/amazon3m --preset paper --device-memory 80GiB
      snm plan path/to/amazon3m --preset paper --target h100
    """

    data: Annotated[Positional[str], arg(metavar="DATA")]
    """Folder of the data set, or `synthetic`."""
    device_memory: Annotated[str | None, arg(metavar="SIZE")] = None
    """Memory of the device, such as 80GiB; by default what the device reports."""
    target: Annotated[str | None, arg(metavar="DEVICE[-N]")] = None
    """Compile for an accelerator that need not be here: v5e, v5p, v6e, h100, h200 or b200, with -N
    for N devices; times are then arithmetic. Needs the extra target-tpu or target-cuda."""
    json: bool = False
    """Print one JSON object, in bytes and seconds."""
    config: Path | None = None
    """TOML file with settings, such as the config.toml of a run."""
    settings: OmitArgPrefixes[Config] = dataclasses.field(default_factory=Config)
    """Settings of the run."""

    def __call__(self) -> None:
        """Prints what a run needs, by part and stage, and how long an epoch takes.

        Raises:
          InputError: data or settings that cannot be used.
        """
        if self.target is None:
            from snm.system.compilation_cache import enable_compilation_cache

            enable_compilation_cache()
        else:  # without the device, a cached program cannot be loaded
            from snm.targets.devices import use_cpus_only

            use_cpus_only()
        from snm.planning.byte_sizes import parse_bytes
        from snm.planning.fit_check import simulate_devices

        self.settings.check()  # before the data are read, which may take long
        limit = None if self.device_memory is None else parse_bytes(self.device_memory)
        if self.target is not None:
            from snm.targets.report import plan_target, with_mesh_of_target

            simulate_devices(with_mesh_of_target(self.target, self.settings)[1].mesh)
            return plan_target(self.data, self.settings, self.target, limit, self.json)
        simulate_devices(self.settings.mesh)
        plan = _compute_plan(self, limit)
        if self.json:
            print(json.dumps(_as_json(plan)))
        else:
            _print(plan)


@dataclasses.dataclass(frozen=True, eq=False)
class _PlanResult:
    """The forecast of a run.

    Attributes:
      config: the settings of the run.
      forecast: bytes by part and stage, and steps.
      programs: the compiled programs of the run.
      memory: needed and available.
      seconds: of a step; None if no step was timed.
      not_timed_because: the reason if no step was timed; else empty.
    """

    config: ResolvedConfig
    forecast: Forecast
    programs: Programs
    memory: MemoryCheck
    seconds: float | None
    not_timed_because: str


def _compute_plan(command: Plan, limit: int | None) -> _PlanResult:
    """Forecasts a run on this machine, and times its steps if it fits."""
    import jax

    from snm.config.resolve import resolve
    from snm.data.load import load
    from snm.planning.fit_check import compare_memory, device_memory
    from snm.planning.forecast import forecast
    from snm.planning.programs import seconds_per_step

    dataset = load(command.data)
    config = resolve(command.settings, dataset)
    predicted, programs = forecast(dataset, config)
    memory = compare_memory(predicted, programs, config, limit)
    not_timed_because = ""
    if programs.mesh is not None and jax.default_backend() == "cpu":
        not_timed_because = "one CPU simulates the devices"
    elif memory.needed > device_memory():
        not_timed_because = "the run does not fit this machine"
    at_once = predicted.sizes.parallel_members
    seconds = None if not_timed_because else seconds_per_step(programs, at_once)
    return _PlanResult(config, predicted, programs, memory, seconds, not_timed_because)


def _as_json(plan: _PlanResult) -> dict[str, Any]:
    """The result with sizes in bytes and times in seconds, None if no step was timed."""
    forecast, memory = plan.forecast, plan.memory
    seconds, steps = plan.seconds, forecast.steps_per_epoch
    return {
        "host_bytes": forecast.host,
        "device_bytes": forecast.device,
        "peak_host_bytes": forecast.peak_host,
        "peak_device_bytes": forecast.peak_device,
        "limit_bytes": memory.limit,
        "fits": memory.fits,
        "ways_to_fit": [{"flags": flags, "bytes": size} for flags, size in memory.remedies],
        "steps_per_epoch": steps,
        "seconds_per_step": seconds,
        "members_at_once": forecast.sizes.parallel_members,
        "compile_seconds": plan.programs.compile_seconds,
        "seconds_per_epoch": None if seconds is None else seconds * steps,
    }


def _print(plan: _PlanResult) -> None:
    """Prints tables of bytes, the time of an epoch, and whether the run fits."""
    from snm.system.terminal import console, say

    forecast, mesh, memory = plan.forecast, plan.programs.mesh, plan.memory
    name = "host" if forecast.device else "memory"
    console.print(_table(f"{name}, MiB", forecast.host))
    if forecast.device:
        title = "device" if mesh is None else f"each of {mesh.size} devices"
        console.print(_table(f"{title}, MiB", forecast.device))
    say(_time_text(plan))
    sizes = f"{format_bytes(memory.needed)} at the peak, {format_bytes(memory.limit)} available"
    spare = "" if forecast.device else f"; {_SPARE}"
    say(f"fits: {sizes}{spare}" if memory.fits else f"does not fit: {sizes}")
    for flags, size in memory.remedies:
        say(f"  {flags:<24} {format_bytes(size)}")


def _time_text(plan: _PlanResult) -> str:
    """How long a step, an epoch and the training take, or why this is not known."""
    config, seconds, steps = plan.config, plan.seconds, plan.forecast.steps_per_epoch
    if seconds is None:
        return f"time: not measured, because {plan.not_timed_because}"
    at_once = plan.forecast.sizes.parallel_members
    total_steps = config.epochs * -(-config.members // at_once) * steps
    choosing = ", choosing the memory" if config.memory == "on" else ""
    per_step = f" of {at_once} members at once" if at_once > 1 else ""
    return (
        f"{seconds:.3g} s a step{per_step}, {counted(steps, 'step')} an epoch: "
        f"{duration(seconds * steps)} an epoch, "
        f"the first after {duration(plan.programs.compile_seconds)} of compiling;\n"
        f"{duration(seconds * total_steps)} of steps in total "
        f"(epochs {config.epochs}, members {config.members});\n"
        f"not counted are initial rows, checkpoints{choosing} and evaluation;\n"
        "these times were measured just now, on a few steps: they vary from call to call"
    )


def _table(title: str, account: Bytes) -> Table:
    from snm.planning.bytes_by_stage import PARTS, STAGES
    from snm.system.terminal import make_table

    table = make_table(title, ["part"], STAGES)
    for part in PARTS:
        sizes = [account[stage].get(part, 0) for stage in STAGES]
        if any(sizes):
            table.add_row(part, *(_mebibytes(size) for size in sizes))
    table.add_section()
    table.add_row("in all", *(_mebibytes(sum(account[stage].values())) for stage in STAGES))
    return table


def _mebibytes(size: int) -> str:
    return f"{size / 2**20:,.1f}" if size else ""
