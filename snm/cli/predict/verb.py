"""`snm predict`."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, arg

from snm.cli.predict.streams import PointBlock, open_output, read_points
from snm.data.formats.questions import InputForm, no_texts_error
from snm.errors import InputError
from snm.stores.marks import CopiedRun
from snm.text import counted

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from scipy.sparse import csr_matrix

    from snm.prediction.answer_lines import AnswerBlock
    from snm.prediction.predictor import Predictor

    _LabelLists = tuple[NDArray[np.int32] | None, NDArray[np.int32] | None]

__all__ = ["Predict"]


@dataclasses.dataclass
class Predict:
    """Write the best labels of each point of a file; the file may be larger than memory.

    INPUT holds features or, where the run was trained on `snm data import`, texts: CSV, JSON lines,
    Parquet, or one text a line. The format is detected from its name and how it begins. Columns
    other than the text's are passed on. A point without a known feature or word gets no labels, and
    is marked as unknown; `snm evaluate` takes the labels with the highest biases as its
    predictions.

    For example:

      snm predict runs/articles --text "the saw cuts wood"
      snm predict runs/articles new.csv --k 5 --out answers.jsonl
      cat new.txt | snm predict runs/articles - > answers.jsonl
      snm predict runs/eurlex X.tst.npz --out answers.txt --format sparse
      snm predict runs/articles new.jsonl --out answers.jsonl --explain
      snm predict runs/articles new.csv --labels topics.txt --k 3
      snm predict runs/articles new.csv --exclude spam.txt
      snm predict runs/articles new.csv --k 20 --threshold 0.5
      snm predict runs/articles new.csv --threshold micro-f1
    """

    run: Annotated[Positional[CopiedRun[Path]], arg(metavar="RUN")]
    """Folder of a run, or of `snm export --to npy` or `--to hub`; or an address of one in a store
    (gs://bucket/runs/a) or on the Hugging Face Hub (hf://owner/name)."""
    input: Annotated[Positional[Path | None], arg(metavar="INPUT")] = None
    """Points: CSV, JSON lines, text (also .gz), Parquet; features in the repository's text form,
    SciPy .npz or dense .npy. `-` is standard input."""
    text: tuple[str, ...] = ()
    """Texts to label, instead of INPUT."""
    out: Path | None = None
    """File to write, by default standard output; not INPUT, nor named as a table (.csv). A file
    whose name ends in .gz is compressed."""
    k: int | None = None
    """Number of labels for each point; by default 5, or all where there are fewer, or as many as a
    threshold by name was chosen on."""
    labels: Path | None = None
    """File of the labels to choose from, names or ids, one a line; by default all. Predictions
    among them are exact, and take time by the number of these labels. A number is an id, unless
    labels have numbers for names. Names that the run does not know are left out."""
    exclude: Path | None = None
    """List of labels that must not be predicted, a file as for --labels, such as items that are
    sold out: each point gets the best of the others. It may be empty, and --labels may be given
    too."""
    format: Literal["jsonl", "sparse"] = "jsonl"
    """JSON lines with names and scores, or rows of `label:score` as in the repository's files. Rows
    need --out, and a name that does not end in .gz: the number of points, in the first line, is
    written last."""
    input_format: Literal["auto", InputForm] = "auto"
    """What INPUT holds: one text a line, CSV, JSON lines, Parquet, or features; auto finds out."""
    columns: tuple[str, ...] = ()
    """Columns of CSV or Parquet, or fields of JSON lines, that hold the text; several are joined.
    By default those that the run was trained on, or `text`."""

    probabilities: bool = False
    """Add to each label the probability that it is right; with --format sparse, in place of the
    scores. `snm train` fits them where it tries a memory of neighbours."""
    threshold: Annotated[str | None, arg(metavar="P|GOAL")] = None
    """The least probability of a label: a number from 0 to 1, or micro-f1, macro-f1 or f1@k, the
    threshold with the highest F1 on held-out points, over the best 50 labels of each or the best k.
    `snm train` chooses it on the points that fit the probabilities."""
    explain: bool = False
    """Add the terms of each score, which is a sum over features or words, a bias, and the votes of
    neighbours; and, where the run uses a memory of neighbours, the training points that voted for
    the label, with the features that they share. Needs JSON lines as output."""
    verify: bool = True
    """Compare the parameters with their checksums first; --no-verify loads sooner, from a disk that
    is trusted."""

    def __call__(self) -> None:
        """Streams points through the model; the output file appears when it is complete.

        Raises:
          InputError: no run, input that cannot be read, or an output that cannot be written.
        """
        from snm.export.load import load
        from snm.prediction.answer_lines import FORMATS
        from snm.prediction.candidates.parse import parse_k
        from snm.runs.unfinished import note_if_unfinished
        from snm.system.compilation_cache import enable_compilation_cache
        from snm.system.streams import print_note
        from snm.system.terminal import say, text_spinner

        enable_compilation_cache()
        _check(self)
        output = self.out
        predictor = load(self.run, verify=self.verify)
        note_if_unfinished(self.run)
        if self.probabilities:
            predictor.fitted_calibration()  # refused before it takes time
        if self.threshold is not None:
            predictor.threshold(self.threshold)
        parse_k(self.k, None, predictor.model.spec.num_labels)  # before anything is printed
        lists = _label_lists(self, predictor)
        form = FORMATS[self.format](predictor.label_names, predictor.model.spec.num_labels)
        rows = unknown = unlikely = 0
        with contextlib.ExitStack() as stack:
            blocks = _points(self, predictor, stack)
            lines = stack.enter_context(open_output(output))
            report = None if output is None else stack.enter_context(text_spinner("points"))
            form.begin(lines)
            for found in _answers(self, predictor, blocks, lists):
                lines.writelines(form.lines(found))
                rows, unknown = rows + len(found.labels), unknown + int(found.unknown.sum())
                unlikely += int((~found.unknown & (found.labels < 0).all(axis=1)).sum())
                if report is not None:
                    report(counted(rows, "point"))
            form.end(lines, rows)
        points = counted(rows, "point")
        if unknown:
            what = "feature"
            if (texts := predictor.vectorizer) is not None:
                mark = texts.item_separator
                what = "known word" if mark is None else f"known item (separator {mark!r})"
            print_note(f"{unknown:,} of {points} without a {what}: answered as unknown")
        if unlikely and self.threshold is not None:
            few = f"{unlikely:,} of {points} without a label that is as likely as"
            print_note(f"{few} --threshold {self.threshold}: answered with none")
        if output is not None:
            say(f"wrote the labels of {points} to {output}")


def _label_lists(command: Predict, predictor: Predictor) -> _LabelLists:
    """The labels to choose from, and those that are no answers: int32 [S] each, or None.

    Raises:
      InputError: as `read_labels`.
    """
    from snm.cli.predict.label_lists import read_labels

    among, exclude = command.labels, command.exclude
    return (
        None if among is None else read_labels(among, predictor),
        None if exclude is None else read_labels(exclude, predictor, may_be_none=True),
    )


def _points(
    command: Predict, predictor: Predictor, stack: contextlib.ExitStack
) -> Iterator[PointBlock]:
    """The points of `--text` or of the input, some at a time; says how a file is read."""
    if command.input is not None:
        return read_points(
            command.input,
            predictor,
            form=command.input_format,
            columns=command.columns,
            run=command.run,
            stack=stack,
        )
    if predictor.vectorizer is None:
        raise no_texts_error("--text", "text", command.run)
    return iter([PointBlock(list(command.text))])


def _answers(
    command: Predict, predictor: Predictor, blocks: Iterator[PointBlock], lists: _LabelLists
) -> Iterator[AnswerBlock]:
    """The answers of the points of `blocks`, some at a time.

    Args:
      command: what is asked for.
      predictor: the model.
      blocks: the points.
      lists: what may be answers.
    """
    from snm.prediction.answer_lines import AnswerBlock

    with_probabilities = command.probabilities or command.threshold is not None
    for block in blocks:
        features, first = predictor.as_rows(block.points), 0
        request = features, command.k, *lists
        answers: Iterator[tuple[NDArray, NDArray, NDArray | None]]
        if with_probabilities:
            answers = predictor.top_proba(*request, threshold=command.threshold)
        else:
            answers = ((labels, scores, None) for labels, scores in predictor.top(*request))
        for labels, scores, p in answers:
            rows = slice(first, first + len(labels))
            chunk = features[rows]
            yield AnswerBlock(
                labels,
                scores,
                predictor.blank(chunk),
                probabilities=p if command.probabilities else None,
                fields=block.fields and block.fields[rows],
                reasons=_reasons(predictor, chunk, labels) if command.explain else None,
            )
            first = rows.stop


def _check(command: Predict) -> None:
    """Refuses what needs no look into the run."""
    from snm.prediction.answer_lines import FORMATS

    if command.explain and not FORMATS[command.format].explains:
        raise InputError("--explain", f"--format {command.format}", "JSON lines")
    if command.threshold is not None:
        from snm.prediction.thresholds import parse_threshold

        parse_threshold(command.threshold)
    _check_input(command)
    _check_output(command, begins_with_count=FORMATS[command.format].seeks)


def _check_input(command: Predict) -> None:
    """Refuses points of two places, or of none, and options that say nothing of them."""
    if (command.input is None) == (not command.text):
        found = "neither INPUT nor --text" if command.input is None else "INPUT and --text"
        raise InputError("snm predict", found, "one of them (INPUT may be -, standard input)")
    if command.input is not None and command.input.is_dir():
        raise InputError(str(command.input), "a folder", "a file of points")
    if command.text and (command.columns or command.input_format != "auto"):
        flag = "--columns" if command.columns else "--input-format"
        raise InputError(flag, "--text", "INPUT: texts of the command line have no form")


def _check_output(command: Predict, *, begins_with_count: bool) -> None:
    """Refuses an output that cannot hold the format, or would overwrite what is needed."""
    from snm.system.files.checks import check_writable

    output, of_format = command.out, f"--format {command.format}"
    if output is None:
        if begins_with_count:
            raise InputError(of_format, "no --out", "a file: it begins with a count")
        return
    where = f"--out {output}"
    if begins_with_count and output.suffix == ".gz":
        raise InputError(where, of_format, "another name: its first line comes last")
    check_writable("--out", output)
    for source in (command.input, command.labels, command.exclude):
        if source and source.exists() and output.exists() and output.samefile(source):
            raise InputError(where, "the file that is read", "another file")
    suffix = Path(output.name.removesuffix(".gz")).suffix
    if suffix.lower() in (".csv", ".tsv", ".parquet", ".xlsx"):
        expected = "a name such as answers.jsonl: answers are lines of JSON, or rows of label:score"
        raise InputError(where, f"the ending {suffix}", expected)


def _reasons(
    predictor: Predictor, features: csr_matrix, labels: NDArray[np.int32]
) -> list[list[dict[str, Any]]]:
    """For each point and label what `--explain` adds, ready for JSON."""
    explained = []
    for of_point in predictor.reasons(features, labels):
        parts_of_labels: list[dict[str, Any]] = []
        for reason in of_point:
            parts_of_labels.append({"parts": reason.as_json()})
            if predictor.memory is not None:
                parts_of_labels[-1]["because"] = reason.witnesses_as_json()
        explained.append(parts_of_labels)
    return explained
