"""What is tried again, what is not, and what is told meanwhile."""

import threading

import pytest
from flaky_store import FlakyStore

from snm.stores import objects
from snm.stores.address import Address
from snm.stores.objects import Objects, StoreError

PLACE = "flaky://bucket/runs/a"


class HttpError(Exception):
    """As gcsfs has it."""

    def __init__(self, code, text):
        super().__init__(f"{text}, {code}")
        self.code = code


NoCredentialsError = type("NoCredentialsError", (Exception,), {})
ParamValidationError = type("ParamValidationError", (Exception,), {})


@pytest.mark.parametrize(
    "error",
    [
        PermissionError("no access to the bucket"),
        OSError("Forbidden: https://host/b/bucket/o\nhas no storage.objects.list"),  # gcsfs
        HttpError(401, "Anonymous caller does not have storage.objects.list access"),
        NoCredentialsError("Unable to locate credentials"),
        ParamValidationError("Invalid bucket name"),
        FileNotFoundError("The specified bucket does not exist"),
    ],
)
def test_what_stays_wrong_is_printed_at_once(error, flaky, monkeypatch):
    met = []

    def refuse(self, path, value, **_):
        met.append(path)
        raise error

    monkeypatch.setattr(FlakyStore, "pipe_file", refuse)
    with pytest.raises(
        StoreError, match=rf"^{PLACE}/x: gave up after 1 try \({type(error).__name__}"
    ):
        Objects(Address.of(PLACE)).write("x", b"1")
    assert len(met) == 1


@pytest.mark.parametrize(
    "error",
    [
        ConnectionError("reset"),
        HttpError(503, "busy"),
        HttpError(401, "Invalid Credentials"),  # a token ran out
        OSError("Forbidden: https://host/o\nThe rate limit was exceeded"),
        FileNotFoundError("The specified upload does not exist"),  # parts of a large object
    ],
)
def test_what_may_pass_is_tried_again(error, flaky, monkeypatch):
    put, met = FlakyStore.pipe_file, []

    def refuse_once(self, path, value, **_):
        met.append(path)
        if len(met) == 1:
            raise error
        put(self, path, value)

    monkeypatch.setattr(FlakyStore, "pipe_file", refuse_once)
    Objects(Address.of(PLACE)).write("x", b"1")
    assert len(met) == 2 and flaky.content[f"{PLACE}/x"] == b"1"


def test_what_cannot_be_seen_yet_is_looked_for_again(flaky, monkeypatch, tmp_path):
    info, met = FlakyStore.info, []

    def late(self, path, **_):
        met.append(path)
        if len(met) == 1:
            raise FileNotFoundError(path)
        return info(self, path)

    monkeypatch.setattr(FlakyStore, "info", late)
    (tmp_path / "x").write_bytes(b"1")
    Objects(Address.of(PLACE)).send(tmp_path / "x", "x")
    assert len(met) == 2


def test_silence_ends_after_ten_seconds(flaky, monkeypatch, capsys):
    """Pauses of 4 s: nothing at 0 and 4 s; lines at 8 and 20 s, and none in between."""
    now = [100.0]
    monkeypatch.setattr(objects, "monotonic", lambda: now[0])
    monkeypatch.setattr(objects, "_printed_at", [])
    monkeypatch.setattr(objects, "_pause", lambda tried: 4.0)
    place = Objects(Address.of(PLACE))

    def wait(seconds):
        now[0] += seconds

    monkeypatch.setattr(place._ended, "wait", wait)
    flaky.broken = "/x"
    with pytest.raises(StoreError, match="gave up after 8 tries"):
        place.read("x")
    said = capsys.readouterr().err.splitlines()
    error = "ConnectionError: 503 the store is down"
    assert said == [f"snm: {PLACE}/x: trying again ({n} of 8): {error}" for n in (4, 7)]


def test_pauses_double_up_to_the_longest():
    for tried, whole in enumerate((1, 2, 4, 8, 16, 32, 60, 60), 1):
        assert all(whole / 2 <= objects._pause(tried) <= whole for _ in range(20))


def test_ctrl_c_waits_for_no_pause(flaky, monkeypatch):
    """Else a command that copies a run would end minutes after it."""
    monkeypatch.setattr(objects, "_NUM_THREADS", 2)
    monkeypatch.setattr(objects, "_pause", lambda tried: 3600.0)
    place, waits = Objects(Address.of(PLACE)), threading.Event()
    flaky.broken = "/x"
    wait = place._ended.wait

    def told(seconds):
        waits.set()
        wait(seconds)

    monkeypatch.setattr(place._ended, "wait", told)

    def one(name):
        if name == "x":
            place.read(name)
        waits.wait()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        place.run_parallel(one, ["other", "x"])
