"""The readers on inputs that a fuzzer kept, each of which reached other code, and on edits of them.

`fuzz_corpus.txt` is what `python -m benchmarks.trust.fuzz --keep` wrote: a target and an input a
line.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.trust.fuzz_targets import TARGETS, read_or_refuse, saved_inputs, seeds
from snm.errors import InputError

CORPUS = Path(__file__).with_name("fuzz_corpus.txt")
ROUNDS = 150  # of one input a target
FAILED = {  # inputs that failed once
    "mapped_array": b"\x93NUMPY\x01\x00v\x00"
    + b"{'descr': '<f4', 'fortrfn_order': False, 'shape': (4, 2)}".ljust(85)
    + b"\n".ljust(33)
    + b"\0\0\x80?" * 8,
    "csv": b'x"b",y"x"","\nb",y" ',
    "vectorizer": b'{"format": "snm-vectorizer-1", "kind": "counts", "num_features": 2, "ngrams": '
    b'[1, 1], "strip_accents": false, "vocabulary": ["word2", "word2"], "idf": null, '
    b'"columns": null, "analyzer": "word", "stop_words": [], "token_pattern": null, "lowercase": '
    b'true, "binary": false}',
}


def test_kept_inputs(tmp_path):
    tried = {name: 0 for name in TARGETS}
    for name, raw in (*saved_inputs(CORPUS), *FAILED.items()):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        TARGETS[name](folder, raw)
        tried[name] += 1
    assert min(tried.values()) >= 1 and sum(tried.values()) > 150, tried


def test_a_target_fails_where_a_reader_does(tmp_path):
    def wrong(path):
        raise InputError(str(path), "one line", "one") from None

    assert read_or_refuse(wrong, tmp_path / "x", b"") is None

    def two_lines(path):
        error = InputError(str(path), "a", "b")
        error.args = ("a\nb",)
        raise error

    with pytest.raises(AssertionError, match="more than one line"):
        read_or_refuse(two_lines, tmp_path / "x", b"")
    with pytest.raises(ZeroDivisionError):
        read_or_refuse(lambda path: 1 / 0, tmp_path / "x", b"")


OTHERS = [None, 3, 1e400, "x", "\n\x1b[31m", True, [], [3], [[3, 4]], {}, {"a": 3}, {"a\0": [1, 2]}]


def places(value, place=()):
    """The keys and numbers that lead to each value within a JSON value."""
    yield place
    keys = range(len(value)) if isinstance(value, list) else value
    for key in keys if isinstance(value, dict | list) else ():
        yield from places(value[key], (*place, key))


def with_other(value, place, other):
    if not place:
        return other
    changed = value.copy()
    changed[place[0]] = with_other(value[place[0]], place[1:], other)
    return changed


@pytest.mark.parametrize(
    "name",
    [
        "run_manifest",
        "export_manifest",
        "record",
        "checkpoint",
        "objects",
        "vectorizer",
        "hub_config",
        "mapped_manifest",
    ],
)
def test_values_of_other_types(name, tmp_path):
    """Each value of a JSON file in turn; the checksum that the file carries fits."""
    whole = json.loads(seeds()[name])
    for place in places(whole):
        for other in OTHERS:
            TARGETS[name](tmp_path, json.dumps(with_other(whole, place, other)).encode())


@pytest.mark.slow
def test_edits(tmp_path):
    """Inputs are spliced from two of the kept ones, and bytes of them changed.

    The same ones each time: `python -m benchmarks.trust.fuzz` searches on.
    """
    inputs = {name: [raw] for name, raw in seeds().items()}
    for name, raw in saved_inputs(CORPUS):
        inputs[name].append(raw)
    rng = np.random.default_rng(0)
    for _ in range(ROUNDS):
        for name, raws in inputs.items():
            folder = tmp_path / name
            folder.mkdir(exist_ok=True)
            first, second = (raws[i] for i in rng.integers(len(raws), size=2))
            raw = bytearray(first[: rng.integers(len(first) + 1)])
            raw += second[rng.integers(len(second) + 1) :]
            for place in rng.integers(len(raw), size=rng.integers(4)) if raw else ():
                raw[place] = rng.integers(256)
            try:
                TARGETS[name](folder, bytes(raw))
            except BaseException as error:
                error.add_note(f"{name}: {bytes(raw)!r}")
                raise
