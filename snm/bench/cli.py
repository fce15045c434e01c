"""`snm bench`: checks the arguments, prints a table for each part, writes JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, arg

from snm.errors import InputError
from snm.system.faults import describe_error

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["Bench", "make_results_table", "slower"]

_SAMPLED_PARTS = ("step", "epoch")  # the parts with settings for B and k'
_DTYPES: dict[str, Literal["float32", "bfloat16"]] = {"cpu": "float32", "gpu": "bfloat16"}
_SLOWER_FACTOR = 1.3  # a row is slower above this factor, if the quartiles do not overlap either


@dataclasses.dataclass
class Bench:
    """Time each part against the limits of the hardware and against other libraries (peers).

    Compare the ratios: seconds depend on what else the machine does. Our code and its peers take
    turns in one process, and the rates of the hardware are measured in between. Peers need the
    extra bench; missing ones are named and left out.

    For example:

      snm bench step --shape amazon670k
      snm bench step sample --shape eurlex amazoncat --json before.json
      snm bench step sample --shape eurlex amazoncat --vs before.json
      snm bench step epoch --shape eurlex --sampled 1024 all --mined 1 16 64 256
      snm bench step epoch --shape amazon3m --sampled 32768 all --mined 16 256 --device gpu
    """

    parts: Annotated[Positional[tuple[str, ...]], arg(metavar="[PART ...]")] = ()
    """Parts to time: read, sample, bag, score_mine, step, growth, epoch, evaluate, predict,
    checkpoint; all by default."""
    shape: tuple[Literal["eurlex", "amazoncat", "wikilshtc", "amazon670k", "amazon3m"], ...] = (
        "eurlex",
    )
    """Data sets whose sizes to use; the data are synthetic."""
    device: Literal["cpu", "gpu"] = "cpu"
    """Device to run on; without a GPU, `gpu` is skipped with a message."""
    sampled: tuple[int | Literal["all"], ...] = ()
    """Labels sampled for each batch (B), for the parts step and epoch; by default the shape's."""
    mined: tuple[int, ...] = ()
    """Values of k' to time besides all, for the parts step and epoch; by default the shape's."""
    compute_dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Type of the factors of matrix products; auto is bfloat16 on a GPU, float32 elsewhere."""
    repeats: int = 15
    """Number of measurements; slow parts take fewer."""
    peers: bool = True
    """Time the peers too."""
    json: Path | None = None
    """Write the results to this file."""
    vs: Path | None = None
    """Compare with the file of an earlier run; exit with status 1 if a part is slower."""

    def __call__(self) -> None:
        """Times the given parts, prints tables, and writes JSON.

        Raises:
          InputError: an unknown part, too few repeats, or an invalid file for `--vs`.
          SystemExit: with status 1 if `--vs` finds something slower.
        """
        import jax

        from snm.bench.environment import describe_environment
        from snm.bench.parts import PARTS
        from snm.runs.folder import write_json
        from snm.system.terminal import text_spinner, wide_console

        console = wide_console()
        _check(self)
        before = None if self.vs is None else _read(self.vs)
        if self.device == "gpu" and jax.default_backend() == "cpu":
            console.print("skipped: jax finds no GPU (is its CUDA extra installed?)")
            return
        if self.device == "cpu":
            jax.config.update("jax_platforms", "cpu")
        names = self.parts or tuple(PARTS)
        rows: list[dict[str, Any]] = []
        environment = describe_environment()
        with text_spinner("", timed=True) as report:
            for shape in self.shape:
                for part in names:
                    part_rows = _time_part(part, shape, self, report)
                    rows += part_rows
                    console.print(make_results_table(part_rows))
                    if self.json is not None:
                        # A list of rows, each with the machine it was measured on.
                        write_json(self.json, [{**row, "on": environment} for row in rows])
        if before is not None:
            lines = slower(rows, before)
            for line in lines:
                console.print(line)
            if lines:
                raise SystemExit(1)
            known = {_key(row) for row in before}
            new = sum(_key(row) not in known for row in rows)
            rest = f" ({new} of {len(rows)} rows are not in it)" if new else ""
            console.print(f"nothing is slower than in {self.vs}{rest}")


def _check(command: Bench) -> None:
    """Checks the parts, the numbers and the output file."""
    from snm.bench.parts import PARTS
    from snm.system.files.checks import check_writable

    for part in command.parts:
        if part not in PARTS:
            raise InputError(part, "an unknown part", f"one of {', '.join(PARTS)}")
    if command.repeats < 2:
        raise InputError("--repeats", str(command.repeats), "2 or more")
    for name, counts in (("--sampled", command.sampled), ("--mined", command.mined)):
        for count in counts:
            if count != "all" and count < 1:
                raise InputError(name, str(count), "1 or more")
    if command.json is not None:
        check_writable("--json", command.json)


def _time_part(part: str, shape: str, command: Bench, report: Any) -> list[dict[str, Any]]:
    import jax.numpy as jnp

    from snm.bench.contest import run_contest
    from snm.bench.parts import PARTS
    from snm.bench.rates import MachineRates
    from snm.bench.shapes import SHAPES

    whole = SHAPES[shape]
    report(f"{part} {shape}: preparing")
    dtype = _DTYPES[command.device] if command.compute_dtype == "auto" else command.compute_dtype
    whole = dataclasses.replace(whole, compute_dtype=dtype)
    machine = MachineRates(whole.batch, whole.dim, jnp.dtype(dtype))
    sizes = [whole]
    if part in _SAMPLED_PARTS:
        sizes = [
            whole.with_sampling(whole.num_labels if count == "all" else count, command.mined)
            for count in command.sampled or (None,)
        ]
    rows = []
    for size in sizes:
        for contest in PARTS[part](size, machine):
            if not command.peers:
                contest.peers = tuple
            results = run_contest(contest, command.repeats, report)
            rows += [{"compute_dtype": dtype, **row} for row in results]
    return rows


# -- an earlier run --------------------------------------------------------------------------


def _read(path: Path) -> list[dict[str, Any]]:
    """Rows of a file of `--json`.

    Raises:
      InputError: no such file, or another kind of file.
    """
    try:
        rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(rows, list):
            raise TypeError
        for row in rows:
            _key(row), row["median_s"], row["quartiles_s"][1], row["ratio_to_floor"]
    except OSError as error:
        reason = describe_error(error)
        raise InputError(f"--vs {path}", reason, "a file written by --json") from error
    except (ValueError, TypeError, KeyError, IndexError) as error:
        raise InputError(
            f"--vs {path}", "another kind of file", "a file written by --json"
        ) from error
    return rows


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    names = ("part", "shape", "case", "sampled", "mined", "device", "compute_dtype")
    return tuple(row[name] for name in names)


def slower(rows: Iterable[dict[str, Any]], before: Iterable[dict[str, Any]]) -> list[str]:
    """A line for each row that is slower than in an earlier run of the same job.

    Compares the ratio to the floor, which depends least on the machine's load, or the time of a job
    without a floor. A row is slower if its median is more than 1.3 times the former one and its
    lower quartile is above the former upper quartile.
    """
    former = {_key(row): row for row in before}
    lines = []
    for row in rows:
        old = former.get(_key(row))
        if old is None:
            continue
        new_low, new, _ = _measure(row)
        _, old_median, old_high = _measure(old)
        if new > _SLOWER_FACTOR * old_median and new_low > old_high:
            name = " ".join(str(part) for part in _key(row)[:3] if part)
            mined = "" if row["mined"] is None else f" k' {row['mined']}"
            lines.append(f"slower: {name}{mined}: {new / old_median:.2f} times the former value")
    return lines


def _measure(row: dict[str, Any]) -> tuple[float, float, float]:
    if row["ratio_to_floor"] is not None:
        low, high = row["ratio_to_floor_quartiles"]
        return low, row["ratio_to_floor"], high
    return row["quartiles_s"][0], row["median_s"], row["quartiles_s"][1]


# -- what is shown ---------------------------------------------------------------------------


def make_results_table(rows: list[dict[str, Any]]) -> Table:
    """The table of one part: medians, with quartiles in parentheses."""
    from rich.table import Table

    title = f"{rows[0]['part']}, {rows[0]['shape']}: median (quartiles)" if rows else "nothing"
    table = Table(title=title, title_justify="left")
    has_peaks = any(row["peak_bytes"] is not None for row in rows)
    for name in ("case", "ms", "/ floor", "times faster than", *["peak MB"] * has_peaks):
        table.add_column(
            name,
            justify="right" if name in ("/ floor", "ms", "peak MB") else "left",
            no_wrap=name != "times faster than",
            overflow="fold",
        )
    for row in rows:
        mined = "" if row["mined"] is None else f"k' {row['mined']} of {row['sampled']:,}"
        low, high = (f"{1e3 * value:.3g}" for value in row["quartiles_s"])
        peers = [
            f"{name} {_ratio(value)} ({_ratio(low_ratio)}-{_ratio(high_ratio)})"
            for (name, value), (low_ratio, high_ratio) in zip(
                row["ratio_to_peer"].items(), row["ratio_to_peer_quartiles"].values(), strict=True
            )
        ] + [f"{name}: {reason}" for name, reason in row["peers_missing"].items()]
        floor = "" if row["ratio_to_floor"] is None else f"{row['ratio_to_floor']:.2f}"
        if floor:
            low_ratio, high_ratio = row["ratio_to_floor_quartiles"]
            floor += f" ({low_ratio:.2f}-{high_ratio:.2f})"
        table.add_row(
            row["case"] or mined,
            f"{1e3 * row['median_s']:.3g} ({low}-{high})",
            floor,
            "\n".join(peers),
            *([f"{row['peak_bytes'] / 2**20:,.0f}"] if has_peaks else []),
        )
    return table


def _ratio(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:,.0f}"
