"""The points that `snm predict` reads, and the file or stream that it writes to."""

from __future__ import annotations

import contextlib
import gzip
import io
import itertools
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from snm.errors import InputError
from snm.system.faults import STANDARD_OUTPUT, describe_error, naming

if TYPE_CHECKING:
    from snm.data.formats.questions import InputForm, Question
    from snm.prediction.predictor import Predictor

__all__ = ["PointBlock", "open_output", "read_points"]

_ROWS = 4096  # points that are read and answered at once


class PointBlock(NamedTuple):
    """Points that are answered at once: features or texts, and what is passed on of each."""

    points: Any
    fields: list[dict[str, Any]] | None = None


def read_points(
    source: Path,
    predictor: Predictor,
    *,
    form: InputForm | Literal["auto"],
    columns: Sequence[str],
    run: Path,
    stack: contextlib.ExitStack,
) -> Iterator[PointBlock]:
    """The points of a file, or of standard input, some at a time; says how it is read.

    Args:
      source: the file; `-` is standard input.
      predictor: the model.
      form: what the file holds, as `snm predict --input-format`.
      columns: those that hold the text; empty for the default.
      run: the run, for messages.
      stack: keeps what is read until it closes.

    Raises:
      InputError: a file that cannot be read, or texts for a run that knows none.
    """
    from snm.data.formats.questions import read_questions
    from snm.data.formats.records import display_name
    from snm.system.streams import print_note

    width, texts = predictor.model.num_features, predictor.vectorizer
    found = read_questions(
        source,
        form=form,
        columns=columns,
        trained_on=None if texts is None else texts.columns,
        num_features=width,
        of_texts=texts is not None,
        run=run,
        item_separator=None if texts is None else texts.item_separator,
    )
    if found.message is not None:
        print_note(found.message)
    if found.form != "sparse":
        return _text_blocks(found.texts)
    shown_name = display_name(source)
    if not source.is_file() and source.suffix.lower() not in (".npz", ".npy"):  # a pipe
        # The readers of features go over a file twice.
        source = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "features.txt"
        with source.open("w", encoding="utf-8") as kept:
            kept.writelines(f"{line}\n" for _, line in found.lines)
    return _feature_blocks(source, width, shown_name)


def _feature_blocks(source: Path, width: int, shown_name: str) -> Iterator[PointBlock]:
    """The points of a file of features, which messages call `shown_name`."""
    from snm.data.formats.feature_files import iter_features

    try:
        yield from map(PointBlock, iter_features(source, width, _ROWS))
    except InputError as error:
        where = error.where.replace(str(source), shown_name)
        raise InputError(where, error.found, error.expected) from error


def _text_blocks(questions: Iterator[Question]) -> Iterator[PointBlock]:
    while chunk := list(itertools.islice(questions, _ROWS)):
        fields = [question.fields for question in chunk]
        yield PointBlock([question.text for question in chunk], fields if any(fields) else None)


@contextlib.contextmanager
def open_output(output: Path | None) -> Iterator[Any]:
    """A stream to a file that appears when it is complete, or to standard output."""
    from snm.system.files.atomic import atomic_file
    from snm.system.signals import sigterm_raises_exit

    if output is None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8")  # as in a file, whatever the locale
        with naming(STANDARD_OUTPUT):
            yield sys.stdout
            sys.stdout.flush()
        return
    try:
        packed = output.suffix == ".gz"
        with (
            sigterm_raises_exit(),
            atomic_file(output) as beside,
            _open_text(beside, packed) as lines,
        ):
            yield lines
    except OSError as error:
        reason = describe_error(error)
        raise InputError(f"--out {output}", reason, "a file that can be written") from error


def _open_text(path: Path, packed: bool) -> Any:
    """A text file to write; `packed` by gzip."""
    if packed:
        return gzip.open(path, "wt", compresslevel=6, encoding="utf-8")
    return path.open("w", encoding="utf-8")
