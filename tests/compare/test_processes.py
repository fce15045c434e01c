import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from snm.compare.processes import run_tied
from snm.errors import StoppedError


def test_a_tied_program_hears_the_end_of_this_process(tmp_path: Path) -> None:
    # A process that starts a tied program, which waits for its standard input, and then dies.
    begun, heard = tmp_path / "begun", tmp_path / "heard"
    waits = f"""
import os
open({str(begun)!r}, "w").close()
os.read(0, 1)
open({str(heard)!r}, "w").close()
"""
    code = f"""
import os, pathlib, sys, threading, time
from snm.compare.processes import run_tied
given = [sys.executable, "-c", {waits!r}], pathlib.Path({str(tmp_path / "errors")!r})
threading.Thread(target=run_tied, args=given).start()
while not os.path.exists({str(begun)!r}):
    time.sleep(0.1)
os._exit(0)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    _wait_until(heard.exists)


def _wait_until(fits: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not fits():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_what_a_tied_program_started_ends_with_this_process(tmp_path: Path) -> None:
    child = tmp_path / "child"
    starts = f"""
import pathlib, subprocess
from snm.compare.processes import end_with_parent
end_with_parent()
child = subprocess.Popen(["sleep", "600"])
pathlib.Path({str(tmp_path / "new")!r}).write_text(str(child.pid))
pathlib.Path({str(tmp_path / "new")!r}).rename({str(child)!r})
child.wait()
"""
    code = f"""
import os, pathlib, threading, time
from snm.compare.processes import run_tied
given = [{sys.executable!r}, "-c", {starts!r}], pathlib.Path({str(tmp_path / "errors")!r})
threading.Thread(target=run_tied, args=given).start()
while not os.path.exists({str(child)!r}):
    time.sleep(0.1)
os._exit(0)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    _wait_until(lambda: _has_ended(int(child.read_text())))


def _has_ended(process: int) -> bool:
    try:
        # A zombie until its new parent looks.
        return Path(f"/proc/{process}/stat").read_text().split()[2] == "Z"
    except OSError:
        return True


def test_a_program_that_hears_first_what_stops_this_process(tmp_path: Path) -> None:
    """Where both get a signal, this process may look at it a moment after the other has ended."""
    asked: list[bool] = []

    def stop() -> bool:
        asked.append(True)
        return len(asked) > 9

    with pytest.raises(StoppedError):
        run_tied(["sh", "-c", "kill -TERM $$"], tmp_path / "errors", stop)
    del asked[:]
    assert run_tied(["sh", "-c", "exit 5"], tmp_path / "errors", stop) == "exit status 5"
    heard = run_tied(["sh", "-c", "kill -TERM $$"], tmp_path / "errors", lambda: False)
    assert heard == "ended by SIGTERM"


def test_environment_of_a_tied_program(tmp_path: Path) -> None:
    code = "import os, sys; sys.exit(os.environ['TMPDIR'] != 'here')"
    assert run_tied([sys.executable, "-c", code], tmp_path / "errors", TMPDIR="here") is None
    assert run_tied([sys.executable, "-c", code], tmp_path / "errors", TMPDIR="x") == (
        "exit status 1"
    )


def test_a_program_that_is_to_stop_is_killed(tmp_path: Path) -> None:
    begun = time.monotonic()
    with pytest.raises(StoppedError, match="as asked, with all runs finished"):
        run_tied(["sleep", "60"], tmp_path / "errors", lambda: True)
    assert time.monotonic() - begun < 30 and not list(tmp_path.iterdir())


@pytest.mark.parametrize("whom", ["process", "group"])
def test_what_stops_this_process_is_no_failure_of_a_program(tmp_path: Path, whom: str) -> None:
    """Ctrl-C and `timeout` signal the group, and `systemctl stop` every process."""
    child = tmp_path / "child"
    if whom == "group":
        told_id = "echo $! > new; mv new child"  # the file appears whole
        command = ["sh", "-c", f"cd {tmp_path}; sleep 600 & {told_id}; wait"]
        told = "os.killpg(0, signal.SIGINT); time.sleep(1)"
    else:
        command = ["sh", "-c", "kill -TERM $$"]
        told = "os.kill(os.getpid(), signal.SIGTERM)"
    code = f"""
import os, pathlib, signal, threading, time
from snm.compare.processes import run_tied
from snm.errors import StoppedError
from snm.system.signals import stop_requested

def tell():
    while {whom == "group"} and not os.path.exists({str(child)!r}):
        time.sleep(0.05)
    {told}

with stop_requested(lambda _: None, lambda: None) as stop:
    if {whom == "process"}:
        tell()
    else:
        threading.Thread(target=tell).start()
    try:
        print(run_tied({command!r}, pathlib.Path({str(tmp_path / "errors")!r}), stop))
    except StoppedError:
        print("stopped")
"""
    asked = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, start_new_session=True
    )
    assert asked.stdout == "stopped\n", asked.stderr
    if whom == "group":
        _wait_until(lambda: _has_ended(int(child.read_text())))
