import pytest

from snm.compare.report.published import FIGURES, SOURCES, published_for
from snm.data.repository.registry import read_registry


@pytest.mark.parametrize(
    ("name", "method", "figures"),
    [
        ("AmazonCat-13K", "SLEEC", (90.53, 76.33, 61.52)),
        ("amazoncat", "SNM", (81.58, 71.54, 58.79)),
        ("wikilshtc-325k", "PPD-Sparse", (64.08, 41.26, 30.12)),
        ("WikiLSHTC-325K.bow", "LEML", (19.82, 11.43, 8.39)),
        ("Amazon_670K", "DiSMEC", (44.7, 39.7, 36.1)),
        ("amazon670k", "PD-Sparse", (None, None, None)),
        ("amazoncat-13k", "Bonsai", (92.98, 79.13, 64.46)),
        ("EURLex-4K", "AttentionXML", (87.12, 73.99, 61.92)),
        ("eurlex", "PfastreXML", (73.14, 60.16, 50.54)),
        ("EUR-Lex", "PfastreXML", (73.14, 60.16, 50.54)),
        ("amazon-cat", "SNM", (81.58, 71.54, 58.79)),
        ("wiki10", "Parabel", (84.19, 72.46, 63.37)),
        ("wiki-10", "Parabel", (84.19, 72.46, 63.37)),
        ("wikilshtc", "Bonsai", (66.6, 44.5, 33.0)),
    ],
)
def test_published_figures(name: str, method: str, figures: tuple[float | None, ...]) -> None:
    found = published_for(name)
    assert found is not None and "not measured here" in found["source"]
    (row,) = [row for row in found["rows"] if row["method"].startswith(method)]
    assert tuple(row["metrics"][column] for column in found["columns"]) == figures


@pytest.mark.parametrize(
    "name",
    [
        "amazoncat-14k",
        "amazon-3m",
        "amazon",
        "Amazon-",
        "Amazon",
        "amazon.bow",
        "wikiLSHTC.bow",
        "eurlex-4.3k",
        "delicious",
        "rcv1-2k",
        "",
    ],
)
def test_no_published_figures_for_other_data_sets(name: str) -> None:
    assert published_for(name) is None


def test_each_row_names_its_source() -> None:
    found = published_for("eurlex-4k")
    assert found is not None
    methods = [row["method"] for row in found["rows"]]
    assert [name[-3:] for name in methods if name.startswith("DiSMEC")] == ["[1]", "[2]"]
    assert "[1] Chang, Yu, " in found["source"] and "[2] readme.txt of " in found["source"]


def test_sources_and_data_sets_are_known() -> None:
    assert set(FIGURES) <= {entry.name for entry in read_registry()}
    assert {source for sources in FIGURES.values() for source in sources} == set(SOURCES)


def test_published_precision_falls_with_k() -> None:
    for sources in FIGURES.values():
        for methods in sources.values():
            for figures in methods.values():
                known = [figure for figure in figures if figure is not None]
                assert known == sorted(known, reverse=True)
