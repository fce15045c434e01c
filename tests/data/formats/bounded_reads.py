"""Reads small files within limits of time and memory."""

import contextlib
import time
import tracemalloc

from snm.errors import InputError

SECONDS = 60.0
MEBIBYTES = 96


@contextlib.contextmanager
def bounded():
    """Asserts limits of time and memory for reading a small file."""
    begun = time.monotonic()
    tracemalloc.start()
    try:
        yield
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert time.monotonic() - begun < SECONDS
    assert peak < MEBIBYTES << 20, f"{peak >> 20} MiB"


def outcome(read, *args, **options):
    """The result of a reader, or its `InputError`; any other exception fails the test."""
    with bounded():
        try:
            return read(*args, **options)
        except InputError as error:
            assert "\n" not in str(error), "more than one line"
            return error
