"""Which files a folder of data has, and what each is for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from snm.data.formats.split_files import SplitFiles
from snm.errors import InputError

__all__ = ["DATA_FILES", "DataFiles", "find_files", "find_names", "holds_data"]


@dataclass(frozen=True)
class _Layout:
    """One way in which a folder may hold a data set.

    Attributes:
      name: used in error messages.
      train: file names of the training part: features (or one file), then labels.
      test: the same for the test part.
      gzipped: whether each file may also be a `.gz`.
    """

    name: str
    train: tuple[str, ...]
    test: tuple[str, ...]
    gzipped: bool


_LAYOUTS = (
    _Layout("one-file text", ("train.txt",), ("test.txt",), True),
    _Layout("text pairs", ("trn_X_Xf.txt", "trn_X_Y.txt"), ("tst_X_Xf.txt", "tst_X_Y.txt"), True),
    _Layout(  # of earlier downloads
        "text pairs of matrices",
        ("trn_ft_mat.txt", "trn_lbl_mat.txt"),
        ("tst_ft_mat.txt", "tst_lbl_mat.txt"),
        True,
    ),
    _Layout("SciPy pairs", ("X.trn.npz", "Y.trn.npz"), ("X.tst.npz", "Y.tst.npz"), False),
    _Layout("dense inputs", ("X.trn.npy", "Y.trn.npz"), ("X.tst.npy", "Y.tst.npz"), False),
)

_NAMES = ("labels.txt", "Y.txt")

_VECTORIZER = "vectorizer.json"

_WEIGHTS = "weights.txt"
_LABEL_WEIGHTS = "label_weights.txt"

_FILTERS = ("filter_labels_train.txt", "filter_labels_test.txt")

DATA_FILES = {
    *(name for layout in _LAYOUTS for name in (*layout.train, *layout.test)),
    *(_VECTORIZER, _WEIGHTS, _LABEL_WEIGHTS, *_NAMES, *_FILTERS),
}
"""The names of what a data set is read from, without `.gz`; this is copied from a store."""


@dataclass(frozen=True)
class DataFiles:
    """The files of a data set folder.

    Attributes:
      folder: the folder.
      train: files of the training part, in the order of `_Layout.train`.
      test: files of the test part, or none.
      names: file of the label names, or None.
      weights: file of the weights of the training points, or None.
      label_weights: file of the weights of the labels, or None.
      filters: label filter files of train and of test, each or None.
      vectorizer: file of the vectorizer of texts, or None.
    """

    folder: Path
    train: list[Path]
    test: list[Path]
    names: Path | None
    weights: Path | None
    label_weights: Path | None
    filters: tuple[Path | None, ...]
    vectorizer: Path | None

    @classmethod
    def of(cls, folder: Path) -> DataFiles:
        """Finds the files of a folder.

        Raises:
          InputError: no layout, more than one, a missing file, or a file in two forms.
        """
        _, train, test = find_files(folder)
        return cls(
            folder=folder,
            train=train,
            test=test,
            names=find_names(folder),
            weights=_find(folder, _WEIGHTS),
            label_weights=_find(folder, _LABEL_WEIGHTS),
            filters=tuple(_find(folder, name) for name in _FILTERS),
            vectorizer=_find(folder, _VECTORIZER, gzipped=False),
        )

    @property
    def parts(self) -> list[tuple[str, list[Path]]]:
        """The parts that there are, with their files."""
        return [("train", self.train), *([("test", self.test)] if self.test else [])]

    @property
    def are_text(self) -> bool:
        """Whether they can be parsed in pieces."""
        return self.train[0].name.removesuffix(".gz").endswith(".txt")

    @property
    def all(self) -> list[Path]:
        """All but the vectorizer, which changes no number of the data."""
        optional = (self.names, self.weights, *self.filters, self.label_weights)
        return [*self.train, *self.test, *(file for file in optional if file)]


def holds_data(folder: Path) -> bool:
    """Whether a folder has the first file of a training part, so that it is read as a data set."""
    first = [f"{layout.train[0]}{end}" for layout in _LAYOUTS for end in ("", ".gz")]
    return any((folder / name).is_file() for name in first)


def find_files(folder: Path) -> tuple[str, list[Path], list[Path]]:
    """Finds the data files of a folder.

    Returns:
      name of the layout, training files, and test files (empty if there is no test part).

    Raises:
      InputError: no layout, more than one, or a missing file.
    """
    present: list[tuple[_Layout, list[Path | None], list[Path | None]]] = []
    for layout in _LAYOUTS:
        train = [_find(folder, name, layout.gzipped) for name in layout.train]
        test = [_find(folder, name, layout.gzipped) for name in layout.test]
        # Two layouts share the label file, so only the first file identifies a layout.
        if train[0] or test[0]:
            present.append((layout, train, test))
    wanted = "; ".join(" + ".join(layout.train) for layout in _LAYOUTS)
    if not present:
        expected = f"one of {wanted} (text also as .gz)"
        if (split := SplitFiles.in_folder(folder)) is not None:
            expected = f"what `{split.command}` makes of its files"
        raise InputError(str(folder), "no training file", expected)
    if len(present) > 1:
        found = " and ".join(layout.name for layout, _, _ in present)
        raise InputError(str(folder), f"several layouts ({found})", "one of them")
    layout, train, test = present[0]
    for names, files in ((layout.train, train), (layout.test, test)):
        missing = [name for name, file in zip(names, files, strict=True) if file is None]
        if missing and (files is train or len(missing) < len(names)):
            raise InputError(str(folder), f"no {missing[0]}", f"{' + '.join(names)}")
    return layout.name, [file for file in train if file], [file for file in test if file]


def find_names(folder: Path) -> Path | None:
    """The file of label names of a folder, or None.

    Raises:
      InputError: more than one.
    """
    names = [file for file in (_find(folder, name) for name in _NAMES) if file]
    if len(names) > 1:
        raise InputError(str(folder), " and ".join(_NAMES), "one file of label names")
    return names[0] if names else None


def _find(folder: Path, name: str, gzipped: bool = True) -> Path | None:
    """The file of that name, plain or gzipped, or None; an error if both exist."""
    plain, packed = folder / name, folder / f"{name}.gz"
    if plain.is_file() and packed.is_file() and gzipped:
        raise InputError(str(folder), f"{name} and {name}.gz", "one of them")
    if plain.is_file():
        return plain
    return packed if gzipped and packed.is_file() else None
