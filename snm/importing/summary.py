"""Prints the sizes of imported data, what is odd in them, and what can be done with them."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from snm.config.auto import auto_drops_seen
from snm.data.weights import describe_weights
from snm.importing.build import Imported
from snm.importing.items import Overlap
from snm.importing.next_steps import is_run, next_in_known_ids
from snm.importing.options import ImportOptions
from snm.importing.writing.data_folder import Counts
from snm.system.terminal import say
from snm.text import counted

__all__ = ["print_summary"]

_MANY_EMPTY = 0.02  # of the points, those without a known word
_MANY_REPEATED = 0.1  # of the points, those with the text of another
_MANY_UNSPACED = 0.2  # of the letters, those without spaces between words
_LISTS = 'write lists of labels as ["a", "b"], or the names with separators between them'
_LONGEST_EXAMPLE = 60  # characters


def print_summary(options: ImportOptions, imported: Imported) -> None:
    """Prints sizes, what is odd, and the next command."""
    counts = imported.counts
    say(_sizes(options, counts))
    for line in itertools.chain(
        _notes_on_points(options, imported),
        _notes_on_labels(options, imported),
        _notes_on_weights(counts),
        _next_steps(options, imported) if options.like is None else _next_of_like(options, counts),
    ):
        say(line)


def _sizes(options: ImportOptions, counts: Counts) -> str:
    points = f"{counts.train:,} training and {counted(counts.test, 'test point')}"
    # Points in the ids of a run may be there to be evaluated on.
    if options.like is not None and not counts.test:
        points = counted(counts.train, "point")
    features, labels = counts.features, len(counts.labels.names)
    return f"{points}, {counted(features, 'feature')}, {counted(labels, 'label')} in {options.out}"


def _notes_on_points(options: ImportOptions, imported: Imported) -> Iterator[str]:
    """Points that lack something, and options that may find more."""
    counts, vectorizer = imported.counts, imported.vectorizer
    unknown = counts.without_features - counts.without_text  # points of no known word
    without = {
        "a label": counts.without_labels,
        "text": counts.without_text,
        "a feature" + (" whose text is not empty" if counts.without_text else ""): unknown,
    }
    for what, count in without.items():
        if count:
            yield f"{counted(count, 'point')} without {what}"
    tokenization_hint = None if vectorizer is None or options.like else vectorizer.tokenization_hint
    few_words = unknown > _MANY_EMPTY * (counts.train + counts.test)
    if tokenization_hint is not None and counts.test_unknown > _MANY_EMPTY * counts.test:
        few_words = True  # however few they are beside the training points
        share = counts.test_unknown / counts.test
        yield f"{share:.0%} of the test points have a text, but no feature"
    defaults = vectorizer is not None and vectorizer.token_pattern is None
    unspaced = counts.unspaced.share
    if tokenization_hint is not None and defaults and unspaced >= _MANY_UNSPACED:
        yield (
            f"{unspaced:.0%} of the letters have no spaces between words, and a clause "
            "counts as a word: --analyzer char --ngrams 1 2 finds parts of it"
        )
    elif tokenization_hint is not None and few_words:
        yield f"other options may find features in more texts: {tokenization_hint}"
    repeated = counts.repeated
    if (number := repeated.count()) > _MANY_REPEATED * repeated.points:
        points = f"{number:,} of {repeated.points:,} points repeat the text of another"
        yield f"{points} with another label: if a row has one label of a text, join its rows first"
    if (number := repeated.count_equal()) > _MANY_REPEATED * repeated.points:
        points = f"{number:,} of {repeated.points:,} points repeat the text of another"
        yield f"{points} with the same labels: test points drawn of them are training points too"
    if (hint := _items_hint(counts.overlaps)) is not None:
        yield hint


def _notes_on_labels(options: ImportOptions, imported: Imported) -> Iterator[str]:
    """Names that may not be what they should, and labels that were left out."""
    counts, labels = imported.counts, imported.counts.labels
    for column, cell in imported.label_lists.items():
        yield f"cells of {column!r} are lists such as {_shortened(cell)}: each item is a label"
    if (name := labels.list_piece) is not None:
        yield f"most labels look like pieces of lists, such as {_shortened(repr(name))}: {_LISTS}"
    # Where a separator was named, it is known what the names of new data hold. Later data may have
    # another one.
    is_known = options.like is None and options.label_separator is not None
    if imported.splits_labels and not is_known and (mark := labels.common_separator) is not None:
        which = f"labels that {options.like} lacks" if labels.new else "labels"
        yield f"most {which} hold {mark!r}: if it separates labels, --label-separator {mark!r}"
    if imported.respelled is not None:
        yield imported.respelled
    for name, count in counts.missing_values.items():
        points = f"{counted(count, 'point')} {'has' if count == 1 else 'have'}"
        yield f"{points} the label {name!r}, which looks like a missing value"
    if (variants := labels.case_variants) is not None:
        yield variants
    if names := imported.numbered_names:
        again = f"{counted(len(names), 'label')} with the text of another or none"
        yield f"{again}: named with their number, such as {names[0]!r}"
    if labels.are_numbers and (hint := _names_hint(options)):
        yield hint
    if imported.rare_labels:
        points = counted(options.min_label_count, "training point")
        yield f"{counted(imported.rare_labels, 'label')} of fewer than {points}: left out"


def _shortened(example: str) -> str:
    cut = example[: _LONGEST_EXAMPLE - 3] + "..."
    return example if len(example) <= _LONGEST_EXAMPLE else cut


def _notes_on_weights(counts: Counts) -> Iterator[str]:
    if counts.weights is not None:
        yield f"weights: {describe_weights(counts.weights)}"


def _items_hint(overlaps: Sequence[Overlap]) -> str | None:
    """What to do where features and labels seem to be the same items."""
    found = [one for one in overlaps if auto_drops_seen(one.overlap, one.expected, one.entries)]
    if not found:
        return None
    mark = max(found, key=lambda one: one.expected).mark
    option = "" if mark in (None, ImportOptions.item_separator) else f" --item-separator {mark!r}"
    return (
        "labels are features of other points, and hardly ever of their own: if both are items, "
        f"--same-items{option} predicts them better"
    )


def _names_hint(options: ImportOptions) -> str | None:
    """Where the texts of numbered labels seem to be, if they are not taken."""
    if options.label_names is not None or options.like is not None or options.same_items:
        return None
    beside = (options.source[0].with_name(f"lbl.json{end}") for end in ("", ".gz"))
    path = next((path for path in beside if path.is_file()), None)
    if path is None:
        return None
    option = f"--label-names {shlex.quote(str(path))}"
    return f"all labels are numbers: if {path.name} has their texts, {option} keeps the numbers"


def _next_steps(options: ImportOptions, imported: Imported) -> Iterator[str]:
    """What can be done with data in ids of their own."""
    if not imported.counts.test:
        draws = "a larger --test-fraction" if options.test_fraction else "--test-fraction 0.2"
        yield f"there are no test points to evaluate on: {draws} draws some"
    vectorizer = imported.vectorizer
    flag = " --weighting l2" if vectorizer is not None and vectorizer.kind == "tfidf" else ""
    yield f"next: snm train {shlex.quote(str(options.out))} --run-dir RUN{flag}"


def _next_of_like(options: ImportOptions, counts: Counts) -> Iterator[str]:
    """Labels that another run or data set lacks, and what can be done with data in its ids."""
    from snm.runs.folder import RunFolder  # imports jax

    if new := counts.labels.new:
        done = "left out" if options.new_labels == "drop" else "numbered after the others"
        yield f"{counted(len(new), 'label')} that {options.like} lacks, such as {new[0]!r}: {done}"
    run = Path(str(options.like))
    if not new or options.new_labels != "append" or not is_run(run):
        yield from next_in_known_ids(run, options.out)
    elif RunFolder(run).settings().seen == "drop":  # `snm grow` refuses it
        yield (
            "next: new items need a training anew, on rows of the old and the new ones: "
            "snm data import FILE --same-items --out DATA"
        )
    else:
        quoted, data = shlex.quote(str(run)), shlex.quote(str(options.out))
        yield f"next: snm grow {quoted} --data {data} --out NEW"
