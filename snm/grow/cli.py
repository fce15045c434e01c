"""`snm grow`: a new run folder, complete or absent."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from snm.errors import InputError
from snm.stores.marks import CopiedRun
from snm.text import counted

if TYPE_CHECKING:
    from snm.data.dataset import Dataset
    from snm.data.id_space import IdSpace
    from snm.grow.rows import NewRowCounts
    from snm.memory.memory import Memory
    from snm.prediction.predictor import Predictor

__all__ = ["Grow"]


@dataclasses.dataclass
class Grow:
    """Add labels and points to a trained model, and write it as a new run.

    The embeddings of old labels stay as they are. A new label starts at the mean embedding of the
    points of DATA that have it. Without such points, it starts at the embedding of its name (runs
    on texts), at one predicted from labels with similar names, or at random. Train the new run with
    `snm train --warm-start`.

    Where the run uses a memory of neighbours, the new run keeps it, and stores the points of DATA
    too: their labels, new or old, get votes at once. So DATA may also come without new labels.

    For example:

      snm grow runs/a --labels new.txt --data data/grown --out runs/grown
      snm grow runs/a --data data/since --out runs/today
      snm train data/grown --run-dir runs/b --warm-start runs/grown
    """

    run: Annotated[Positional[CopiedRun[Path]], arg(metavar="RUN")]
    """Folder of a finished run."""
    out: Path
    """Folder of the new run; must not exist."""
    labels: Path | None = None
    """File with the names of the new labels, one per line; their ids follow the old ones. By
    default the names of DATA that the run lacks."""
    data: str | None = None
    """Data set with old and new labels, which are mapped by their names. Points that the memory of
    neighbours has already may be in it or not."""
    same_ids: bool = False
    """Take labels without names to mean the same in DATA as in the run."""

    def __call__(self) -> None:
        """Writes the grown run.

        Raises:
          InputError: no finished run, names that exist already, data with other labels, neither new
            labels nor a memory that could store new points, or a folder that exists.
        """
        from snm.data.id_space import renumber_labels
        from snm.data.load import load as load_data
        from snm.grow.run import write_grown
        from snm.runs.folder import RunFolder
        from snm.runs.stored_run import StoredRun
        from snm.system.files.atomic import atomic_folder
        from snm.system.files.checks import check_new
        from snm.system.terminal import say, waiting

        out = self.out
        check_new("--out", out)
        if self.same_ids and self.data is None:
            raise InputError("--same-ids", "no --data", "the data that have the same ids")
        old = StoredRun.open(self.run)
        predictor = old.load()
        if not old.all_trained:
            raise InputError(str(self.run), "a run that is not finished", "a finished one")
        before = tuple(predictor.label_names or map(str, range(predictor.model.spec.num_labels)))
        dataset = None if self.data is None else load_data(self.data)
        run_ids = old.ids()
        names = _new_names(self, before, dataset, run_ids)
        _check_growth(self, predictor, names)
        if dataset is not None:
            grown = dataclasses.replace(
                run_ids,
                num_labels=len(before) + len(names),
                label_names=None if run_ids.label_names is None else before + names,
            )
            # New labels come with new data, whose hash is not comparable.
            same_ids = self.same_ids or bool(names)
            dataset, mapped = renumber_labels(dataset, grown, same_ids=same_ids, train_too=True)
            if mapped is not None:
                say(mapped)
        with atomic_folder("--out", out) as partial, waiting(f"growing {self.run}"):
            counts, memory = write_grown(
                old, RunFolder(partial), predictor, before + names, dataset, self.data
            )
        for line in _report(self, predictor, counts, memory):
            say(line)


def _check_growth(command: Grow, predictor: Predictor, names: tuple[str, ...]) -> None:
    """Raises InputError if the run cannot have new labels, or if there is nothing to add."""
    from snm.data.id_space import TRAIN_ANEW

    is_recommender, memory = predictor.model.drop_seen, predictor.memory
    if names and is_recommender:
        found = "new labels for a run in which labels and features are the same items (seen drop)"
        expected = "none, only points for its memory" if memory else "another run"
        where = "--labels" if command.labels else "--data"
        raise InputError(where, found, f"{expected}; {TRAIN_ANEW}")
    if not names and (command.data is None or memory is None):
        found = "none" if memory else "none, and a run without a memory of neighbours"
        expected = "new labels, or --data with points for the memory of a run"
        if is_recommender:
            points = "--data with points for its memory"
            expected = f"{points if memory else 'a run with a memory'}; {TRAIN_ANEW}"
        raise InputError("--labels", found, expected)


def _report(
    command: Grow, predictor: Predictor, counts: NewRowCounts, memory: Memory | None
) -> Iterator[str]:
    """Yields the lines about new rows and stored points, and the next command.

    Args:
      command: the command.
      predictor: the model of the old run.
      counts: the number of new rows by origin.
      memory: the memory of the new run.
    """
    from snm.runs.warm_start_hint import IF_ALL_POINTS, warm_start_flags

    old_labels = f"the {predictor.model.spec.num_labels:,} of {command.run}"
    new = counts.total
    if new:
        random = f"{counts.random:,} at random"
        if counts.random:
            random += " (without points, and names that tell nothing)"
        yield (
            f"added {counted(new, 'label')} to {old_labels}; rows at the start: "
            f"{counts.points:,} by points, {counts.names:,} by name, {random}; "
            f"written to {command.out}"
        )
    else:
        yield f"no new label beside {old_labels}; written to {command.out}"
    if memory is not None and predictor.memory is not None:
        stored, before = len(memory.rows), len(predictor.memory.rows)
        yield f"memory of neighbours: {stored:,} stored points, before {before:,}"
    if new and predictor.calibration is not None:
        yield "probabilities were fitted without the new labels; a training anew fits them to all"
    data = shlex.quote(command.data or "DATA")
    yield f"next: snm train {data} --run-dir RUN {warm_start_flags(command.out)}"
    yield f"      {IF_ALL_POINTS}"


def _new_names(
    command: Grow, before: tuple[str, ...], dataset: Dataset | None, run_ids: IdSpace
) -> tuple[str, ...]:
    """The names of `--labels`, or those of the data that the run lacks."""
    from snm.data.formats.line_files import read_lines
    from snm.data.names import normalize_name

    path, known = command.labels, set(before)
    if path is None:
        if dataset is None or dataset.label_names is None or run_ids.label_names is None:
            return ()
        return tuple(name for name in dataset.label_names if name not in known)
    known |= {normalize_name(name) for name in before}
    names = [normalize_name(name) for name in read_lines(path)]
    if not names:
        raise InputError(str(path), "no name", "names of new labels, one per line")
    line_of: dict[str, int] = {}
    for number, name in enumerate(names, 1):
        found = None
        if not name:
            found = "an empty line"
        elif name in known:
            found = f"{name!r}, which the run has already"
        elif name in line_of:
            found = f"{name!r}, which line {line_of[name]} has already"
        if found is not None:
            raise InputError(f"{path}:{number}", found, "a new name on each line")
        line_of[name] = number
    return tuple(names)
