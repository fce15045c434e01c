"""A recommender of what packages need: items are the same on both sides, and none is on both."""

from pathlib import Path

import pytest

import snm
from experiments.sets.baskets import main
from snm.errors import InputError


def test_a_basket_is_cut_in_halves(tmp_path: Path):
    # Package p needs the libraries p .. p + 4 of ten, so that each is in five baskets.
    stanzas = [
        f"Package: p{p}\nDepends: {', '.join(f'lib{(p + i) % 10} (>= 1)' for i in range(4))}\n"
        f"Recommends: lib{(p + 4) % 10}, rare{p}\n"
        for p in range(10)
    ]
    (tmp_path / "Packages").write_text("\n".join(stanzas))
    main([tmp_path / "Packages"], tmp_path / "out")
    data = snm.load_data(tmp_path / "out")
    assert data.test is not None
    assert (data.train.num_points, data.test.num_points) == (8, 2)
    for points in (data.train, data.test):
        assert points.features.shape[1] == points.labels.shape[1] == 10
        assert points.features.multiply(points.labels).nnz == 0
        both = points.features.toarray() + points.labels.toarray()
        for row in both:  # five neighbours in a ring
            assert sorted(row.tolist()) == [0] * 5 + [1] * 5
            assert abs(row - [*row[1:], row[0]]).sum() == 2
    with pytest.raises(InputError, match="exists"):
        main([tmp_path / "Packages"], tmp_path / "out")
