"""The interpreter that has the package of a peer: this one, or one of its own."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from snm.compare.processes import run_tied
from snm.text import pip_install

__all__ = ["THIS_INTERPRETER", "OtherInterpreter", "ThisInterpreter"]


@dataclass(frozen=True)
class ThisInterpreter:
    """This interpreter; `package` is the name of a module, which is not imported."""

    def missing(self, package: str) -> tuple[str, str] | None:
        """What was found instead of the package, and how to install it; None if it is there."""
        # To look for `a.b` imports `a`, which may not be there either.
        with contextlib.suppress(ModuleNotFoundError):
            if importlib.util.find_spec(package) is not None:
                return None
        return f"the package {package}, which is not installed", pip_install("peers")

    def version(self, package: str) -> tuple[str, str | None]:
        """The name of the installed distribution and its version, None if it has none."""
        name = metadata.packages_distributions().get(package, [package])[0]
        try:
            return name, metadata.version(name)
        except metadata.PackageNotFoundError:
            return name, None


THIS_INTERPRETER = ThisInterpreter()


@dataclass(frozen=True)
class OtherInterpreter:
    """An interpreter that the user names, for a package whose requirements exclude snm's.

    `package` is the name of a distribution.

    Attributes:
      variable: environment variable with the path of the interpreter.
    """

    variable: str

    def missing(self, package: str) -> tuple[str, str] | None:
        """See `ThisInterpreter`."""
        how = (
            f"the Python of a venv with it: python3.11 -m venv VENV; VENV/bin/pip install "
            f"{package}; export {self.variable}=VENV/bin/python"
        )
        if not (python := os.environ.get(self.variable)):
            return f"the package {package}, which is not installed, and no {self.variable}", how
        if shutil.which(python) is None:
            return f"{self.variable} that names no program", how
        if self.version(package)[1] is None:
            return (
                f"the package {package}, which is not installed in the Python of {self.variable}",
                how,
            )
        return None

    def version(self, package: str) -> tuple[str, str | None]:
        """See `ThisInterpreter`."""
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
