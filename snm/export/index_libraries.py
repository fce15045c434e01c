"""The libraries that build an HNSW graph and search it: one object each, in `LIBRARIES`.

Scores are inner products. Without numpy at import, since `snm export --help` reads the table.
"""

from __future__ import annotations

import dataclasses
import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from snm.errors import InputError, pip_install

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["LIBRARIES", "GraphSettings", "IndexLibrary"]

_SEED = 0


@dataclasses.dataclass(frozen=True)
class GraphSettings:
    """The parameters of an HNSW graph.

    Attributes:
      links: links per label, M.
      build_effort: candidates during construction, efConstruction.
      search_effort: candidates during a search, efSearch.
    """

    links: int
    build_effort: int
    search_effort: int

    def check(self) -> None:
        """Checks the ranges of the parameters.

        Raises:
          InputError: a parameter is out of range.
        """
        for field in dataclasses.fields(self):
            low = 2 if field.name == "links" else 1
            if getattr(self, field.name) < low:
                flag = "--" + field.name.replace("_", "-")
                raise InputError(flag, str(getattr(self, field.name)), f"{low} or more")


class IndexLibrary(Protocol):
    """What an index needs of a library. Its own index object passes through as `Any`."""

    @property
    def name(self) -> str:
        """The name in `LIBRARIES`, for `snm export --to` and the manifest."""

    @property
    def file(self) -> str:
        """The name of the file in the folder of an export."""

    def build(self, rows: NDArray[np.float32], settings: GraphSettings) -> Any:
        """An index over float32 [K, width] rows.

        Raises:
          InputError: the library is not installed.
        """

    def save(self, index: Any, path: Path) -> None:
        """Writes an index.

        Raises:
          RuntimeError: not all of it could be written; it has no number of the system's.
        """

    def open(self, path: Path, width: int) -> Any:
        """Reads an index over rows [K, width].

        Raises:
          InputError: the library is not installed.
          RuntimeError: the file is damaged.
        """

    def search(
        self, index: Any, queries: NDArray[np.float32], k: int, effort: int
    ) -> NDArray[np.integer]:
        """The best of each query that the graph leads to.

        Args:
          index: from `build` or `open`.
          queries: float32 [n, width].
          k: how many to find.
          effort: candidates during the search, at least k.

        Returns:
          Numbers of rows [n, k], padded with -1.
        """


@dataclasses.dataclass(frozen=True)
class _Faiss:
    name: str = "faiss"
    file: str = "index.faiss"

    def build(self, rows: NDArray[np.float32], settings: GraphSettings) -> Any:
        faiss = _imported(self.name)
        index = faiss.IndexHNSWFlat(rows.shape[1], settings.links, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = settings.build_effort
        index.add(rows)
        return index

    def save(self, index: Any, path: Path) -> None:
        _imported(self.name).write_index(index, str(path))

    def open(self, path: Path, width: int) -> Any:
        del width  # the file says it
        return _imported(self.name).read_index(str(path))

    def search(
        self, index: Any, queries: NDArray[np.float32], k: int, effort: int
    ) -> NDArray[np.integer]:
        index.hnsw.efSearch = effort
        return index.search(queries, k)[1]


@dataclasses.dataclass(frozen=True)
class _Hnswlib:
    name: str = "hnswlib"
    file: str = "index.hnswlib"

    def build(self, rows: NDArray[np.float32], settings: GraphSettings) -> Any:
        index = _imported(self.name).Index(space="ip", dim=rows.shape[1])
        index.init_index(len(rows), M=settings.links, ef_construction=settings.build_effort,
                         random_seed=_SEED)  # fmt: skip
        index.add_items(rows)  # numbered from 0
        return index

    def save(self, index: Any, path: Path) -> None:
        index.save_index(str(path))
        # hnswlib says nothing of a disk that is full.
        if path.stat().st_size != index.index_file_size():
            raise RuntimeError(f"{path.name} has another size than the index")

    def open(self, path: Path, width: int) -> Any:
        index = _imported(self.name).Index(space="ip", dim=width)
        index.load_index(str(path))
        return index

    def search(
        self, index: Any, queries: NDArray[np.float32], k: int, effort: int
    ) -> NDArray[np.integer]:
        index.set_ef(effort)
        return _padded(index, queries, k)


LIBRARIES: dict[str, IndexLibrary] = {one.name: one for one in (_Faiss(), _Hnswlib())}
"""Name of `snm export --to` -> library."""


def _imported(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise InputError(f"--to {name}", f"no {name}", pip_install("export")) from error


def _padded(index: Any, queries: NDArray[np.float32], k: int) -> NDArray[np.integer]:
    """The labels of `knn_query` of hnswlib, but padded with -1, as faiss does.

    hnswlib raises where the links lead a query to fewer than k labels. No larger ef finds more, as
    a search with an ef of at least k ends before k labels only where no link leads on.
    """
    import numpy as np

    try:
        return index.knn_query(queries, k)[0]
    except RuntimeError:
        index.knn_query(queries, 1)  # each query finds one, unless something else is wrong
    labels = np.full((len(queries), k), -1, np.int64)
    for row in range(len(queries)):
        low, high = 0, k  # how many it finds, at least and at most
        while low < high:
            count = (low + high + 1) // 2
            try:
                found, _ = index.knn_query(queries[row], count)
            except RuntimeError:
                high = count - 1
            else:
                low = count
                labels[row, :count] = found
    return labels
