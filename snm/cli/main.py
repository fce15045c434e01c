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
from snm.cli.help_text import unwrapped_help
from snm.cli.optional import optional_types
from snm.cli.parse_errors import error_from_box, wide_terminal
from snm.cli.shown_types import as_declared, fields_with_marks, flatten_settings
from snm.config.settings import Config, preset, read_config
from snm.distributed.launch import leave
from snm.errors import STOPPED, InputError, StoppedError, flag_of
from snm.stores.address import Address, is_hub_address
from snm.stores.marks import Place
from snm.stores.objects import StoreError
from snm.system import timing
from snm.system.faults import (
    OUT_OF_MEMORY,
    STANDARD_OUTPUT,
    describe_error,
    is_disk_full,
    is_out_of_memory,
    naming,
)
from snm.system.files.checks import check_reachable
from snm.system.imports import import_own_modules
from snm.system.signals import sigterm_ends_process_1
from snm.system.streams import discard_output, exit_at_once, print_error
from snm.text import first_line, nearest

__all__ = ["base_settings", "main", "parse", "with_local_copies"]


def main(args: Sequence[str] | None = None) -> None:
    """Runs `snm`, and exits with a status.

    0: done. 2: unusable input. 1: another error (a full disk, a loss that is not finite). 69:
    another process of the run is gone. 75: `train` or `compare` was asked to stop (SIGTERM,
    SIGINT) and wrote checkpoints, or had trained nothing yet (SIGTERM). 128 + the signal's number:
    stopped at once.
    """
    if args is None:
        # Else the collector scans the objects of imports again and again, which takes 0.1 s.
        gc.set_threshold(50_000)
    if sys.stdout is None:
        discard_output()
    words = list(sys.argv[1:] if args is None else args)
    timing.restart(timing.process_started() if args is None else None, "starting")
    with sigterm_ends_process_1():
        status = _run_to_status(words)
        leave(status)
    verb = table.find(words)
    if args is None and (isinstance(status, _ImmediateExit) or (verb and verb.exits_at_once)):
        exit_at_once(status)
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
        known = table.find(words) is not None or words[0] in table.GROUPS
        if not known or {"-h", "--help"}.isdisjoint(words):
            import_own_modules()
        with_local_copies(parse(words))()


# -- parsing ---------------------------------------------------------------------------------


def parse(words: list[str]) -> Any:
    """Parses a command line; calling the result runs the verb.

    Raises:
      InputError: an unknown command or option, where the message names the nearest one; or
        arguments that tyro refuses.
      SystemExit: `--help`.
    """
    verb, settings = table.find(words), base_settings(words)
    stderr = io.StringIO()
    asked_for_help = not {"-h", "--help"}.isdisjoint(words)
    try:
        with (
            contextlib.redirect_stderr(stderr),
            unwrapped_help(),  # always: tyro caches docstrings
            optional_types(),
            contextlib.nullcontext() if asked_for_help else wide_terminal(),
        ):
            command: Any = tyro.cli(
                table.command_type(settings, verb),
                args=words,
                prog="snm",
                description=table.overview(),
            )
    except SystemExit as stop:
        if stop.code:
            _refuse_unknown(words)
            raise error_from_box(stderr.getvalue(), _command_name(words)) from stop
        raise
    takes_settings = verb is not None and verb.takes_settings
    return flatten_settings(command) if takes_settings else as_declared(command)


def with_local_copies(command: Any) -> Any:
    """Copies the folders that the verb reads from stores, and replaces their addresses.

    The marks of the verb's fields, a `Place` of `snm.stores.marks`, say which these are; a `Path`
    without one is a path of this machine.

    Raises:
      InputError: an address where only a local path is allowed, nothing at an address, no run at a
        path, or a path that cannot be reached.
    """
    copies = {}
    for field, _, marks in fields_with_marks(type(command)):
        given = getattr(command, field.name)
        place = next((mark for mark in marks if isinstance(mark, Place)), None)
        if isinstance(given, tuple):
            for value in given:
                _local(command, field.name, value, None)
        elif (local := _local(command, field.name, given, place)) is not given:
            copies[field.name] = local
    return dataclasses.replace(command, **copies)


def _local(command: Any, name: str, value: Any, place: Place | None) -> Any:
    """The value of a field, or the path of the copy if it is the address of a folder.

    Raises:
      InputError: as `with_local_copies`.
    """
    is_path = isinstance(value, Path)
    if not (is_path or place) or (place is Place.RUN and is_hub_address(str(value))):
        return value
    if (address := Address.of(value)) is None:
        if is_path:
            check_reachable(value)
            if place is Place.RUN and not value.exists():  # before its verb says it loads it
                expected = "the folder of a run (`snm train`)"
                raise InputError(str(value), "no such folder", expected)
    elif place in (Place.FOLDER, Place.RUN):
        from snm.stores.copies import local_copy
        from snm.system.terminal import waiting

        with waiting(f"copying {address}"):
            return type(value)(local_copy(value))
    elif place is None:
        where, found = flag_of(name), f"the address {address}"
        if where not in table.options(type(command)):
            where, found = str(address), "an address of a store"
        raise InputError(where, found, "a path of this machine")
    return value


