"""Modules that are imported beside other work."""

import sys
import threading

from snm.system.imports import begin_imports


def ended():
    for thread in threading.enumerate():
        if thread.name == "importing":
            thread.join()


def test_modules_are_there_and_missing_ones_stay_silent(capfd, monkeypatch):
    for name in ("colorsys", "this_is_no_module"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    begin_imports("this_is_no_module", "colorsys")
    ended()
    assert "colorsys" in sys.modules and "this_is_no_module" not in sys.modules
    assert capfd.readouterr() == ("", "")
