"""The command line: one function a verb. jax is imported inside the verbs, so `--help` is fast."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import io
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from tyro.conf import OmitArgPrefixes, OmitSubcommandPrefixes, Positional, arg, subcommand

from snm.bench.command import Bench
from snm.bounds.command import Bounds
from snm.compare.command import Compare
from snm.config import Config, preset, read_config
from snm.datasets.command import Fetch, List
from snm.doctor.command import Doctor
from snm.errors import InputError, StoppedError
from snm.export.command import Export
from snm.growing.command import Grow
from snm.importing.command import Import
from snm.peers import Meeting, joined, leave
from snm.serving.command import Serve

__all__ = ["STOPPED", "main"]

STOPPED = 75
"""Exit status after a checkpoint was taken on request: EX_TEMPFAIL of sysexits.h, try again."""


@dataclasses.dataclass
class Stats:
    """Print what a data set holds: the columns of the paper's Table 1, and more.

    For example:

      snm data stats path/to/eurlex
    """

    data: Annotated[Positional[str], arg(metavar="DATA")]
    """Folder of the data set, or `synthetic`."""
    json: bool = False
    """Print one JSON object."""

    def __call__(self) -> None:
        from snm.verbs import print_stats

        print_stats(self.data, as_json=self.json)


@dataclasses.dataclass
class Synth:
    """Write a data set made up to look like real ones, of any size.

    For example:

      snm data synth /data/made-up --points 100000 --features 50000 --labels 20000
    """

    out: Annotated[Positional[Path], arg(metavar="OUT")]
    """Folder to write train.txt and test.txt to; must not exist."""
    points: int = 8000
    """Training points."""
    test_points: int = 2000
    """Test points."""
    features: int = 8000
    """Features."""
    labels: int = 4000
    """Labels."""
    labels_per_point: float = 9.3
    """Mean labels a point."""
    nonzeros_per_point: float = 18.9
    """Mean words a point."""
    seed: int = 0
    """The same seed gives the same data."""

    def __call__(self) -> None:
        from snm.verbs import write_synthetic

        write_synthetic(
            self.out,
            points=self.points,
            test_points=self.test_points,
            features=self.features,
            labels=self.labels,
            labels_per_point=self.labels_per_point,
            nonzeros_per_point=self.nonzeros_per_point,
            seed=self.seed,
        )


@dataclasses.dataclass
class Data:
    """Describe data, fetch it by name, bring it in, or make it up."""

    command: OmitSubcommandPrefixes[
        Annotated[Stats, subcommand("stats")]
        | Annotated[Synth, subcommand("synth")]
        | Annotated[Import, subcommand("import")]
        | Annotated[List, subcommand("list")]
        | Annotated[Fetch, subcommand("fetch")]
    ]

    def __call__(self) -> None:
        self.command()


# What the flags of `train` start from: the preset and the TOML file that are named among them.
_base: list[Config] = [Config()]


@dataclasses.dataclass
class Train:
    """Train a model, evaluate it on the test points, and keep both in a folder.

    The same command again goes on where the last one stopped. SIGTERM or Ctrl-C finishes the step,
    takes a checkpoint and exits with status 75; a second one stops at once. Settings come from the
    preset, then from the TOML file, then from the flags.

    For example:

      snm train path/to/eurlex --run-dir runs/eurlex
      snm train synthetic --run-dir runs/ns --preset paper --mined all
      snm train path/to/eurlex --run-dir runs/stop --validation-fraction 0.1 --patience 3
      srun snm train path/to/amazon3m --run-dir runs/big --mesh data=2,label=8
    """

    data: Annotated[Positional[str], arg(metavar="DATA")]
    """Folder of the data set, or `synthetic`."""
    run_dir: Path
    """Folder of the run; one with other settings or data is refused."""
    config: Path | None = None
    """TOML file with settings, such as the config.toml of a run."""
    warm_start: Path | None = None
    """Run whose parameters this one starts from."""
    dry_run: bool = False
    """Print the resolved settings and sizes, and train nothing."""
    profile: bool = False
    """Write a profiler trace of a few steps to the run's folder."""
    device_memory: str | None = None
    """Refuse a run that needs more, such as 80GiB; by default what the device reports."""
    coordinator: str | None = None
    """HOST:PORT of process 0, where the processes of one run meet; not needed under SLURM, Open MPI
    and GKE, which tell."""
    num_processes: int | None = None
    """How many they are; 1 trains alone, whatever a launcher says."""
    process_id: int | None = None
    """Which of them this is, from 0."""
    peer_timeout: int = 30
    """Seconds without a word from another process after which all end."""
    settings: OmitArgPrefixes[Config] = dataclasses.field(default_factory=lambda: _base[0])
    """Settings of the run."""

    def __call__(self) -> None:
        from snm.verbs import run_training

        use_compilation_cache()
        meeting = Meeting(self.coordinator, self.num_processes, self.process_id, self.peer_timeout)
        with joined(meeting):
            run_training(
                self.data,
                self.settings,
                self.run_dir,
                warm_start=self.warm_start,
                dry_run=self.dry_run,
                profile=self.profile,
                device_memory=self.device_memory,
            )