@dataclasses.dataclass
class _BaseOptions:
    preset: str | None = None
    config: Path | None = None


def base_settings(words: Sequence[str]) -> Config:
    """The settings that `--preset` and `--config` select, the defaults of the other options.

    Raises:
      InputError: an unknown preset, or a file that cannot be used.
    """
    verb = table.find(words)
    if verb is None or not verb.takes_settings:
        return Config()
    try:
        base, _ = tyro.cli(
            _BaseOptions,
            args=words,
            return_unknown_args=True,
            add_help=False,
            console_outputs=False,
        )
    except SystemExit:  # an option without a value, which the full parse reports
        return Config()
    start = None if base.preset is None else preset(base.preset)
    if base.config is not None:
        return read_config(base.config, base=start)
    return start or Config()


def _refuse_unknown(words: Sequence[str]) -> None:
    """Refuses a command or an option that does not exist, and names the nearest in one line.

    tyro reports it in a box of several lines, without a suggestion if a required option is missing
    too, such as the misspelt one.
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
            # Without the dashes, which would make all options similar.
            near = nearest(name[2:], (option[2:] for option in known_options), "")
            expected = (
                near.replace("example ", "example --") or f"one of `{_command_name(words)} --help`"
            )
            raise InputError(name, "an unknown option", expected)


def _command_name(words: Sequence[str]) -> str:
    """The known command at the start of a command line, such as `snm data import`."""
    if (verb := table.find(words)) is not None:
        return f"snm {verb.words}"
    return " ".join(["snm", *(word for word in words[:1] if word in table.GROUPS)])


# -- errors ----------------------------------------------------------------------------------


def _is_disk_error(error: BaseException | None) -> bool:
    """Whether a disk is full or failing; then the input may be valid, and a retry may succeed."""
    return isinstance(error, OSError) and (is_disk_full(error) or error.errno == errno.EIO)


class _ImmediateExit(int):
    """A status for `exit_at_once`: threads may wait for others that could not start."""


def _run_to_status(words: list[str]) -> int:
    """Runs a command; an error becomes one line on stderr and an exit status."""
    try:
        _run(words)
        with naming(STANDARD_OUTPUT):
            sys.stdout.flush()
    except InputError as error:
        return _print_error(error.as_flags, 1 if _is_disk_error(error.__cause__) else 2)
    except StoppedError as error:
        return _print_error(f"{error}; the same command goes on from there", STOPPED)
    except KeyboardInterrupt:
        again = verb.again if (verb := table.find(words)) is not None else ""
        return _print_error("interrupted" + (f"; the same command {again}" if again else ""), 130)
    except (ArithmeticError, StoreError) as error:
        return _print_error(str(error), 1)
    except MemoryError as error:
        return _ImmediateExit(
            _print_error(f"out of memory: {error}" if str(error) else "out of memory", 1)
        )
    except BrokenPipeError:
        discard_output()
        return 1
    except OSError as error:  # a full disk, say
        where = "" if error.filename is None else f"{error.filename}: "
        status = _print_error(f"{where}{describe_error(error)}", 1)
        return _ImmediateExit(status) if is_out_of_memory(error) else status
    except Exception as error:
        if is_out_of_memory(error):
            return _ImmediateExit(_print_error(OUT_OF_MEMORY, 1))
        if not isinstance(error, (AssertionError, RuntimeError)):
            raise
        if (message := _no_device_message(error)) is None:
            raise
        return _print_error(message, 2)
    return 0


def _no_device_message(error: BaseException) -> str | None:
    """The message of an error of JAX that it raises if it cannot start; None for other errors."""
    import traceback  # not at the top, so that `snm` starts fast

    *_, (last, _) = traceback.walk_tb(error.__traceback__)
    if not last.f_globals.get("__name__", "").startswith("jax."):
        return None
    from snm.machine.platform import device_error

    if (why := device_error()) is None:
        return None
    platforms = os.environ.get("JAX_PLATFORMS")
    where = "the devices of JAX" if platforms is None else f"JAX_PLATFORMS={platforms}"
    return f"{where}: found {first_line(why)}, expected a platform of this machine, such as cpu"


def _print_error(text: str, status: int) -> int:
    print_error(text)
    return status
