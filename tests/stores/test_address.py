"""Addresses: nothing secret is kept or told, and none is another folder than it says."""

import sys
import types
from pathlib import Path

import pytest
from command_line import refused

from snm.errors import InputError
from snm.stores.address import KINDS, Address, Kind, mask_error, mask_secrets


@pytest.mark.parametrize(
    "text",
    ["s3://ID:hush@bucket/a", "gs://hush@bucket/a", "s3://bucket/a?key=hush", "s3:/x:hush/a"],
)
def test_an_address_has_no_credentials(text):
    """It is written to run.json and result.json."""
    with pytest.raises(InputError, match="found a user, password or query in an address") as told:
        Address.of(text)
    assert "hush" not in str(told.value)
    assert str(Address.of("gs://bucket/a=1/b@2")) == "gs://bucket/a=1/b@2"


@pytest.mark.parametrize(
    "text",
    ["https://me:hush@host/a", "at https://host/o?upload_id=hush&n=1", "{'secret': 'hush'}",
     "X-Amz-Signature=hush", "AWSAccessKeyId: hush", "X-Goog-Credential=hush,"],
)  # fmt: skip
def test_errors_are_told_without_secrets(text):
    told = mask_secrets(text)
    assert "hush" not in told and "***" in told
    assert "hush" not in mask_error(OSError(f"Forbidden: https://host/a\n\n{text}"))


def test_an_error_of_several_lines_is_one():
    """gcsfs tells the reason in the second."""
    told = mask_error(OSError("Forbidden: https://host/o\nwho@host has no storage.objects.get"))
    assert told == "OSError: Forbidden: https://host/o who@host has no storage.objects.get"


def test_a_point_is_no_folder():
    """Its local folder would be the one of the lock and of the note."""
    assert Address.of("gs://bucket/runs/.") == Address.of("gs://bucket/./runs")
    for text in ("gs://bucket/.", "gs://bucket"):
        with pytest.raises(InputError, match="no folder in a bucket, expected gs://BUCKET/FOLDER"):
            Address.of(text)


@pytest.mark.parametrize(
    "text",
    ["az://bucket/run", "gcs://bucket", "s3a://b/run", "GS://b/run", "memory://run", "file:///run",
     "https://me:hush@host/run"],
)  # fmt: skip
def test_another_kind_of_store_is_no_local_folder(text):
    for place in (text, Path(text)):
        if place == "file:///run":  # of three slashes, as a text
            continue
        with pytest.raises(InputError) as told:
            Address.of(place)
        assert str(told.value).startswith(  # other tests may have added a kind
            f"{text.partition(':')[0]}://: found an unknown kind of store, "
            "expected a path, or gs://BUCKET/FOLDER or s3://BUCKET/FOLDER"
        )
        assert "hush" not in str(told.value)


@pytest.mark.parametrize("text", ["runs/a", "/runs/az:/b", "c:/runs", "a:b/c", "run:1", "az:", ""])
def test_local_paths_are_no_addresses(text):
    assert Address.of(text) is None and Address.of(Path(text)) is None


@pytest.mark.parametrize("words", [
    ("train", "synthetic", "--run-dir", "az://bucket/run"),
    ("train", "az://bucket/data", "--run-dir", "run"),
    ("evaluate", "az://bucket/run"),
    ("predict", ".", "input", "--out", "az://bucket/answers"),
])  # fmt: skip
def test_every_verb_refuses_another_kind_of_store(words, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    assert refused(capsys, *words).startswith("az://: found an unknown kind of store, expected")
    assert not list(tmp_path.iterdir())


def test_credentials_that_cannot_be_read_are_one_line(monkeypatch):
    def refuse(*_, **__):
        raise ValueError("token=hush: no such file")

    monkeypatch.setitem(KINDS, "gs", Kind("gcsfs", "gcs"))
    monkeypatch.setitem(sys.modules, "fsspec", types.SimpleNamespace(filesystem=refuse))
    with pytest.raises(InputError, match=r"^gs://bucket/a: found ValueError: token=\*\*\*") as told:
        Address.of("gs://bucket/a").filesystem()
    assert "hush" not in str(told.value)
