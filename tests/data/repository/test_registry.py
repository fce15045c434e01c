"""The registry of public data sets: its entries."""

import pytest
from real_data import real_data_folder

import snm
from snm.data.repository import registry
from snm.data.repository.registry import find, propensity_of, read_registry
from snm.data.statistics import describe
from snm.errors import InputError


def test_the_packages_registry():
    entries = read_registry()
    names = [entry.name for entry in entries]
    wanted = ["EURLex-4K", "Wiki10-31K", "AmazonCat-13K", "Amazon-670K", "Amazon-3M",
              "WikiLSHTC-325K", "Delicious-200K", "Bibtex", "Delicious", "Mediamill",
              "RCV1-2K"]  # fmt: skip
    assert set(wanted) <= set(names) and sum(name.startswith("LF-") for name in names) >= 6
    assert len(set(names)) == len(names)
    for one in entries:
        assert one.cite and one.licence and one.mirrors
        a, b = one.propensity
        assert a > 0 and b > 0
        # Unchecked entries say so.
        assert one.statistics_verified == (one.name == "Delicious")
        assert not any(mirror.verified for mirror in one.mirrors)
        for mirror in one.mirrors:
            assert (mirror.url is None) != (mirror.drive is None)
            assert bool(mirror.files) != bool(mirror.split)
            assert mirror.hash is None or len(mirror.hash) in (
                len("md5:") + 32,
                len("sha256:") + 64,
            )
    # The `A` and `B` of the configurations of DeepXML and ECLARE.
    for name, a, b in (
        ("LF-WikiSeeAlsoTitles-320K", 0.55, 1.5),
        ("LF-WikiSeeAlso-320K", 0.55, 1.5),
        ("LF-WikiTitles-500K", 0.5, 0.4),
        ("LF-AmazonTitles-131K", 0.6, 2.6),
    ):
        assert find(name).propensity == (a, b)
    assert find("EURLEX").name == "EURLex-4K"
    with pytest.raises(InputError, match="expected for example EURLex-4K"):
        find("eurlex-4")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Amazon-670K", (0.6, 2.6)),
        ("amazon_3m", (0.6, 2.6)),
        ("Amazon-670K.bow", (0.6, 2.6)),
        ("wikiLSHTC", (0.5, 0.4)),
        ("wiki-LSHTC", (0.5, 0.4)),
        ("amazon", (0.6, 2.6)),
        ("LF-WikiSeeAlsoTitles-320K", (0.55, 1.5)),
        ("AmazonCat-13K", (0.55, 1.5)),
        ("Delicious-200K", (0.55, 1.5)),
        ("amazon-sports", None),
        ("synthetic", None),
        ("", None),
    ],
)
def test_propensities_by_the_name_of_a_folder(name, expected):
    assert propensity_of(name) == expected


def test_verified_sizes_match_the_data():
    """Compares the registry with local data; the registry's averages are over train and test."""
    one = find("Delicious").statistics
    data = snm.load_data(real_data_folder("delicious"))
    found = describe(data)
    assert data.test is not None and len(registry.SIZES) == 4
    for size in registry.SIZES:
        assert found[size] == one[size]
    pairs = data.train.labels.nnz + data.test.labels.nnz
    assert pairs / found["labels"] == pytest.approx(one["points_per_label"], abs=0.005)
