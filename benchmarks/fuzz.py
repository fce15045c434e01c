"""Fuzzes the file readers with coverage guidance; run by hand (results: `tests/README.md`).

Install atheris, which is not a dependency of the project, and choose one of the targets below:

    PYTHONPATH=tests:tests/data/formats python -m benchmarks.fuzz text -max_total_time=300

Each input must either be refused with an error of one line or be read correctly, within 10 seconds
and 2 GiB of memory. Otherwise the fuzzer stops and saves the input.
"""

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(
    include=["snm.data", "snm.config.settings", "snm.runs.folder", "snm.checkpoints.store"]
):
    import test_fuzz as checks

    from snm.checkpoints.store import Checkpoints, DamagedError
    from snm.config.settings import Config, read_config, write_config
    from snm.data.formats import dispatch as formats
    from snm.data.weighting import Weighting
    from snm.errors import InputError
    from snm.runs.folder import read_json

PLACE = Path(tempfile.mkdtemp(prefix="snm-fuzz-"))


def refused(read, path, raw, *sizes):
    """Reads some bytes; returns None if the reader refuses them with an `InputError`."""
    path.write_bytes(raw)
    try:
        return read(path, *sizes)
    except InputError as error:
        assert "\n" not in str(error)
        return None


def text(raw):
    found = refused(formats.read_text, PLACE / "train.txt", raw)
    if found is not None:
        for matrix in found:
            checks.check_matrix(matrix)
        checks.reread_text(raw, *found)


def npz(raw):
    found = refused(formats.read_npz, PLACE / "X.trn.npz", raw)
    if found is not None:
        checks.check_matrix(found)


def npy(raw):
    found = refused(formats.read_npy, PLACE / "X.trn.npy", raw)
    if found is not None:
        checks.check_matrix(found)


def names(raw):
    found = refused(formats.read_names, PLACE / "labels.txt", raw, 20)
    assert found is None or len(found) == 20


def filters(raw):
    found = refused(formats.read_filter, PLACE / "filter.txt", raw, 30, 20)
    assert found is None or (found.min(initial=0) >= 0 and (found < [30, 20]).all())


def config(raw):
    path = PLACE / "config.toml"
    found = refused(read_config, path, raw)
    if found is not None:
        assert isinstance(found, Config)
        write_config(path, found)
        assert read_config(path) == found


def facts(raw):
    refused(read_json, PLACE / "run.json", raw)


def weighting(raw):
    refused(Weighting.load, PLACE / "weighting.npz", raw)


def manifest(raw):
    folder = PLACE / "checkpoints" / "4"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "manifest.json").write_bytes(raw)
    try:
        Checkpoints(folder.parent).read(4)
    except DamagedError as error:
        assert "\n" not in str(error)


def seeds():
    """Valid files, from which the fuzzer starts."""
    matrix = checks.csr(12, 30, False)
    write_config(PLACE / "seed.toml", checks.tiny.CONFIG)
    return {
        "text": checks.text_file(),
        "npz": checks.npz_file(matrix, False),
        "npy": checks.npy_file(),
        "names": b"".join(b"name %d\n" % label for label in range(20)),
        "filters": b"".join(b"%d %d\n" % (row, row % 20) for row in range(30)),
        "config": (PLACE / "seed.toml").read_bytes(),
        "facts": b'{"data": "x", "num_labels": 20}',
        "weighting": b"PK\x03\x04",
        "manifest": b'{"progress": {}, "score": null, "about": {}, "files": {}, "crc": 1}',
    }


TARGETS = {run.__name__: run for run in
           (text, npz, npy, names, filters, config, facts, weighting, manifest)}  # fmt: skip

if __name__ == "__main__":
    name, *options = sys.argv[1:]
    corpus = PLACE / "corpus"
    corpus.mkdir()
    (corpus / "seed").write_bytes(seeds()[name])
    limits = ["-timeout=10", "-rss_limit_mb=2048", "-max_len=4096"]
    atheris.Setup([sys.argv[0], str(corpus), *limits, *options], TARGETS[name])
    atheris.Fuzz()
