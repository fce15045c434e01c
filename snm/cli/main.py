"""Parses a command line, runs its verb, and turns errors into one line and an exit status."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import gc
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tyro

from snm.cli import table
from snm.cli.help_text import flowing_help
from snm.cli.optional import optional_types
from snm.cli.parse_errors import explained, unwrapped
from snm.cli.setting_groups import joined
from snm.config.settings import Config, preset, read_config
from snm.distributed.launch import leave
from snm.errors import STOPPED, InputError, StoppedError, nearest
from snm.serve.aside import busy
from snm.stores.address import Address, cache_address
from snm.stores.objects import StoreError
from snm.system import timing
from snm.system.escapes import plain
from snm.system.faults import NO_ROOM, is_full, lacks_memory, reason_of
from snm.system.files import refuse_unreachable
from snm.system.own_modules import import_own_modules

__all__ = ["base_settings", "main", "on_this_machine", "parse"]


def main(args: Sequence[str] | None = None) -> None:
    """Runs `snm`, and exits with a status.

    0: done. 2: unusable input. 1: another error (a full disk, a loss that is not finite). 69:
    another process of the run is gone. 75: `train` or `compare` was asked to stop (SIGTERM,
    SIGINT) and wrote checkpoints. 128 + the signal's number: stopped at once.
    """
    if args is None:
        # Else the collector looks through what imports make again and again, for 0.1 s of a start.
        gc.set_threshold(50_000)
    words = list(sys.argv[1:] if args is None else args)
    timing.restart(timing.process_started() if args is None else None, "starting")
    status = _guarded(words)
    leave(status)
    if args is None and (isinstance(status, _AtOnce) or busy()):
        with contextlib.suppress(OSError):
            sys.stdout.flush()
        os._exit(status)
    sys.exit(status)


def _run(words: list[str]) -> None:
    if words in (["--version"], ["-V"]):
        from snm.cli.version import version_lines

        print("\n".join(version_lines()))
    elif words in ([], ["--help"], ["-h"]):
        print(table.overview())
        if not words:
            raise SystemExit(2)  # a script that names no command has a fault
    else:
        if {"-h", "--help"}.isdisjoint(words):
            import_own_modules()
        on_this_machine(parse(words))()


# -- parsing ---------------------------------------------------------------------------------


def parse(words: list[str]) -> Any:
    """Parses a command line; calling the result runs the verb.

    Raises:
      InputError: an unknown command or option, where the message names the nearest one; or
        arguments that tyro refuses.
      SystemExit: `--help`.
    """
    settings = base_settings(words)
    said = io.StringIO()
    asked_for_help = not {"-h", "--help"}.isdisjoint(words)
    try:
        with (
            contextlib.redirect_stderr(said),
            flowing_help(),  # always: tyro keeps what it read once
            optional_types(),
            contextlib.nullcontext() if asked_for_help else unwrapped(),
        ):
            command: Any = tyro.cli(
                table.command_type(settings, brief=table.find(words) is None),
                args=words,
                prog="snm",
                description=table.overview(),
            )
    except SystemExit as stop:
        if stop.code:
            _refuse_unknown(words)
            raise explained(said.getvalue(), _command_of(words)) from stop
        raise
    if (verb := table.find(words)) is not None and verb.takes_settings:
        return joined(command, verb.kind)
    return command


_READ = ("run", "index", "path")  # folders that verbs read
_OWN = ("run_dir", "warm_start")  # `snm train` knows what to do with addresses


def on_this_machine(command: Any) -> Any:
    """The verb with local copies in place of addresses in stores, where it reads folders.

    Raises:
      InputError: an address where a path of this machine is wanted, nothing at an address, no
        folder where a run is wanted, or a path that cannot be reached; `$SNM_CACHE` is an address
        that no store has.
    """
    cache_address()  # jax would tell of a kind of store that it does not know when data are read
    copies = {}
    for field in dataclasses.fields(command):
        value = getattr(command, field.name)
        is_path = isinstance(value, Path) or field.name in _READ
        address = Address.of(value) if is_path and not _is_on_hub(field.name, value) else None
        if address is None and isinstance(value, Path):
            refuse_unreachable(value)
        if field.name in _OWN:
            continue
        if address is not None and field.name in _READ:
            from snm.stores.copies import local
            from snm.system.terminal import waiting

            with waiting(f"copying {address}"):
                copies[field.name] = type(value)(local(value))
        elif field.name == "run" and address is None:
            _refuse_nowhere(value)
        elif address is not None and isinstance(value, Path):
            flag = "--" + field.name.replace("_", "-")
            where, found = flag, f"the address {address}"
            if flag not in table.options(type(command)):
                where, found = str(address), "an address of a store"
            raise InputError(where, found, "a path of this machine")
    return dataclasses.replace(command, **copies)


def _is_on_hub(name: str, value: object) -> bool:
    """Whether a field is a run on the Hugging Face Hub, `hf://owner/name`; no other field is."""
    return name == "run" and str(value).startswith("hf:/")


def _refuse_nowhere(run: Path) -> None:
    """Refuses a run that is not there before its verb tells that it loads it."""
    if not _is_on_hub("run", run) and not run.exists():
        raise InputError(str(run), "no such folder", "the folder of a run (`snm train`)")


@dataclasses.dataclass
class _Base:
    preset: str | None = None
    config: Path | None = None


def base_settings(words: Sequence[str]) -> Config:
    """The settings that `--preset` and `--config` select; they are the defaults of all others.

    Raises:
      InputError: an unknown preset, or a file that cannot be used.
    """
    verb = table.find(words)
    if verb is None or not verb.takes_settings:
        return Config()
    try:
        base, _ = tyro.cli(
            _Base, args=words, return_unknown_args=True, add_help=False, console_outputs=False
        )
    except SystemExit:  # an option without a value, which the full parse reports
        return Config()
    start = None if base.preset is None else preset(base.preset)
    if base.config is not None:
        return read_config(base.config, base=start)
    return start or Config()


def _refuse_unknown(words: Sequence[str]) -> None:
    """Refuses a command or an option that does not exist, and names the nearest in one line.

    tyro refuses it first. Its own report is a box of several lines, which suggests nothing where a
    required option is missing too, such as the one that is misspelt.
    """
    verb = table.find(words)
    if verb is None:
        depth = 2 if words and words[0] in table.GROUPS else 1
        given = words[:depth]
        if len(given) == depth and not any(word.startswith("-") for word in given):
            known = dict.fromkeys(" ".join(verb.words.split()[:depth]) for verb in table.VERBS)
            expected = nearest(" ".join(given), known, "a command that `snm --help` lists")
            raise InputError(" ".join(given), "an unknown command", expected)
        return
    known_options = table.options(verb.kind)
    for word in words:
        name = word.partition("=")[0].replace("_", "-")
        if name.startswith("--") and name not in ("--", "--help", *known_options):
            # Without the dashes, which would make any two options alike.
            near = nearest(name[2:], (one[2:] for one in known_options), "")
            expected = (
                near.replace("example ", "example --") or f"one of `{_command_of(words)} --help`"
            )
            raise InputError(name, "an unknown option", expected)


def _command_of(words: Sequence[str]) -> str:
    """The command that a line calls, as far as it is one."""
    if (verb := table.find(words)) is not None:
        return f"snm {verb.words}"
    return " ".join(["snm", *(word for word in words[:1] if word in table.GROUPS)])


# -- errors ----------------------------------------------------------------------------------


_AGAIN = {
    "train": "goes on from the last checkpoint, if there is one",
    "compare": "keeps what is done, and goes on",  # before and after its runs
    "data fetch": "goes on with the download",
}
"""What the same command does after it was interrupted, of the verbs that do not begin again."""


def _of_disk(error: BaseException | None) -> bool:
    """Whether a disk is full or fails. That is no unusable input: the same command may succeed."""
    return isinstance(error, OSError) and (is_full(error) or error.errno == errno.EIO)


class _AtOnce(int):
    """A status to exit with at once: threads may wait for others, which could not start."""


def _guarded(words: list[str]) -> int:
    """Runs a command; an error becomes one line on stderr and an exit status."""
    try:
        _run(words)
        sys.stdout.flush()
    except InputError as error:
        return _said(error.as_flags, 1 if _of_disk(error.__cause__) else 2)
    except StoppedError as error:
        return _said(f"{error}; the same command goes on from there", STOPPED)
    except KeyboardInterrupt:
        verb = table.find(words)
        again = None if verb is None else _AGAIN.get(verb.words)
        return _said("interrupted" + (f"; the same command {again}" if again else ""), 130)
    except (ArithmeticError, StoreError) as error:
        return _said(str(error), 1)
    except MemoryError as error:
        return _AtOnce(_said(f"out of memory: {error}" if str(error) else "out of memory", 1))
    except BrokenPipeError:  # nobody reads on; Python would write what is left at its exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:  # a full disk, say
        where = "" if error.filename is None else f"{error.filename}: "
        status = _said(f"{where}{reason_of(error)}", 1)
        return _AtOnce(status) if lacks_memory(error) else status
    except Exception as error:
        if lacks_memory(error):
            return _AtOnce(_said(NO_ROOM, 1))
        if not isinstance(error, (AssertionError, RuntimeError)):
            raise
        if (said := _without_device(error)) is None:
            raise
        return _said(said, 2)
    return 0


def _without_device(error: BaseException) -> str | None:
    """What to say of an error of JAX where it cannot start; None of other errors."""
    import traceback  # here: a start needs none

    *_, (last, _) = traceback.walk_tb(error.__traceback__)
    if not last.f_globals.get("__name__", "").startswith("jax."):
        return None
    from snm.machine.platform import why_no_device

    if (why := why_no_device()) is None:
        return None
    asked = os.environ.get("JAX_PLATFORMS")
    where = "the devices of JAX" if asked is None else f"JAX_PLATFORMS={asked}"
    return f"{where}: found {why}, expected a platform of this machine, such as cpu"


def _said(text: str, status: int) -> int:
    line = plain(text).replace("\n", r"\n")  # names of files may hold any character
    print(f"snm: error: {line}", file=sys.stderr)
    return status
