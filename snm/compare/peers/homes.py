"""Where the package of a peer is installed: in this interpreter, or in one of its own."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Protocol

from snm.compare.processes import failure_reason, spawn_tied
from snm.errors import StoppedError, pip_install

__all__ = ["HERE", "Elsewhere", "Here", "Home", "run_tied"]

_POLL_SECONDS = 0.25


class Home(Protocol):
    """Where a package is installed."""

    def missing(self, package: str) -> tuple[str, str] | None:
        """What was found instead of the package, and how to install it; None if it is there."""

    def version(self, package: str) -> tuple[str, str | None]:
        """The name of the installed distribution and its version, None if it has none."""


@dataclass(frozen=True)
class Here:
    """This interpreter; `package` is the name of a module, which is not imported."""

    def missing(self, package: str) -> tuple[str, str] | None:
        """See `Home`."""
        # To look for `a.b` imports `a`, which may not be there either.
        with contextlib.suppress(ModuleNotFoundError):
            if importlib.util.find_spec(package) is not None:
                return None
        return f"the package {package} not installed", pip_install("peers")

    def version(self, package: str) -> tuple[str, str | None]:
        """See `Home`."""
        name = metadata.packages_distributions().get(package, [package])[0]
        try:
            return name, metadata.version(name)
        except metadata.PackageNotFoundError:
            return name, None


HERE = Here()


@dataclass(frozen=True)
class Elsewhere:
    """An interpreter that the user names, for a package whose requirements exclude snm's.

    `package` is the name of a distribution.

    Attributes:
      variable: environment variable with the path of the interpreter.
    """

    variable: str

    def missing(self, package: str) -> tuple[str, str] | None:
        """See `Home`."""
        how = (
            f"the Python of a venv with it: python3.11 -m venv VENV; VENV/bin/pip install "
            f"{package}; export {self.variable}=VENV/bin/python"
        )
        if not (python := os.environ.get(self.variable)):
            return f"the package {package} not installed and no {self.variable}", how
        if shutil.which(python) is None:
            return f"{self.variable} that names no program", how
        if self.version(package)[1] is None:
            return f"the package {package} not installed in the Python of {self.variable}", how
        return None

    def version(self, package: str) -> tuple[str, str | None]:
        """See `Home`."""
        code = "import sys; from importlib import metadata; print(metadata.version(sys.argv[1]))"
        try:
            asked = subprocess.run(self._command("-c", code, package), capture_output=True)
        except OSError:  # of a file that is no program
            return package, None
        return package, None if asked.returncode else asked.stdout.decode().strip()

    def run(self, script: Path, words: Sequence[str], errors: Path) -> None:
        """Runs a script with the interpreter.

        Args:
          script: file of the script, which should end when its standard input does.
          words: its arguments.
          errors: file for its standard error.

        Raises:
          RuntimeError: the script failed; with the reason in one line.
        """
        reason = run_tied(self._command(str(script), *words), errors)
        if reason is not None:
            raise RuntimeError(f"in the Python of {self.variable}: {reason}")

    def _command(self, *words: str) -> list[str]:
        # -I: neither PYTHONPATH nor our modules beside the script are for that interpreter.
        return [os.environ[self.variable], "-I", *words]


def run_tied(
    command: Sequence[str],
    errors: Path,
    stop: Callable[[], bool] = lambda: False,
    **environment: str,
) -> str | None:
    """Runs a program to its end.

    Args:
      command: as in `spawn_tied`.
      errors: file for its standard error, which is removed.
      stop: asked several times a second whether to kill the program, with those it started; and
        asked once more if it fails.
      **environment: variables to set for it.

    Returns:
      None if its exit status is 0, else the reason in one line: the last one of its errors.

    Raises:
      StoppedError: `stop` returned True.
    """
    try:
        with spawn_tied(command, errors, **environment) as process:
            try:
                status = _status(process, stop)
            except BaseException:
                with contextlib.suppress(ProcessLookupError, PermissionError):  # it has ended
                    os.killpg(process.pid, signal.SIGKILL)
                raise
        return failure_reason(errors, status) if status else None
    finally:
        errors.unlink(missing_ok=True)


def _status(process: subprocess.Popen[bytes], stop: Callable[[], bool]) -> int:
    """The exit status of a process, unless `stop` says so before, or when it failed."""
    while True:
        status = None
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = process.wait(_POLL_SECONDS)
        if status == 0:
            return 0
        # First: what stops this process may have ended that one too.
        if stop():
            raise StoppedError(kept="all runs finished, and peers so far")
        if status is not None:
            return status
