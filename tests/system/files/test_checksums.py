"""Records of files: what is listed, how a difference is told, and what is no record."""

import hashlib
import zlib

import pytest

from snm.system.files.checksums import are_records, crc32, difference, file_hash, fingerprints

CONTENT = {"a": b"one", "below/b": b"", "below/manifest.json.txt": b"three"}


@pytest.fixture
def folder(tmp_path):
    for name, raw in CONTENT.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(raw)
    (tmp_path / "manifest.json").write_text("{}")
    return tmp_path


def test_every_file_but_the_manifest_has_a_record(folder):
    records = {name: [len(raw), zlib.crc32(raw)] for name, raw in CONTENT.items()}
    assert fingerprints(folder, "manifest.json") == records
    assert are_records(records) and not are_records(records, str)


def test_what_is_not_mine_is_taken_from_the_records(folder):
    recorded = {"a": [9, 9], "below/b": [8, 8]}
    found = fingerprints(folder, "manifest.json", recorded, lambda number: number == 1)
    assert found == {"a": [9, 9], "below/b": [0, 0], "below/manifest.json.txt": []}


def test_a_part_of_a_file_has_a_checksum_too(folder):
    assert crc32(folder / "a") == zlib.crc32(b"one")
    assert crc32(folder / "a", last=2) == zlib.crc32(b"ne")
    assert crc32(folder / "a", last=0) == 0
    assert file_hash(folder / "a") == hashlib.sha256(b"one").hexdigest()


@pytest.mark.parametrize(
    "recorded, found, said",
    [
        ([3, 7], [3, 7], None),
        ([3, 7], [2, 7], "has 2 bytes, not 3"),
        ([3, 7], [3, 8], "has another checksum"),
        ([3, 7], None, "is missing"),
        (None, [3, 7], "should not be there"),
    ],
)
def test_a_difference_is_told_in_words(recorded, found, said):
    assert difference(recorded, found) == said


@pytest.mark.parametrize("files", [[], None, {"a": 3}, {"a": []}, {"a": [3]}, {"a": [3, 1.5]},
                                   {"a": [True, 7]}, {"a": [3, 7, 7]}, {"a": (3, 7)}])  # fmt: skip
def test_what_is_no_record_is_refused(files):
    assert not are_records(files)


@pytest.mark.parametrize("sha", ["0" * 63, "0" * 65, "../" + "0" * 61, "A" * 64, "0" * 64 + "\n"])
def test_a_sha256_is_64_digits(sha):
    assert are_records({"a": [3, "0" * 64]}, str) and not are_records({"a": [3, sha]}, str)