@dataclasses.dataclass
class Plan:
    """Predict what a run will need: bytes by part and stage, and the time of an epoch.

    Takes the options of `snm train`. The programs are compiled, and a few steps are timed where
    the run fits this machine; nothing is written.

    For example:

      snm plan path/to/eurlex
      snm plan path/to/amazon3m --preset paper --device-memory 80GiB
    """

    data: Annotated[Positional[str], arg(metavar="DATA")]
    """Folder of the data set, or `synthetic`."""
    device_memory: str | None = None
    """What there is, such as 80GiB; by default what the device reports."""
    json: bool = False
    """Print one JSON object, in bytes and seconds."""
    config: Path | None = None
    """TOML file with settings, such as the config.toml of a run."""
    settings: OmitArgPrefixes[Config] = dataclasses.field(default_factory=lambda: _base[0])
    """Settings of the run."""

    def __call__(self) -> None:
        from snm.plan_verb import run_plan

        use_compilation_cache()
        run_plan(self.data, self.settings, self.device_memory, as_json=self.json)


@dataclasses.dataclass
class Evaluate:
    """Evaluate a trained model on test points, exactly, over all labels.

    For example:

      snm evaluate runs/eurlex
      snm evaluate runs/eurlex --data path/to/another-split --json
      snm evaluate runs/eurlex --auc
      snm evaluate runs/eurlex --index out/index
    """

    run: Annotated[Positional[Path], arg(metavar="RUN")]
    """Folder of a run."""
    data: str | None = None
    """Data set with test points; by default the one of the run."""
    json: bool = False
    """Print one JSON object."""
    index: Path | None = None
    """Index of `snm export`, evaluated beside the exact search over all labels."""
    auc: bool = False
    """Also the AUC, relevant labels against all others; it takes three times as long."""

    def __call__(self) -> None:
        from snm.verbs import run_evaluation

        use_compilation_cache()
        run_evaluation(self.run, self.data, as_json=self.json, index=self.index, auc=self.auc)


@dataclasses.dataclass
class Predict:
    """Write the best labels of each point of a file, streaming.

    For example:

      snm predict runs/eurlex new.txt --k 5 --output answers.jsonl
      snm predict runs/eurlex X.tst.npz --output answers.txt --format sparse
      snm predict runs/articles new.jsonl --output answers.jsonl
    """

    run: Annotated[Positional[Path], arg(metavar="RUN")]
    """Folder of a run."""
    input: Annotated[Positional[Path], arg(metavar="INPUT")]
    """Features: text with or without labels (also .gz), SciPy .npz, or dense .npy."""
    output: Path
    """File to write."""
    k: int = 5
    """Labels a point."""
    format: Literal["jsonl", "sparse"] = "jsonl"
    """JSON lines with names and scores, or the repository's `label:score` rows."""
    texts: bool = False
    """INPUT is a text a line (JSON lines with "text" need no flag); of a run on `data import`."""

    def __call__(self) -> None:
        from snm.verbs import run_prediction

        use_compilation_cache()
        run_prediction(
            self.run, self.input, self.output, k=self.k, form=self.format, texts=self.texts
        )


Command = (
    Annotated[Data, subcommand("data")]
    | Annotated[Train, subcommand("train")]
    | Annotated[Plan, subcommand("plan")]
    | Annotated[Evaluate, subcommand("evaluate")]
    | Annotated[Predict, subcommand("predict")]
    | Annotated[Compare, subcommand("compare")]
    | Annotated[Bench, subcommand("bench")]
    | Annotated[Doctor, subcommand("doctor")]
    | Annotated[Bounds, subcommand("bounds")]
    | Annotated[Export, subcommand("export")]
    | Annotated[Grow, subcommand("grow")]
    | Annotated[Serve, subcommand("serve")]
)

_DESCRIPTION = """Extreme classification in JAX with Stochastic Negative Mining.

  snm data stats DATA              what a data set holds
  snm data list | fetch NAME       public data sets by name
  snm data import FILE --out DATA  texts and labels into a data set
  snm train DATA --run-dir RUN     train and evaluate
  snm plan DATA                    what a run will need: memory, time
  snm evaluate RUN                 evaluate again, or on other data
  snm predict RUN INPUT --output FILE
  snm grow RUN --labels FILE --output RUN
  snm serve RUN                    answer over HTTP, with a page to try it
  snm export RUN --to FORMAT --output DIR
  snm compare DATA --out DIR       SNM against negative sampling, with a report
  snm bench [PART ...]             each part against the machine's limits and against peers
  snm doctor DATA|RUN              what is wrong with it, and what to do about it
  snm bounds RUN                   what generalization bounds say of a run, term by term

DATA is a folder with train.txt and test.txt (or another layout, see README), the name of a
fetched set, or `synthetic`.
"""


