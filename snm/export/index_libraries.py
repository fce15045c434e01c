"""The libraries that build and search an HNSW graph, one object per library in `LIBRARIES`.

Scores are inner products. It does not import numpy, because `snm export --help` reads the table.
"""

from __future__ import annotations

import dataclasses
import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from snm.errors import InputError, flag_of
from snm.system.imports import requires_extra

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
                raise InputError(
                    flag_of(field.name), str(getattr(self, field.name)), f"{low} or more"
                )


class IndexLibrary(Protocol):
    """The interface to a library; its own index objects have the type `Any`."""

    @property
    def name(self) -> str:
        """The name in `LIBRARIES`, for `snm export --to` and the manifest."""

    @property
    def file(self) -> str:
        """The name of the file in the folder of an export."""

    def opening(self, effort: int) -> str:
        """How another program opens the file so that it searches with this effort."""

    def build(self, rows: NDArray[np.float32], settings: GraphSettings) -> Any:
        """An index over float32 [K, width] rows.

        Raises:
          InputError: the library is not installed.
        """

    def save(self, index: Any, path: Path) -> None:
        """Writes an index, with its search effort where the library's file has room for it.

        Raises:
          RuntimeError: it could not be written completely; there is no errno.
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
        """The approximate nearest rows of each query.

        Args:
          index: from `build` or `open`.
          queries: float32 [n, width].
          k: the number of rows to find.
          effort: candidates during the search, at least k.

        Returns:
          Row ids [n, k], padded with -1.
        """


@dataclasses.dataclass(frozen=True)
class _Faiss:
    name: str = "faiss"
    file: str = "index.faiss"

    def opening(self, effort: int) -> str:
        return f"faiss.read_index opens it with its search effort, efSearch {effort}"

    def build(self, rows: NDArray[np.float32], settings: GraphSettings) -> Any:
        faiss = _import(self.name)
        index = faiss.IndexHNSWFlat(rows.shape[1], settings.links, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = settings.build_effort
        index.hnsw.efSearch = settings.search_effort
        index.add(rows)
        return index

    def save(self, index: Any, path: Path) -> None:
        _import(self.name).write_index(index, str(path))

    def open(self, path: Path, width: int) -> Any:
        del width  # the file has it
        return _import(self.name).read_index(str(path))

    def search(
        self, index: Any, queries: NDArray[np.float32], k: int, effort: int
    ) -> NDArray[np.integer]:
        index.hnsw.efSearch = effort
        return index.search(queries, k)[1]


@dataclasses.dataclass(frozen=True)
class _Hnswlib:
    name: str = "hnswlib"
    file: str = "index.hnswlib"

    def opening(self, effort: int) -> str:
        return (
            f"after load_index call set_ef({effort}), the search effort, which is not in the file"
        )

    def build(self, rows: NDArray[np.float32], settings: GraphSettings) -> Any:
        index = _import(self.name).Index(space="ip", dim=rows.shape[1])
        index.init_index(len(rows), M=settings.links, ef_construction=settings.build_effort,
                         random_seed=_SEED)  # fmt: skip
        index.add_items(rows)  # numbered from 0
        return index

    def save(self, index: Any, path: Path) -> None:
        index.save_index(str(path))
        # hnswlib does not report a full disk.
        if path.stat().st_size != index.index_file_size():
            raise RuntimeError(f"{path.name} has another size than the index")

    def open(self, path: Path, width: int) -> Any:
        index = _import(self.name).Index(space="ip", dim=width)
        index.load_index(str(path))
        return index

    def search(
        self, index: Any, queries: NDArray[np.float32], k: int, effort: int
    ) -> NDArray[np.integer]:
        index.set_ef(effort)
        return _padded_knn(index, queries, k)


LIBRARIES: dict[str, IndexLibrary] = {library.name: library for library in (_Faiss(), _Hnswlib())}
"""Name of `snm export --to` -> library."""


def _import(name: str) -> Any:
    with requires_extra(f"--to {name}", "export", name):
        return importlib.import_module(name)


def _padded_knn(index: Any, queries: NDArray[np.float32], k: int) -> NDArray[np.integer]:
    """The labels of hnswlib's `knn_query`, padded with -1 as by faiss.

    hnswlib raises if a query reaches fewer than k labels through the links. A larger ef would not
    help: with an ef of at least k, a search ends early only when it has followed all links.
    """
    import numpy as np

    try:
        return index.knn_query(queries, k)[0]
    except RuntimeError:
        index.knn_query(queries, 1)  # finds one per query, unless the error has another cause
    labels = np.full((len(queries), k), -1, np.int64)
    for row in range(len(queries)):
        low, high = 0, k  # bounds of the number of labels it reaches
        while low < high:
            count = (low + high + 1) // 2
            try:
                nearest, _ = index.knn_query(queries[row], count)
            except RuntimeError:
                high = count - 1
            else:
                low = count
                labels[row, :count] = nearest
    return labels
