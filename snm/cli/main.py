"""The command line: one function a verb. jax is imported inside the verbs, so `--help` is fast."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import io
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import tyro
from tyro.conf import OmitSubcommandPrefixes, subcommand

from snm.bench.command import Bench
from snm.bounds.command import Bounds
from snm.cli.commands import Data, Evaluate, Plan, Predict, Stats, Synth, Train, base
from snm.cli.data_fetch_command import Fetch, List
from snm.cli.data_import_command import Import
from snm.compare.command import Compare
from snm.config.settings import Config, preset, read_config
from snm.distributed.launch import leave
from snm.doctor.command import Doctor
from snm.errors import InputError, StoppedError
from snm.export.command import Export
from snm.grow.command import Grow
from snm.serve.command import Serve

__all__ = ["STOPPED", "main", "parse"]

STOPPED = 75
"""Exit status after a checkpoint was taken on request: EX_TEMPFAIL of sysexits.h, try again."""


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
        from snm.cli.version import version_lines

        print("\n".join(version_lines()))
        return
    status = _guarded(lambda: _run(words))
    leave(status)
    sys.exit(status)


def _run(words: list[str]) -> None:
    parse(words)()


def parse(words: list[str]) -> Any:
    """What a command line asks for, to be called; nothing is done yet.

    Raises:
      InputError: an unknown command or option; the nearest is named.
      SystemExit: `--help`, or words that do not fit.
    """
    base[0] = _settings_base(words)
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
    return command


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