def main(args: Sequence[str] | None = None) -> None:
    """Runs `snm`, and exits with a status.

    0: done. 2: input that cannot be used. 1: another error (a full disk, a loss that is not
    finite). 69: another process of the run is gone. 75: `train` was asked to stop (SIGTERM,
    SIGINT) and took a checkpoint. 128 + the signal's number: stopped at once.
    """
    words = list(sys.argv[1:] if args is None else args)
    if words in (["--version"], ["-V"]):
        import snm

        print(f"snm {snm.__version__}")
        return
    status = _guarded(lambda: _run(words))
    leave(status)
    sys.exit(status)


def _run(words: list[str]) -> None:
    _base[0] = _settings_base(words)
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            command: Any = tyro.cli(
                OmitSubcommandPrefixes[Command],  # type: ignore[misc]
                args=words,
                prog="snm",
                description=_DESCRIPTION,
            )
    except SystemExit:
        _refuse_unknown(words)
        print(said.getvalue(), end="", file=sys.stderr)  # anything else tyro says best itself
        raise
    command()


def _refuse_unknown(words: Sequence[str]) -> None:
    """Names the nearest to a command or an option that does not exist, in one line."""
    if words and not words[0].startswith("-") and words[0] not in {verb for verb, *_ in _FLAGS}:
        raise _unknown(words[0], "command", [verb for verb, *_ in _FLAGS])
    for verb, kinds in _FLAGS.items():
        known = [flag for kind in kinds for flag in _flags(kind)]
        given = [word.partition("=")[0].replace("_", "-") for word in words if word[:2] == "--"]
        unknown = [flag for flag in given if flag not in ["--help", *known]]
        if unknown and tuple(words[: len(verb)]) == verb:
            raise _unknown(unknown[0], "option", known)


_FLAGS: dict[tuple[str, ...], tuple[type, ...]] = {
    ("data", "stats"): (Stats,),
    ("data", "synth"): (Synth,),
    ("data", "import"): (Import,),
    ("data", "list"): (List,),
    ("data", "fetch"): (Fetch,),
    ("train",): (Train, Config),
    ("plan",): (Plan, Config),
    ("evaluate",): (Evaluate,),
    ("predict",): (Predict,),
    ("compare",): (Compare,),
    ("bench",): (Bench,),
    ("doctor",): (Doctor,),
    ("bounds",): (Bounds,),
    ("export",): (Export,),
    ("grow",): (Grow,),
    ("serve",): (Serve,),
}


def _flags(kind: Any) -> list[str]:
    """The options that the fields of a class become; a switch has two."""
    names = [field.name.replace("_", "-") for field in dataclasses.fields(kind)]
    switches = [name for name in names if getattr(kind, name.replace("-", "_"), None) is False]
    return [f"--{name}" for name in names] + [f"--no-{name}" for name in switches]


def _unknown(word: str, noun: str, known: Sequence[str]) -> InputError:
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.0)[0]
    return InputError(word, f"an unknown {noun}", f"for example {near}")


def _guarded(run: Callable[[], None]) -> int:
    """Runs a verb; its errors become one line and an exit status."""
    try:
        run()
    except InputError as error:
        return _said(str(error), 2)
    except StoppedError as error:
        return _said(f"{error}; the same command goes on from there", STOPPED)
    except KeyboardInterrupt:
        return _said("interrupted; the same command goes on from the last checkpoint", 130)
    except ArithmeticError as error:
        return _said(str(error), 1)
    except BrokenPipeError:
        return 1
    except OSError as error:  # a full disk, say
        if error.filename is None or error.strerror is None:
            return _said(str(error), 1)
        return _said(f"{error.filename}: {error.strerror.lower()}", 1)
    return 0


def _said(text: str, status: int) -> int:
    print(f"snm: error: {text}", file=sys.stderr)
    return status


def _settings_base(words: Sequence[str]) -> Config:
    """Preset and TOML file of the command line, before its other flags are read."""
    if not words or words[0] not in ("train", "plan"):
        return Config()
    named = _value(words, "--preset")
    file = _value(words, "--config")
    if file is None:
        return preset(named) if named is not None else Config()
    return read_config(file, base=None if named is None else preset(named))


def _value(words: Sequence[str], flag: str) -> str | None:
    """The word after a flag, or behind its `=`; the last one counts."""
    found = None
    for word, following in zip(words, [*words[1:], None], strict=True):
        if word == flag:
            found = following
        elif word.startswith(f"{flag}="):
            found = word[len(flag) + 1 :]
    return found


def use_compilation_cache() -> None:
    """Compiled programs are kept beside the parsed data: the second start is quick."""
    import jax

    from snm.data.cache import folder

    place = folder("default")
    if place is not None:
        jax.config.update("jax_compilation_cache_dir", str(place / "compiled"))
