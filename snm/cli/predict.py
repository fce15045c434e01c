"""`snm predict`."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, arg

from snm.errors import InputError

if TYPE_CHECKING:
    import numpy as np

    from snm.model.predictor import Predictor

__all__ = ["Predict"]

_ROWS = 4096  # points that are read and answered at once


@dataclasses.dataclass
class Predict:
    """Write the best labels of each point of a file; the file may be larger than memory.

    For example:

      snm predict runs/eurlex new.txt --k 5 --output answers.jsonl
      snm predict runs/eurlex X.tst.npz --output answers.txt --format sparse
      snm predict runs/articles new.jsonl --output answers.jsonl
      snm predict runs/articles new.jsonl --output answers.jsonl --explain
    """

    run: Annotated[Positional[Path], arg(metavar="RUN")]
    """Folder of a run."""
    input: Annotated[Positional[Path], arg(metavar="INPUT")]
    """Features: text with or without labels (also .gz), SciPy .npz, or dense .npy."""
    output: Path
    """File to write."""
    k: int = 5
    """Number of labels for each point."""
    format: Literal["jsonl", "sparse"] = "jsonl"
    """JSON lines with names and scores, or rows of `label:score` as in the repository's files."""
    texts: bool = False
    """Read INPUT as one text per line. JSON lines with "text" need no flag. The run must have been
    trained on `snm data import`."""

    explain: bool = False
    """Add to each label the training points whose labels spoke for it, with the features that they
    share. The run must use a memory of neighbours, the output be JSON lines."""

    def __call__(self) -> None:
        """Runs the verb."""
        from snm.system.cache_folder import keep_programs

        keep_programs()
        _run(self)


def _run(command: Predict) -> None:
    """Streams a file of features through a model; the output file appears when it is complete.

    Raises:
      InputError: no run, input that cannot be read, or an output that cannot be written.
    """
    from snm.runs.load import load
    from snm.system.files import whole_file
    from snm.system.terminal import progress_bar, say

    output, form = command.output, command.format
    if output.is_dir() or not output.resolve().parent.is_dir():
        found = "a folder" if output.is_dir() else "no such folder"
        raise InputError(f"--output {output}", found, "a file in a folder that exists")
    predictor = load(command.run)
    if command.explain and (predictor.memory is None or form == "sparse"):
        found = "--format sparse" if form == "sparse" else "a run without a memory of neighbours"
        raise InputError("--explain", found, "JSON lines of a run where --memory pays")
    names = predictor.label_names if form == "jsonl" else None
    rows = 0
    try:
        with (
            whole_file(output) as beside,
            beside.open("w", encoding="utf-8") as lines,
            progress_bar(counted=False) as bar,
        ):
            task = bar.add_task("points", total=None)
            if form == "sparse":
                # Space for the number of rows, which is known only at the end.
                lines.write(f"{'':>20} {predictor.model.head.num_labels}\n")
            for features in _inputs(command.input, predictor.model.num_features, command.texts):
                rows_of = predictor.as_rows(features)
                first = 0
                for labels, scores in predictor.top(rows_of, command.k):
                    because = None
                    if command.explain:
                        block = rows_of[first : first + len(labels)]
                        because = _because(predictor, block, labels)
                    lines.writelines(_lines(labels, scores, names, form, because))
                    first, rows = first + len(labels), rows + len(labels)
                    bar.update(task, completed=rows, description=f"{rows:,} points")
            if form == "sparse":
                lines.seek(0)
                lines.write(f"{rows:<20}")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"--output {output}", reason, "a file that can be written") from error
    say(f"wrote the labels of {rows:,} points to {output}")


def _inputs(source: Path, num_features: int, texts: bool) -> Iterator[Any]:
    """Chunks of a file of features, or of texts."""
    packed = source.name.removesuffix(".gz").lower()
    if not texts and not packed.endswith(".jsonl"):
        from snm.data.formats.dispatch import iter_features

        yield from iter_features(source, num_features, _ROWS)
        return
    from snm.data.formats.foreign import read_texts

    rows = read_texts(source)
    while chunk := list(itertools.islice(rows, _ROWS)):
        yield chunk


def _because(predictor: Predictor, features: Any, labels: np.ndarray) -> list[Any]:
    """For each point and label, the training points that spoke for it, ready for JSON."""
    words = None if predictor.vectorizer is None else predictor.vectorizer.vocabulary
    return [
        [
            [
                {
                    "train_row": None if one.row < 0 else one.row,
                    "similarity": round(one.similarity, 4),
                    "shares": [f if words is None else words[f] for f in one.features],
                }
                for one in of_label
            ]
            for of_label in of_point
        ]
        for of_point in predictor.witnesses(features, labels)
    ]


def _lines(
    labels: np.ndarray,
    scores: np.ndarray,
    names: tuple[str, ...] | None,
    form: str,
    because: list[Any] | None = None,
) -> Iterator[str]:
    for number, (ids, of_ids) in enumerate(zip(labels, scores, strict=True)):
        row, row_scores = ids[ids >= 0].tolist(), of_ids[ids >= 0].tolist()
        if form == "sparse":
            pairs = sorted(zip(row, row_scores, strict=True))
            yield " ".join(f"{label}:{score:.6g}" for label, score in pairs) + "\n"
            continue
        answer: dict[str, Any] = {"labels": row}
        if names is not None:
            answer["names"] = [names[label] for label in row]
        answer["scores"] = [round(score, 6) for score in row_scores]
        if because is not None:
            answer["because"] = because[number][: len(row)]
        yield json.dumps(answer, ensure_ascii=False) + "\n"
