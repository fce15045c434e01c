"""The arrays of an export, as a program without snm reads them."""

import numpy as np
from safetensors.numpy import load_file


def arrays_in(file):
    """The arrays of a `.npz` or `.safetensors` file by name; the file is closed."""
    if file.suffix == ".safetensors":
        return load_file(file)
    with np.load(file) as found:
        return dict(found)


class FindsNothing:
    """An index that misses everything."""

    def search(self, queries, k):
        return np.full((len(queries), k), -1, np.int32)
