"""What errors become on the command line: one line and an exit status."""

import subprocess
import sys

from command_line import call

from snm.checkpoints.disk_errors import REASONS
from snm.checkpoints.store import Checkpoints
from snm.cli import main


def test_a_path_in_an_error_keeps_its_case(tmp_path, monkeypatch, capsys):
    error = Checkpoints(tmp_path / "Runs").failure(8, REASONS[0])

    def full(words):
        raise error

    monkeypatch.setattr(main, "_run", full)
    call("train", status=1)
    assert f"{tmp_path}/Runs/8: no space left on device; the" in capsys.readouterr().err


def _main_in_a_process(body, verb):
    """A verb that starts a thread which never ends, and then does what the lines of `body` say."""
    code = (
        "import threading\n"
        "from snm.cli import main\n"
        "def run(words):\n"
        "    threading.Thread(target=threading.Event().wait).start()\n"
        f"{body}"
        "main._run = run\n"
        "main.main()\n"
    )
    return subprocess.run(
        [sys.executable, "-c", code, verb], capture_output=True, text=True, timeout=60
    )


def test_a_lack_of_threads_is_one_line_and_holds_up_no_exit():
    """Also where a thread waits for one that could not start."""
    body = (
        '    try: raise RuntimeError("can\'t start new thread")\n'
        "    except RuntimeError as error: raise KeyError('a handler') from error\n"
    )
    done = _main_in_a_process(body, "train")
    assert done.returncode == 1
    said = "snm: error: out of memory or of threads: see `ulimit -v` and `ulimit -u`\n"
    assert done.stderr == said


def test_a_server_that_ended_waits_for_no_thread():
    """The shutdown of the interpreter would wait for this one, and seconds for JAX."""
    body = "    print('served', end='')\n"
    done = _main_in_a_process(body, "serve")
    assert (done.returncode, done.stdout, done.stderr) == (0, "served", "")
