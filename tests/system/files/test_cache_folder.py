"""The cache folder is its owner's alone: compiled programs that are read from it are run."""

import os
import stat
from pathlib import Path

import pytest
import tiny
from command_line import call, refused

import snm
from snm.errors import InputError
from snm.system.files.cache_folder import cache_folder


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def open_mask():
    """As on systems where each user has a group of their own."""
    before = os.umask(0o002)
    yield
    os.umask(before)


def test_it_is_made_for_its_owner_alone(tmp_path, monkeypatch, open_mask):
    for name in ("given", "SNM_CACHE", "XDG_CACHE_HOME"):
        place = tmp_path / name
        if name == "given":
            assert cache_folder(place) == place
        else:
            monkeypatch.setenv(name, str(place))
            found = cache_folder()
            monkeypatch.delenv(name)
            assert found == place / ("snm" if name == "XDG_CACHE_HOME" else "")
            place = found
        assert mode(place) == 0o700


@pytest.mark.parametrize("bits", [0o770, 0o722, 0o1777])
def test_where_others_may_write_it_is_refused(tmp_path, monkeypatch, capsys, bits):
    data, place = tiny.write(tmp_path / "data"), tmp_path / "cache"
    place.mkdir()
    place.chmod(bits)
    monkeypatch.setenv("SNM_CACHE", str(place))
    with pytest.raises(InputError, match="a cache folder that others may write to"):
        snm.load_data(data)
    said = refused(capsys, "train", data, "--run-dir", tmp_path / "run")
    assert said.startswith(f"{place}: found a cache folder that others may write to")
    assert not (tmp_path / "run").exists() and not list(place.iterdir())
    assert snm.load_data(data, cache=None).train.num_points == tiny.POINTS
    call("doctor", data, status=1)
    assert "others may write to" in " ".join(capsys.readouterr().out.split())
    place.chmod(0o755)
    snm.load_data(data)
    assert len(list(place.iterdir())) == 1


def test_our_own_default_is_closed(tmp_path, monkeypatch):
    monkeypatch.delenv("SNM_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "snm").mkdir()
    (tmp_path / "snm").chmod(0o775)
    assert cache_folder() == tmp_path / "snm" and mode(tmp_path / "snm") == 0o700


def test_that_of_another_user_is_refused(tmp_path, monkeypatch):
    place = tmp_path / "cache"
    place.mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: place.stat().st_uid + 1)
    if place.stat().st_uid == 0:  # what root made can be trusted, what others made cannot
        assert cache_folder(place) == place
        os.chown(place, 12345, -1)
    with pytest.raises(InputError, match="a cache folder of user"):
        cache_folder(place)


def test_an_address_is_refused_at_the_start(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for address in ("gs://bucket/cache", "https://me:hush@host/c", "://b"):
        monkeypatch.setenv("SNM_CACHE", address)
        for verb, folder in (("train", "--run-dir"), ("compare", "--out")):
            told = refused(capsys, verb, "synthetic", folder, "never")
            assert told == "SNM_CACHE: found an address, expected a folder of this machine"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("address", ["gs://bucket/cache", "file:///tmp/cache"])
def test_a_path_that_was_an_address_is_refused(tmp_path, monkeypatch, address):
    """`Path` turns two slashes into one."""
    monkeypatch.chdir(tmp_path)
    for place in (address, Path(address)):
        with pytest.raises(InputError, match="cache: found an address, expected a folder of this"):
            cache_folder(place)
    assert not list(tmp_path.iterdir())


def test_a_folder_with_a_colon_is_no_address(tmp_path):
    assert cache_folder(tmp_path / "a:" / "b") == tmp_path / "a:" / "b"
