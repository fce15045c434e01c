"""Makes a data set of files of texts or svmlight lines."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

from snm.data.vectorizer import Vectorizer
from snm.errors import InputError
from snm.importing.features import make_features
from snm.importing.label_names import read_label_names
from snm.importing.options import ImportOptions, display_names
from snm.importing.passes import frequent_labels
from snm.importing.rows import Reading, Rows
from snm.importing.writing.data_folder import Counts, Source, write_data_folder
from snm.system.files.atomic import atomic_folder
from snm.system.terminal import counters
from snm.text import counted

__all__ = ["Imported", "build"]


@dataclasses.dataclass(frozen=True, eq=False)
class Imported:
    """What an import made.

    Attributes:
      counts: of the points.
      vectorizer: of texts, or None.
      rare_labels: number of labels that were left out because few training points have them.
      numbered_names: label names that end with the label's number, which makes them different.
      splits_labels: whether names of labels are cut from texts at a separator, which may be wrong.
      label_lists: the first cell of each column of labels whose cells are lists.
      respelled: a note on labels or items that came in several spellings, if some did.
    """

    counts: Counts
    vectorizer: Vectorizer | None
    rare_labels: int
    numbered_names: Sequence[str]
    splits_labels: bool
    label_lists: Mapping[str, str]
    respelled: str | None


def build(options: ImportOptions) -> Imported:
    """Creates the folder of a data set.

    Args:
      options: that `check_import` passed.

    Raises:
      InputError: files or options that cannot be used; then no folder is left.
    """
    with atomic_folder("--out", options.out) as beside:
        return _write(options, beside)


def _write(options: ImportOptions, folder: Path) -> Imported:
    """Writes a data set.

    Raises:
      InputError: files or options that cannot be used.
    """
    reading = Reading.of(options)
    names, kept, rare = None, None, 0
    with counters(bars=False) as start_counter:
        if options.label_names is not None:
            field, default = options.label_name_field, reading.columns[0]
            on_progress = start_counter("reading label names")
            names = read_label_names(options.label_names, field, default, on_progress)
        rows = Rows(options, reading, names)
        if options.min_label_count > 1:
            on_progress = start_counter("counting labels")
            kept, rare = frequent_labels(rows.training(), options.min_label_count, on_progress)
        features = make_features(options, reading, rows, start_counter)
        if features.vectorizer is not None:
            features.vectorizer.write(folder / "vectorizer.json")
        known = features.labels
        if known is None:
            known = () if names is None else tuple(names.names)
        source = Source(
            name=display_names(options.source),
            files=rows.by_part(kept),
            part_of=rows.part_of,
            transform=features.transform,
            num_features=features.width,
            known_labels=known,
            new_labels="drop" if options.new_labels == "drop" else "append",
            weighted=options.weight_column is not None,
            item_marks=features.item_marks,
        )
        counts = write_data_folder(folder, source, start_counter("writing points"))
    are_lists = reading.label_lists.keys() >= set(reading.labels)
    splits_labels = reading.reader.separated and names is None and not are_lists
    _refuse_new_labels(options, counts, splits_labels=splits_labels)
    return Imported(
        counts,
        features.vectorizer,
        rare_labels=rare,
        numbered_names=names.numbered if names else (),
        splits_labels=splits_labels,
        label_lists=reading.label_lists,
        respelled=rows.spellings.joined("item" if reading.item_separator else "label"),
    )


def _refuse_new_labels(options: ImportOptions, counts: Counts, *, splits_labels: bool) -> None:
    """Refuses labels that `--like` lacks, unless they are asked for and leave points with labels.

    Args:
      options: of the import.
      counts: of what was written.
      splits_labels: as `Imported` has it.

    Raises:
      InputError: such labels.
    """
    if not (new := counts.labels.new):
        return
    found = f"{counted(len(new), 'label')} that {options.like} lacks, such as {new[0]!r}"
    expected = "its labels, or --new-labels append or drop"
    if counts.without_labels == counts.train + counts.test:
        found, expected = f"no point with a label of {options.like}: {found}", "some of its labels"
    elif options.new_labels != "refuse":
        return
    if splits_labels and (mark := counts.labels.common_separator) is not None:
        expected += f"; if {mark!r} separates labels, --label-separator {mark!r}"
    raise InputError(display_names(options.source), found, expected)
