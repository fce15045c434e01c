"""A text file of three points, and files written for a test, packed where their name says so."""

import gzip

GOOD = "3 5 4\n1,3 0:1 4:2.5\n 2:1\n0\n"


def written(folder, text, name="train.txt"):
    path = folder / name
    raw = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    return path


def same(one, other):
    """Asserts that two CSR matrices hold the same bits."""
    one, other = one.sorted_indices(), other.sorted_indices()
    assert one.shape == other.shape
    assert one.indptr.tolist() == other.indptr.tolist()
    assert one.indices.tolist() == other.indices.tolist()
    assert one.data.tobytes() == other.data.tobytes()
