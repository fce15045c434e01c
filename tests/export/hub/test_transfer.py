"""Push and pull through `huggingface_hub`, which asks a stand-in on this machine."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from command_line import call, refused
from export import hub_stand_in

import snm
from snm.errors import InputError
from snm.export.hub.folder import FILES
from snm.export.hub.transfer import HubAddress, pull, push


@pytest.fixture(scope="module")
def served():
    """One address for all tests, which the client keeps."""
    pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed (extra hub)")
    from huggingface_hub import constants, file_download

    with hub_stand_in.running() as (server, address), pytest.MonkeyPatch.context() as patch:
        patch.setattr(constants, "ENDPOINT", address)
        template = address + "/{repo_id}/resolve/{revision}/{filename}"
        for module in (constants, file_download):  # one of them, by version
            patch.setattr(module, "HUGGINGFACE_CO_URL_TEMPLATE", template, raising=False)
        patch.setenv("HF_TOKEN", "hf_of_nobody")
        yield server


@pytest.fixture
def hub(served, tmp_path, monkeypatch):
    """The stand-in, which the client takes for the Hub; it is empty, and so is the cache."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    served.hub = hub_stand_in.Hub()
    return served.hub


def test_a_model_goes_to_the_hub_and_back(remembering, hub, tmp_path, capsys):
    out = tmp_path / "out"
    call("export", remembering, "--to", "hub", "--out", out, "--push", "me/wood", "--private")
    assert "sent to http://127.0.0.1" in " ".join(capsys.readouterr().out.split())
    sent = hub.commits["me/wood"][-1]
    assert {name: sent[name] for name in sent if name != ".gitattributes"} == {
        path.name: path.read_bytes() for path in out.iterdir()
    }
    assert hub.private == {"me/wood"}
    assert 'snm.load("hf://me/wood")' in sent["README.md"].decode()
    sent["evil.py"] = b"raise SystemExit"
    points = snm.load_data(remembering.parent / "data").test.features
    model = snm.load("hf://me/wood")
    np.testing.assert_array_equal(
        model.predict(points, 3), snm.load(remembering).predict(points, 3)
    )
    assert not list((tmp_path / "cache").rglob("evil.py")), "more was fetched than is needed"
    # `Path` makes one slash of two, and the command line gives paths.
    (tmp_path / "one.txt").write_text("1 120\n3:1 5:2\n")
    call("predict", Path("hf://me/wood"), tmp_path / "one.txt", "--k", 2)
    assert len(json.loads(capsys.readouterr().out)["labels"]) == 2


def test_an_earlier_model_leaves_nothing(tmp_path, hub):
    """A memory that the new model lacks would be training data that nobody meant to share."""
    first, second = tmp_path / "first", tmp_path / "second"
    for folder, names in ((first, FILES), (second, [n for n in FILES if "memory" not in n])):
        folder.mkdir()
        for name in names:
            (folder / name).write_text(f"---\nlicense: mit\n---\n{folder.name}")
    (first / "private.txt").write_text("not of the model")
    push(first, "me/wood")
    old = hub.files("me/wood", "main")[1]
    assert set(hub.commits["me/wood"][-1]) == {*FILES, ".gitattributes"}
    push(second, "me/wood")
    assert set(hub.commits["me/wood"][-1]) == {*FILES, ".gitattributes"} - {"memory.safetensors"}
    assert (pull(HubAddress("me/wood", old)) / "memory.safetensors").exists()
    assert not (pull(HubAddress("me/wood")) / "memory.safetensors").exists()


def test_refusals_are_one_line(hub, tmp_path):
    with pytest.raises(InputError, match=r"^hf://me/none: found .*, expected a model on the Hub"):
        snm.load("hf://me/none")
    with pytest.MonkeyPatch.context() as patch:
        import huggingface_hub

        def unreachable(*_, **__):
            raise ConnectionError("Got: ConnectError: no such host.\nMore about it.")

        patch.setattr(huggingface_hub, "snapshot_download", unreachable)
        with pytest.raises(InputError, match=r"^hf://me/none: found ConnectError: no such host, "):
            snm.load("hf://me/none")
    hub.down = True
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(InputError, match=r"^push me/wood: found ") as error:
        push(tmp_path, "me/wood")
    assert "\n" not in str(error.value) and f"the model is in {tmp_path}" in str(error.value)


def test_addresses():
    assert HubAddress.of("hf:/a/b@v1") == HubAddress.of("hf://a/b@v1") == HubAddress("a/b", "v1")
    assert HubAddress.of("/a/hf://b") is None and HubAddress.of("runs/hf") is None
    for wrong in ("hf://a", "hf://a/b/c", "hf://../b", "hf://a/b@", "hf://a/b\n", "hf:///a/b"):
        with pytest.raises(InputError, match="expected hf://owner/name"):
            HubAddress.of(wrong)


def test_without_the_client(remembering, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    asked = ("export", remembering, "--to", "hub", "--out", tmp_path / "out")
    said = refused(capsys, *asked, "--push", "me/wood")
    how = "pip install -e '.[hub]' -c constraints.txt"
    assert said == f"--push: found no huggingface_hub, expected {how}"
    assert refused(capsys, *asked, "--push", "wood") == "--push: found wood, expected owner/name"
    assert refused(capsys, *asked, "--private").startswith("--private: found no --push")
    said = refused(capsys, *asked[:3], "npz", "--out", "x", "--license", "mit")
    assert said == "--license: found --to npz, expected --to hub"
    with pytest.raises(InputError, match="no huggingface_hub"):
        snm.load("hf://me/wood")
    assert list(tmp_path.iterdir()) == []


def test_only_files_of_the_model_are_asked_for(tmp_path, monkeypatch):
    """By a client that notes what it is called with, where the real one is not installed."""
    calls = []

    class Api:
        def __init__(self, **_):
            pass

        def create_repo(self, repository, **options):
            calls.append(("create", repository, options))

        def upload_folder(self, **options):
            calls.append(("upload", options))
            return "https://example.org/commit/1"

    def fetch(repository, **options):
        calls.append(("fetch", repository, options))
        return str(tmp_path)

    fake = SimpleNamespace(HfApi=Api, snapshot_download=fetch)
    monkeypatch.setitem(sys.modules, "huggingface_hub", fake)
    assert push(tmp_path, "me/wood", private=True) == "https://example.org/commit/1"
    assert pull(HubAddress("me/wood", "v1")) == tmp_path
    (_, made, how), (_, sent), (_, fetched, asked) = calls
    assert made == sent["repo_id"] == fetched == "me/wood"
    assert how == {"private": True, "exist_ok": True} and asked["revision"] == "v1"
    assert sent["allow_patterns"] == sent["delete_patterns"] == asked["allow_patterns"]
    assert sent["allow_patterns"] == list(FILES)
