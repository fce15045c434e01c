"""Loads a data set from a folder, a fetched name or `synthetic`, through the binary cache."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path

from scipy.sparse import csr_matrix

from snm.data import cache as binary_cache
from snm.data.dataset import Dataset, Points
from snm.data.formats.binary import DAMAGE, map_npy, read_npy, read_npz
from snm.data.formats.layouts import DATA_FILES, DataFiles, holds_data
from snm.data.formats.line_files import read_filter, read_names, read_weights
from snm.data.formats.repository_text.reader import read_pair, read_text
from snm.errors import InputError
from snm.machine.ram import available_ram
from snm.stores.address import absolute
from snm.stores.copies import local_copy
from snm.system.faults import read_error
from snm.system.files.cache_folder import cache_folder
from snm.system.files.checks import check_reachable
from snm.system.files.checksums import file_hash
from snm.text import counted

__all__ = ["SYNTHETIC", "absolute_source", "cache_key", "fetched", "load", "load_mapped"]


_MAX_SHARE = 0.25  # of free memory, for unmapped data: weighting and temporaries need some, too
_COMPRESSION = 4  # approximate bytes of arrays per byte of a compressed file
_ENTRY = 8  # bytes of id and value, about as many as in text
SYNTHETIC = "synthetic"
"""The name of the generated data set that comes with the package."""


def load(
    source: str | Path,
    *,
    cache: str | Path | None = "default",
    mapped: bool | None = None,
) -> Dataset:
    """Loads a data set.

    The folder holds exactly one of these layouts. Text files may be gzipped (`.gz`), and the test
    part may be missing.

    - `train.txt`, `test.txt`
    - `trn_X_Xf.txt`, `trn_X_Y.txt`, `tst_X_Xf.txt`, `tst_X_Y.txt`
    - `trn_ft_mat.txt`, `trn_lbl_mat.txt`, `tst_ft_mat.txt`, `tst_lbl_mat.txt`: the same content
    - `X.trn.npz`, `Y.trn.npz`, `X.tst.npz`, `Y.tst.npz`
    - dense features: `X.trn.npy`, `Y.trn.npz`, `X.tst.npy`, `Y.tst.npz`

    Optional files: label names (`labels.txt` or `Y.txt`, one a line), label filters
    (`filter_labels_train.txt`, `filter_labels_test.txt`), weights of the training points
    (`weights.txt`, one a line) and of the labels (`label_weights.txt`), and `vectorizer.json` of
    data that were imported from texts.

    Args:
      source: a folder, its address in a store (`gs://`, `s3://`), which is copied once into the
        cache folder, the name of a fetched set, or `synthetic` for the data set that comes with the
        package.
      cache: folder of parsed data sets, keyed by the SHA-256 of the source. `default` is
        `$SNM_CACHE`, `$XDG_CACHE_HOME/snm` or `~/.cache/snm`. None disables the cache. A damaged
        or unwritable cache is ignored, unless the data are to be mapped.
      mapped: whether to memory-map the arrays from the cache, so that data may be larger than the
        memory. None does so if they take more than a quarter of the free memory. Text is then
        parsed in bounded memory. It needs a writable cache.

    Raises:
      InputError: `source` or `cache` is not a path, there is no such folder or no training file,
        train and test have different widths, a file is damaged, or the cache cannot hold the data
        to be mapped.
      StoreError: an object store cannot be read.
    """
    _check_is_path(source)
    if source == SYNTHETIC:
        from snm.data.generated.synthetic import default

        return default()
    files = _find_data_files(source)
    key = _hash_files(files.all)
    place = None if cache is None else cache_folder(None if cache == "default" else cache)
    if place is None:
        if mapped:
            raise InputError("mapped", "True without a cache folder", "a folder, or mapped=False")
        return _assemble(files, _parse_whole(files), key)
    memory_share = _share_of_memory(files)
    use_map = memory_share > _MAX_SHARE if mapped is None else mapped
    parts = binary_cache.read(place, key, mapped=use_map)
    if parts is None and use_map and files.are_text:
        must_map = bool(mapped) or memory_share > 1
        parts = _parse_in_pieces(files, key, place, must_map=must_map)
    if parts is None:
        parts = _parse_whole(files)
        binary_cache.write(place, key, parts)
        if use_map:
            mapped_parts = binary_cache.read(place, key, mapped=True)
            if mapped_parts is None and mapped:
                raise _cache_error(place, "no entry that can be written and mapped")
            parts = mapped_parts or parts
    return _assemble(files, parts, key)


def _parse_in_pieces(
    files: DataFiles, key: str, cache_folder: Path, *, must_map: bool
) -> binary_cache.Parts | None:
    """Parses text into the cache, in bounded memory, and maps it from there.

    Args:
      files: text files.
      key: SHA-256 of the files.
      cache_folder: the cache folder.
      must_map: whether data that cannot be mapped are an error.

    Returns:
      The mapped parts; None if the cache does not hold them.

    Raises:
      InputError: a file is damaged; or `must_map`, and the cache cannot be written.
    """
    error = binary_cache.write_pieces(cache_folder, key, files.parts)
    parts = binary_cache.read(cache_folder, key, mapped=True)  # perhaps from another process
    if parts is None and error is not None and must_map:
        raise _cache_error(cache_folder, error.found)
    return parts


def _parse_whole(files: DataFiles) -> binary_cache.Parts:
    return {part: _read_part(paths) for part, paths in files.parts}


def _check_is_path(source: object) -> None:
    """Raises `InputError` for other types, such as matrices passed as in scikit-learn."""
    if not isinstance(source, (str, os.PathLike)):
        found = f"a value of type {type(source).__name__}"
        raise InputError("data", found, "the path of a data set; for matrices see docs/python.md")


def _cache_error(cache_folder: Path, found: str) -> InputError:
    expected = "a folder for the parsed data that can be written (cache=, or $SNM_CACHE)"
    return InputError(f"cache folder {cache_folder}", found, expected)


def cache_key(source: str | Path) -> str:
    """SHA-256 of the files of a data set: its key in the cache.

    Raises:
      InputError: a folder or file cannot be read.
    """
    _check_is_path(source)
    return _hash_files(_find_data_files(source).all)


def _hash_files(files: list[Path]) -> str:
    """SHA-256 over the names and content hashes of the files, sorted by path.

    Raises:
      InputError: a file cannot be read.
    """
    total = hashlib.sha256()
    for file in sorted(files):
        try:
            content = file_hash(file)
        except OSError as error:
            raise read_error(file, error, "a readable file") from error
        total.update(f"{file.name} {content}\n".encode())
    return total.hexdigest()


def absolute_source(source: str | Path) -> str:
    """A source of `load` with an absolute path; names and addresses do not change."""
    return SYNTHETIC if source == SYNTHETIC else absolute(source)


def load_mapped(source: str | Path, key: str, is_mine: Callable[[int], bool]) -> Dataset | None:
    """Memory-maps a data set from the default cache.

    Args:
      source: as for `load`.
      key: the result of `cache_key(source)`.
      is_mine: array number -> whether to verify its checksum; see `cache.read`.

    Returns:
      The data set; None if the cache does not hold it, or a checked array is damaged.

    Raises:
      InputError: as `load`.
    """
    files = _find_data_files(source)
    place = cache_folder()
    if place is None:
        return None
    parts = binary_cache.read(place, key, mapped=True, is_mine=is_mine)
    return None if parts is None else _assemble(files, parts, key)


def _find_data_files(source: str | Path) -> DataFiles:
    folder = fetched(source) or local_copy(
        source, lambda name: name.removesuffix(".gz") in DATA_FILES
    )
    if not folder.is_dir():
        expected = "a folder of data, a fetched set, or `synthetic`"
        name, quoted = folder.name.removesuffix(".gz"), shlex.quote(str(source))
        if name in DATA_FILES and holds_data(folder.parent):
            parent = shlex.quote(str(folder.parent))
            raise InputError(str(source), "a file of a data set", f"its folder, {parent}")
        if folder.exists():
            hint = f"`snm data import {quoted} --out DATA` makes one of a file"
            if _may_be_log(folder):
                hint += f", `snm data interactions {quoted} --out DATA` of a log of users"
            raise InputError(str(source), "a file", f"{expected}: {hint}")
        raise InputError(str(source), "no such folder", expected)
    return DataFiles.of(folder)


def _may_be_log(file: Path) -> bool:
    """Whether a file has columns or fields, but none with the name `text`."""
    from snm.data.formats.detection import detect
    from snm.data.formats.foreign import READERS
    from snm.data.formats.records import csv_rows, numbered_lines

    with contextlib.suppress(InputError):
        form = detect(file, None)
        if form == "csv":
            return "text" not in next(csv_rows(file, numbered_lines(file), [("text",)]))[1]
        if (records := READERS[form].records) is not None:
            return "text" not in next(records(file, None), ("", {"text": ""}))[1]
    return False


def _share_of_memory(files: DataFiles) -> float:
    """The size of the parsed arrays, approximately, as a fraction of the free memory."""
    sizes = [file.stat().st_size * _growth(file) for file in (*files.train, *files.test)]
    return sum(sizes) / max(1, available_ram())


def _growth(file: Path) -> float:
    """Bytes of parsed arrays per byte of a file, at most: a dense matrix may have no zeros."""
    if file.suffix == ".npy":
        with contextlib.suppress(*DAMAGE):  # errors are reported when it is read
            return _ENTRY / max(1, map_npy(file).dtype.itemsize)
    return _COMPRESSION if file.suffix in (".gz", ".npz") else 1


def _assemble(files: DataFiles, parts: binary_cache.Parts, key: str) -> Dataset:
    """Makes a `Dataset` of the matrices and the other files; checks the widths of the test part."""
    test = files.test
    for what, axis in (("features", 0), ("labels", 1)):
        if test and parts["test"][axis].shape[1] != parts["train"][axis].shape[1]:
            file = test[axis % len(test)]
            where = str(file) if file.suffix in (".npz", ".npy") else f"{file}:1"
            found = f"{parts['test'][axis].shape[1]} {what}"
            raise InputError(where, found, f"{parts['train'][axis].shape[1]}, as in train")
    _check_widths(files, parts)
    points = {}
    for (part, (features, labels)), filter_file in zip(parts.items(), files.filters, strict=False):
        pairs = read_filter(filter_file, *labels.shape) if filter_file else None
        weights = label_weights = None
        if part == "train" and files.weights is not None:
            weights = read_weights(files.weights, labels.shape[0])
        if part == "train" and files.label_weights is not None:
            label_weights = read_weights(files.label_weights, labels.shape[1], "label", zero=False)
        points[part] = Points(features, labels, pairs, weights, label_weights)
    num_labels = points["train"].num_labels
    return Dataset(
        name=files.folder.resolve().name,
        train=points["train"],
        test=points.get("test"),
        label_names=read_names(files.names, num_labels) if files.names else None,
        sha256=key,
        vectorizer=files.vectorizer,
    )


_MAX_WIDTH = 1 << 24


def _check_widths(files: DataFiles, parts: binary_cache.Parts) -> None:
    """Rejects implausible numbers of features or labels, since time and memory grow with them.

    Raises:
      InputError: more than 16,777,216 features or labels, and 100 for each byte of the files.
    """
    size = sum(file.stat().st_size for file in files.train)
    for what, matrix in zip(("features", "labels"), parts["train"], strict=True):
        if matrix.shape[1] > max(_MAX_WIDTH, 100 * size):
            found = f"{matrix.shape[1]} {what} in {size} bytes"
            raise InputError(str(files.train[0]), found, f"at most {_MAX_WIDTH}, or 100 a byte")


def fetched(source: str | Path) -> Path | None:
    """The folder of the fetched set of that name (any case), or None.

    A local file or folder of the same name takes precedence: then the result is None.

    Raises:
      InputError: a path that cannot be reached.
    """
    check_reachable(Path(source))
    if Path(source).exists() or not re.fullmatch(r"[\w.-]+", str(source)):
        return None
    cache = cache_folder()
    if cache is None:
        return None
    sets = cache / "datasets"
    names = {folder.name.lower(): folder for folder in sets.iterdir()} if sets.is_dir() else {}
    return names.get(str(source).lower())


def _read_part(files: list[Path]) -> tuple[csr_matrix, csr_matrix]:
    if len(files) == 1:
        return read_text(files[0])
    feature_file, label_file = files
    if label_file.suffix != ".npz":
        return read_pair(feature_file, label_file)
    read_features = read_npy if feature_file.suffix == ".npy" else read_npz
    features = read_features(feature_file)
    labels = read_npz(label_file, noun="label")
    if features.shape[0] != labels.shape[0]:
        found = counted(labels.shape[0], "row")
        raise InputError(str(label_file), found, f"{features.shape[0]}, as in {feature_file.name}")
    return features, labels
