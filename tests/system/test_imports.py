"""Modules that are imported beside other work."""

import contextlib
import importlib
import subprocess
import sys
import threading
from importlib.abc import MetaPathFinder

import pytest

from snm.errors import InputError
from snm.system.imports import hide_package, import_in_background, requires_extra


def ended():
    for thread in threading.enumerate():
        if thread.name == "importing":
            thread.join()


def test_modules_are_there_and_missing_ones_stay_silent(capfd, monkeypatch):
    for name in ("colorsys", "this_is_no_module"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import_in_background("this_is_no_module", "colorsys")
    ended()
    assert "colorsys" in sys.modules and "this_is_no_module" not in sys.modules
    assert capfd.readouterr() == ("", "")


def test_a_package_is_left_out_in_one_thread_and_found_after(monkeypatch):
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    with hide_package("colorsys"):
        with pytest.raises(ModuleNotFoundError, match="colorsys"):
            importlib.import_module("colorsys")
        import_in_background("colorsys")  # another thread finds it
        ended()
        assert "colorsys" in sys.modules
    monkeypatch.delitem(sys.modules, "colorsys")
    importlib.import_module("colorsys")


def test_an_import_meanwhile_misses_no_finder(monkeypatch):
    """It goes through the finders while the package is no longer left out."""

    class EndsIt(MetaPathFinder):
        def find_spec(self, fullname, path, target=None):
            if fullname == "colorsys":
                left_out.close()

    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path[:-1], EndsIt(), sys.meta_path[-1]])
    with contextlib.ExitStack() as left_out:
        left_out.enter_context(hide_package("this_is_no_module"))
        importlib.import_module("colorsys")


def test_event_files_do_not_import_pytorch(tmp_path):
    """With a package of that name on the path, as where PyTorch is installed."""
    (tmp_path / "torch.py").write_text("Tensor = int\n")
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import snm.runs.log.tensorboard; "
        "assert 'torch' not in sys.modules; import torch; assert torch.Tensor is int"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)


@pytest.mark.parametrize(
    ("error", "package", "found"),
    [
        (ModuleNotFoundError("No module named 'a.b'", name="a.b"), None, "no a"),
        (ModuleNotFoundError("No module named 'a.b'", name="a.b"), "scikit-a", "no scikit-a"),
        # As a package raises it by hand.
        (ImportError("numpy 1 is too old\nfor this"), None, "numpy 1 is too old"),
    ],
)
def test_a_package_of_an_extra_that_does_not_import(error, package, found):
    line = rf"^texts: found {found}, expected pip .*\[export\]"
    with pytest.raises(InputError, match=line) as said, requires_extra("texts", "export", package):
        raise error
    assert said.value.__cause__ is error
