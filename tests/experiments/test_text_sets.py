"""Texts and labels that `experiments.sets.text_sets` finds in packages."""

import json

from experiments.sets.text_sets import KINDS

MODULE = '''"""A module."""
from __future__ import annotations
import os, json.decoder
from numpy.linalg import (
    norm,
)
from . import beside


def lengthOf(rows, *, axis):
    """The length of rows, axis by axis."""
    return norm(rows, axis=axis)
'''

PACKAGES = """Package: libfoo-dev
Maintainer: Ada; Byron <ada@example.org>
Depends: libfoo1 (= 1.2), libc6-dev | libc-dev, python3:any
Recommends: pkgconf
Tag: devel::library, role::devel-lib,
 implemented-in::c
Description: headers of foo

Package: bar
Description: a thing without tags

Package: other
Tag: use::editing
"""

TRANSLATION = """Package: libfoo-dev
Description-en: headers of foo
 To compile what
 uses foo.

Package: bar
Description-en: a thing without tags
"""


def test_labels_of_python_sources(tmp_path):
    place = tmp_path / "site-packages" / "tools"
    place.mkdir(parents=True)
    (place / "lengths.py").write_text(MODULE)
    (place / "broken.py").write_text("def (:")
    of_python = ("docstrings", "parameters", "modules", "imports")
    rows = {kind: list(KINDS[kind]([tmp_path])) for kind in of_python}
    text = "The length of rows, axis by axis."
    assert rows["docstrings"] == [(text, ["length"])]
    assert rows["parameters"] == [(text, ["rows", "axis"])]
    assert rows["modules"] == [(text, ["tools", "tools/lengths"])]
    ((names, modules),) = rows["imports"]
    assert modules == ["os", "json.decoder", "numpy.linalg"]
    assert not {"import", "os", "json", "numpy", "beside"} & set(names.split())
    assert names.split().count("norm") == 1  # where it is used, not where it is imported


def test_tags_belong_to_whole_descriptions(tmp_path):
    files = [tmp_path / "Packages", tmp_path / "Translation-en"]
    files[0].write_text(PACKAGES)
    files[1].write_text(TRANSLATION)
    assert list(KINDS["packages"](files[:1])) == [
        ("headers of foo", ["libfoo", "dev"]),
        ("a thing without tags", ["bar"]),
    ]
    labels = ["devel::library", "role::devel-lib", "implemented-in::c"]
    assert list(KINDS["tags"](files)) == [("headers of foo To compile what uses foo.", labels)]


def test_depends_are_names_without_versions(tmp_path):
    files = [tmp_path / "Packages", tmp_path / "Translation-en"]
    files[0].write_text(PACKAGES)
    files[1].write_text(TRANSLATION)
    rows = dict(KINDS["depends"](files))
    found = rows["headers of foo To compile what uses foo."]
    assert found == ["libfoo1", "libc6-dev", "python3", "pkgconf"]
    assert rows["a thing without tags"] == []
    assert list(KINDS["maintainers"](files[:1])) == [("headers of foo", ["Ada  Byron"])]


WORDNET = """  1 a licence
00001740 03 n 01 entity 0 001 ~ 00001930 n 0000 | that which exists; "an example"
00001930 03 n 01 thing 0 001 @ 00001740 n 0000 | an entity
00002137 03 n 02 hot_dog 0 frank 1 002 @ 00001930 n 0000 ~ 00009999 n 0000 | a sausage in a roll
"""


def test_definitions_and_what_is_more_general(tmp_path):
    (tmp_path / "data.noun").write_text(WORDNET)
    glosses = list(KINDS["glosses"]([tmp_path / "data.noun"]))
    assert glosses[0] == ("that which exists", ["entity"])
    assert glosses[2] == ("a sausage in a roll", ["hot", "dog", "frank"])
    above = dict(KINDS["hypernyms"]([tmp_path / "data.noun"]))
    assert above["that which exists"] == []
    assert above["a sausage in a roll"] == ["thing.n00001930", "entity.n00001740"]


def test_keywords_belong_to_readmes(tmp_path):
    for name, about in [
        ("one", {"description": "first", "keywords": ["Deep; Learning", " "]}),
        ("two", {"keywords": "a text"}),
        ("three", {"keywords": ["without", "text"]}),
    ]:
        (tmp_path / name).mkdir()
        (tmp_path / name / "package.json").write_text(json.dumps(about))
    (tmp_path / "one" / "Readme.md").write_text("# One")
    (tmp_path / "two" / "README").write_text("# Two")
    assert list(KINDS["readmes"]([tmp_path])) == [("first # One", ["deep  learning"])]
