"""Files of names, filters and weights, one a line."""

import numpy as np
import pytest
from data.formats.text_files import written

from snm.data.formats.line_files import read_filter, read_names, read_weights
from snm.errors import InputError


def test_filters(tmp_path):
    path = written(tmp_path, "0 3\n2 1\r\n0 3\n", "filter_labels_test.txt")
    pairs = read_filter(path, 3, 4)
    assert pairs.dtype == np.int64
    assert pairs.tolist() == [[0, 3], [2, 1], [0, 3]]
    for text, message in [
        ("0 1\n3 1\n", "txt:2: found row index 3, expected an index from 0 to 2"),
        ("0 4\n", "txt:1: found label index 4, expected an index from 0 to 3"),
        ("0 1\n0\n", "txt:2: found '0', expected two indices"),
        ("0 -1\n", "txt:1: found '0 -1', expected two indices"),
        ("0 1\n\n1 1\n", "txt:2: found '', expected two indices"),
    ]:
        with pytest.raises(InputError, match=message):
            read_filter(written(tmp_path, text, path.name), 3, 4)
    assert read_filter(written(tmp_path, "", path.name), 3, 4).shape == (0, 2)
    for end in ("\n", "\r\n\n"):
        read = read_filter(written(tmp_path, f"0 1\n2 3\n{end}", path.name), 3, 4)
        assert read.tolist() == [[0, 1], [2, 3]]


def test_names(tmp_path):
    path = written(tmp_path, "a\nnaïve\u2028one \n\n", "labels.txt")
    assert read_names(path, 3) == ("a", "naïve\u2028one ", "")
    with pytest.raises(InputError, match=r"labels\.txt:2: found 2 names, expected 1, one a label"):
        read_names(path, 1)
    assert read_names(path, 2) == ("a", "naïve\u2028one ")  # blank lines are the end
    with pytest.raises(InputError, match=r"labels\.txt:4: found 3 names, expected 4"):
        read_names(path, 4)
    with pytest.raises(InputError, match=r"labels\.txt:2: found bytes that are not UTF-8"):
        read_names(written(tmp_path, b"a\n\xff\n", "labels.txt"), 2)
    marked = written(tmp_path, b"\xef\xbb\xbfa\nb\n", "labels.txt")  # as spreadsheets save it
    assert read_names(marked, 2) == ("a", "b")
    packed = written(tmp_path, "a\nb", "labels.txt.gz")
    assert read_names(packed, 2) == ("a", "b")
    packed.write_bytes(packed.read_bytes()[:-4])
    with pytest.raises(InputError, match="truncated gzip"):
        read_names(packed, 2)


def test_weights(tmp_path):
    path = written(tmp_path, "0\n1.5\r\n3e-2\n", "weights.txt")
    weights = read_weights(path, 3)
    ended = written(tmp_path, "0\n1.5\n3e-2\n\n\n", "ended.txt")
    assert read_weights(ended, 3).tolist() == weights.tolist()
    assert weights.dtype == np.float32
    np.testing.assert_array_equal(weights, np.array([0, 1.5, 0.03], np.float32))
    for text, message in [
        ("1\n-1\n2\n", r"weights\.txt:2: found '-1', expected a finite number of at least 0"),
        ("1\n2\nnan\n", "txt:3: found 'nan'"),
        ("1e39\n2\n1\n", "txt:1: found '1e39'"),
        ("1_0\n2\n1\n", "txt:1: found '1_0'"),
        ("1\x1e\n2\n1\n", r"txt:1: found '1\\x1e'"),
        ("1\n\n1\n", "txt:2: found ''"),
        ("1\n1\n", r"txt:3: found 2 weights, expected 3, one a training point"),
        ("0\n0\n0\n", r"weights\.txt: found only zeros"),
    ]:
        with pytest.raises(InputError, match=message):
            read_weights(written(tmp_path, text, path.name), 3)
    for text, message in [
        ("1\n0\n2\n", r"weights\.txt:2: found '0', expected a finite number above 0"),
        ("1e-60\n2\n1\n", "txt:1: found '1e-60'"),  # 0 as a float32
        ("1\n1\n", r"txt:3: found 2 weights, expected 3, one a label"),
    ]:
        with pytest.raises(InputError, match=message):
            read_weights(written(tmp_path, text, path.name), 3, "label", zero=False)
