"""`snm compare`: checks the arguments, shows progress, writes the report."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, arg

from snm.config.checks import check_name
from snm.config.settings import Config, parse_config, preset, read_toml
from snm.errors import STOPPED, InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from snm.compare.arms import Arm
    from snm.compare.progress import Display
    from snm.config.resolved import ResolvedConfig
    from snm.data.dataset import Dataset

__all__ = ["Compare"]

_MINED = (1, 16, 64, 256)  # k' that are compared by default
_KEPT = "keeps what is done, and goes on"
_STOPPING = (
    "stopping: runs at work write a checkpoint, a peer begins again; a second signal stops at once"
)


@dataclasses.dataclass
class Compare:
    """Compare SNM with negative sampling, other losses, samplers and packages; write a report.

    Each configuration (an arm) runs with several seeds; other packages (peers) run on the same
    split. A comparison sets some settings itself: each run is one model, trained on all training
    points without validation, and without a memory of neighbours and the logit adjustment that its
    points choose, unless --memory or a file asks for it. A memory can hide differences between
    losses.

    If the comparison was interrupted, the same command resumes it: finished runs are kept, the
    others continue from their checkpoints. SIGTERM and Ctrl-C have running runs write a checkpoint,
    and exit with status 75; another signal, a second later or more, stops at once. Writes
    results.json, results.csv (a line for each run), table.md and report.html to OUT. If all runs
    failed, it exits with status 1.

    For example:

      snm compare path/to/eurlex --out out/eurlex
      snm compare path/to/eurlex --out out/tuned --mined 1 16 64 --seeds 5 --tune --jobs 2
      snm compare synthetic --out out/quick --epochs 2 --dim 64 --no-equal-seconds
      snm compare path/to/eurlex --out out/more --losses bowl softmax --extras anneal in-batch
      snm compare path/to/eurlex --out out/lists --losses bowl listnet listmle ranksvm
      snm compare path/to/eurlex --out out/peers --peers omikuji fasttext
    """

    data: Annotated[Positional[str], arg(metavar="DATA")]
    """Folder of the data set, or `synthetic`."""
    out: Path
    """Folder of the comparison."""
    mined: tuple[int, ...] = ()
    """Values of k' to compare with negative sampling; by default those of 1, 16, 64 and 256
    that are smaller than B at every step."""
    sampled: int | Literal["all", "auto"] | None = None
    """Labels sampled for each batch (B): a number, all, or auto, which depends on K."""
    seeds: int = 3
    """Number of runs of each configuration (arm), with seeds from 0."""
    losses: Annotated[tuple[str, ...], arg(metavar="NAME ...")] = ()
    """Losses to compare; by default the preset's. Listwise losses take all positives of a point in
    each epoch."""
    extras: Annotated[tuple[str, ...], arg(metavar="NAME ...")] = ()
    """Additional configurations (arms): power-law, epsilon-tail, subsample, all-labels, anneal,
    logistic, squared-hinge, frequency, in-batch, full-softmax. The last three have the loss
    softmax: ratios to negative sampling need it in --losses."""
    exclude_all: bool = False
    """Run each arm a second time with all known labels of a point excluded from its negatives."""
    tune: bool = False
    """Run each arm a second time at the best of six settings, chosen on a held-out fifth of train:
    three learning rates (a factor of 3 apart) and two weights of negatives, or score scales."""
    tune_epochs: int | None = None
    """Epochs of a tuning trial; by default half of --epochs."""
    equal_seconds: bool = True
    """Run each arm a second time, with as many epochs as fit the time of negative sampling."""
    peers: Annotated[tuple[str, ...], arg(metavar="NAME ...")] = ()
    """Other packages and methods (peers) to run on the same split: omikuji, bonsai, neighbors,
    fasttext, napkinxc, libmultilabel (extra peers); xr-linear, xr-linear-3
    (libpecos, in a Python of its own that SNM_PECOS_PYTHON names); MODULE:NAME of a module on
    PYTHONPATH with a table PEERS, such as experiments.references:leml."""
    preset: Literal["paper", "default", "fast"] | None = None
    """Preset that the settings of all arms start from: by default that of the file, or paper."""
    config: Path | None = None
    """TOML file with settings of all arms, which override the preset. Members, validation and seed
    are refused there: a comparison sets them itself."""
    memory: Literal["auto", "on", "off"] | None = None
    """Memory of neighbours of each run, whose votes can hide most of the difference between losses:
    by default that of the file, or off, whatever the preset says."""
    epochs: int | None = None
    """Epochs of each run; by default those of the file or the preset."""
    dim: int | None = None
    """Dimension of embeddings; by default that of the file or the preset."""
    batch_size: int | None = None
    """Batch size; by default that of the file or the preset."""
    jobs: int = 1
    """Number of concurrent runs. Times are comparable only between runs at the same load."""

    def base(self) -> Config:
        """The settings that all arms share.

        Raises:
          InputError: a file or a value is not valid.
        """
        from snm.compare.campaign import FIXED_SETTINGS, WITHOUT_MEMORY

        # Each arm sets its own k'; the preset's may exceed what is sampled here.
        values = {} if self.config is None else read_toml(self.config)
        start = dataclasses.replace(preset(self._preset(values)), mined="all")
        if self.memory is None and "memory" not in values:
            start = dataclasses.replace(start, **WITHOUT_MEMORY)
        if self.config is not None:
            before, start = start, parse_config(values, str(self.config), base=start)
            for name, own in FIXED_SETTINGS.items():
                value = getattr(start, name)
                if value not in (own, getattr(before, name)):
                    expected = f"{own!r}, as a comparison sets it, or none"
                    raise InputError(f"{self.config}: {name}", repr(value), expected)
        names = ("sampled", "epochs", "dim", "batch_size", "memory")
        given = {name: value for name in names if (value := getattr(self, name)) is not None}
        if self.memory == "off":
            given |= WITHOUT_MEMORY
        return dataclasses.replace(start, **given, mined="all")

    def _preset(self, values: dict[str, Any]) -> str:
        """The preset of the flag or of the file.

        Raises:
          InputError: the preset of the file is unknown.
        """
        if self.preset is None and "preset" in values:
            return parse_config({"preset": values["preset"]}, str(self.config)).preset
        return self.preset or "paper"

    def __call__(self) -> None:
        """Runs the verb."""
        from snm.system.signals import sigterm_exits
        from snm.system.terminal import ignore_broken_pipe

        with (
            ignore_broken_pipe(),
            sigterm_exits(STOPPED, f"SIGTERM: stopped; the same command {_KEPT}"),
        ):
            _run(self)


def _run(command: Compare) -> None:
    """Runs a comparison and writes its report.

    Raises:
      InputError: the data, the settings or the folder are not valid.
      SystemExit: with status 1, if all runs failed.
    """
    from snm.compare.campaign import Campaign
    from snm.compare.plan import PLAN, check_same_plan, describe
    from snm.compare.progress import Display
    from snm.compare.records import write_record
    from snm.compare.report.parts import count_failed
    from snm.compare.report.published import published_for
    from snm.compare.report.tables import all_sheets
    from snm.compare.report.terminal import layout_tables
    from snm.system.files.locks import LOCK, locked
    from snm.system.signals import announced_stop
    from snm.system.streams import print_error
    from snm.system.terminal import console, say

    _check(command)
    arms, dataset = _arms_and_data(command)
    display = Display(command.jobs)
    # Resolves and checks every arm before anything is written.
    campaign = Campaign(
        command.data,
        dataset,
        arms,
        command.out,
        seeds=command.seeds,
        tune=command.tune,
        tune_epochs=command.tune_epochs,
        equal_seconds=command.equal_seconds,
        jobs=command.jobs,
        on_progress=display,
    )
    plan = campaign.plan()
    if command.out.is_dir():  # before a lock is written into it
        check_same_plan(command.out, plan)
    with locked(command.out / LOCK, f"--out {command.out}"):
        check_same_plan(command.out, plan)
        write_record(command.out / PLAN, plan)
        results = describe(dataset, plan)
        with display.bar, announced_stop(_STOPPING, _KEPT) as stop:
            for tables in campaign.run(stop):
                results |= tables
                _write_figures(command.out, results)
            results["peers"] = _peers(command, campaign.arms[0].config, display, stop)
        results["published"] = published_for(dataset.name)
        _write_figures(command.out, results)
        report = _write_report(command.out, results)
    for sheet in all_sheets(results):
        console.print(*layout_tables(sheet, console.width), sep="\n")
    say(f"\n{report}")
    failed, total = count_failed(results)
    if failed == total:
        print_error(f"all {total} runs failed; {report} says why")
        raise SystemExit(1)
    if failed:
        say(f"{failed} of {total} runs failed; the report says why")


def _check(command: Compare) -> None:
    """Rejects numbers out of range and an unusable cache, and warns of peers that cannot run."""
    from snm.system.files.cache_folder import cache_folder
    from snm.system.terminal import say

    cache_folder()  # or each training would fail
    for flag, value in (
        ("--seeds", command.seeds),
        ("--jobs", command.jobs),
        ("--tune-epochs", command.tune_epochs),
    ):
        if value is not None and value < 1:
            raise InputError(flag, str(value), "1 or more")
    if command.tune_epochs is not None and not command.tune:
        raise InputError("--tune-epochs", "no --tune", "--tune, whose trials have so many epochs")
    if command.peers:
        from snm.compare.peers.process import check

        for name, reason in check(command.peers).items():
            if reason is not None:
                say(f"note: --peers {name}: {reason}; the report will have no figures of it")


def _arms_and_data(command: Compare) -> tuple[list[Arm], Dataset]:
    """The arms and the data; default values of k' that are not below B are dropped.

    Raises:
      InputError: the settings or the data are not valid.
    """
    from snm.compare.arms import plan_arms
    from snm.compare.campaign import sampled_range
    from snm.data.load import load
    from snm.system.terminal import say

    base = command.base().check(all_read=False)
    losses = command.losses or (base.loss,)
    for loss in losses:
        check_name("--losses", "loss", loss)

    def arms_of(mined: Sequence[int]) -> list[Arm]:
        return plan_arms(
            base, mined=mined, losses=losses, extras=command.extras, exclude_all=command.exclude_all
        )

    arms = arms_of(command.mined or _MINED)  # raises errors before the data are read
    dataset = load(command.data)
    if dataset.test is None:
        raise InputError(dataset.name, "no test points", "a test file beside the train file")
    mined = command.mined
    fewest, most = sampled_range(arms[0].config, dataset)
    if not mined:
        mined = tuple(k for k in _MINED if k < fewest) or _MINED[:1]
        if large := [k for k in _MINED if k not in mined]:
            when = "" if fewest == most else " at some steps"
            say(f"note: --mined without {' and '.join(map(str, large))}, as B is {fewest}{when}")
            arms = arms_of(mined)
    if most in mined:
        say(f"note: top-{most} is negative sampling, as B is {most}")
    return arms, dataset


def _peers(
    command: Compare, config: ResolvedConfig, display: Display, stop: Callable[[], bool]
) -> list[dict[str, Any]]:
    """Runs each package on the same split; for one that fails, the result has the reason."""
    if not command.peers:
        return []
    from snm.compare.jobs import Running
    from snm.compare.peers.process import PeerOptions, run_peer

    results = []
    for number, name in enumerate(command.peers):
        display("peers", Running(number, len(command.peers), [(name, 0, 0)]))
        path = command.out / "peers" / f"{re.sub('[:/]', '-', name)}.json"
        result = run_peer(
            name,
            command.data,
            path,
            PeerOptions(
                weighting=config.weighting,
                seen=config.seen,
                propensity=(config.propensity_a, config.propensity_b),
            ),
            stop=stop,
        )
        result.pop("asked", None)  # the path of the data is private
        results.append(result)
    display("peers", Running(len(command.peers), len(command.peers), []))
    return results


def _write_figures(out: Path, results: dict[str, Any]) -> None:
    from snm.compare.report.flat import results_csv
    from snm.runs.folder import write_json
    from snm.system.files.atomic import write_atomic

    write_json(out / "results.json", results)
    write_atomic(out / "results.csv", results_csv(results))


def _write_report(out: Path, results: dict[str, Any]) -> Path:
    """Writes the tables and the page; returns the path of the page."""
    from snm.compare.report.html.page import page
    from snm.compare.report.markdown import markdown
    from snm.system.files.atomic import write_atomic

    write_atomic(out / "table.md", markdown(results))
    write_atomic(out / "report.html", page(results))
    return out / "report.html"
