"""A backend of Annif that trains a model of this package.

Words are cut by the project's analyzer, as for Annif's own backends; counts of words are the
features, and the subjects of the vocabulary the labels.
"""

from __future__ import annotations

import contextlib
import dataclasses
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from annif.backend.backend import AnnifLearningBackend
from annif.backend.mixins import TfidfVectorizerMixin
from annif.exception import (
    ConfigurationException,
    NotInitializedException,
    NotSupportedException,
    OperationFailedException,
)
from annif.suggestion import SubjectSuggestion, SuggestionBatch
from annif.util import atomic_save
from scipy.sparse import csr_matrix, vstack
from scipy.special import expit
from sklearn.feature_extraction.text import TfidfVectorizer

from snm.config.settings import Config, parse_config
from snm.data.dataset import Dataset, Points
from snm.errors import InputError
from snm.export.load import load
from snm.grow.run import write_grown
from snm.prediction.predictor import Predictor
from snm.runs.folder import RunFolder
from snm.runs.stored_run import StoredRun
from snm.system.compilation_cache import enable_compilation_cache
from snm.system.files import disk
from snm.trainer.training import train

__all__ = ["SnmBackend"]

_BATCH_SIZE = 32  # documents of an Annif request
_CHUNK = 2048  # documents whose texts are in memory at once


class SnmBackend(TfidfVectorizerMixin, AnnifLearningBackend):
    """Trains, suggests and learns.

    In the project's section of `projects.cfg`, `min_df` and `ngram` are as for Annif's backend
    omikuji. Every setting of `snm train` is a parameter too, such as `preset`, `epochs` or `dim`.

    A score is the probability that the subject is right. Without held-out points to fit it
    (`memory=off`), it is the logistic function of the model's score.

    Learning works like `snm grow`: the memory of neighbours stores the documents, so their
    subjects, including new ones, are suggested at once. No training step is made.
    """

    name = "snm"
    DEFAULT_PARAMETERS = {"limit": 100, "min_df": 1, "ngram": 1}  # noqa: RUF012 (Annif's own way)

    _RUN = "snm-run"
    _NEW = "tmp-snm-run"  # Annif ignores files with such names
    _OLD = "tmp-snm-before"
    _predictor: Predictor | None = None

    def initialize(self, parallel: bool = False) -> None:
        """Loads the vectorizer and the model; with `parallel`, each process does so for itself.

        Raises:
          NotInitializedException: there is no model yet.
        """
        self.initialize_vectorizer()
        # A process that forks after jax has started its threads may hang.
        if not parallel and self._predictor is None:
            enable_compilation_cache()
            run = self._path(self._RUN)
            if not run.exists():
                self._finish_exchange()
            if not run.exists():
                raise NotInitializedException(f"no model {run}", backend_id=self.backend_id)
            with self._as_annif_errors():
                self._predictor = dataclasses.replace(load(run), block_rows=_BATCH_SIZE)

    def _train(self, corpus: Any, params: dict[str, Any], jobs: int = 0) -> None:
        if corpus == "cached":
            raise NotSupportedException("cached training data", backend_id=self.backend_id)
        if corpus.is_empty():
            raise NotSupportedException("no documents to train on", backend_id=self.backend_id)
        enable_compilation_cache()
        with self._as_annif_errors(ConfigurationException):
            config = self._settings(params)
        # Not the mixin's vectorizer, which would replace the old model's vectorizer at once.
        vectorizer = TfidfVectorizer(
            min_df=int(params["min_df"]),
            ngram_range=(1, int(params["ngram"])),
            tokenizer=self.project.analyzer.tokenize_words,
            token_pattern=None,
            use_idf=False,
            norm=None,  # counts, which the model weights itself
        )
        counts = vectorizer.fit_transform(document.text for document in corpus.documents)
        dataset = self._dataset(counts, (document.subject_set for document in corpus.documents))
        self.info(f"training on {dataset.train.num_points} documents")
        disk.remove_tree(self._path(self._NEW))
        with self._as_annif_errors():
            train(dataset, config, self._path(self._NEW), progress=False)
        atomic_save(vectorizer, self.datadir, self.VECTORIZER_FILE, method=joblib.dump)
        self.vectorizer = vectorizer
        self._exchange()

    def _learn(self, corpus: Any, params: dict[str, Any]) -> None:
        self.initialize()
        assert self._predictor is not None
        rows, subjects = [], []
        for texts, sets in _chunks(corpus.documents):
            rows.append(self._counts(texts))
            subjects += sets
        if not rows:
            return
        dataset = self._dataset(vstack(rows, format="csr"), subjects)
        names, known = dataset.label_names, self._predictor.model.spec.num_labels
        assert names is not None
        if names[:known] != tuple(self._predictor.label_names or ()):
            found = "a vocabulary of other subjects, or in another order: train again"
            raise OperationFailedException(found, backend_id=self.backend_id)
        if self._predictor.memory is None and len(names) == known:
            found = "no new subject, and no memory of neighbours to store documents: train again"
            raise NotSupportedException(found, backend_id=self.backend_id)
        new = self._path(self._NEW)
        disk.remove_tree(new)
        with self._as_annif_errors():
            old = StoredRun.open(self._path(self._RUN))
            write_grown(old, RunFolder(new), self._predictor, names, dataset, None)
        self._exchange()

    def _suggest_batch(self, documents: list[Any], params: dict[str, Any]) -> SuggestionBatch:
        if self._predictor is None:  # in one of several processes
            self.initialize()
        predictor, limit = self._predictor, int(params["limit"])
        assert predictor is not None
        counts = self._counts([document.text for document in documents])
        limit = min(limit, predictor.model.spec.num_labels)
        if limit < 1:
            return SuggestionBatch.from_sequence([[]] * len(documents), self.project.subjects)
        with self._as_annif_errors():
            labels, scores = predictor.predict(counts, limit)
        if predictor.calibration is not None:
            probabilities = predictor.probabilities(scores).astype(np.float64)
        else:
            probabilities = expit(scores.astype(np.float64))
        # Texts without a known word would all get the same suggestions.
        has_words = np.diff(counts.indptr) > 0
        return SuggestionBatch.from_sequence(
            [
                [
                    SubjectSuggestion(subject_id=label, score=score)
                    for label, score in zip(ids, values, strict=True)
                    if label >= 0 and has_word
                ]
                for ids, values, has_word in zip(
                    labels.tolist(), probabilities.tolist(), has_words, strict=True
                )
            ],
            self.project.subjects,
        )

    def _settings(self, params: dict[str, Any]) -> Config:
        """The parameters that are settings of this package."""
        fields = {field.name for field in dataclasses.fields(Config)}
        values = {name: _value(text) for name, text in params.items() if name in fields}
        return parse_config(values, str(self.project.project_id))

    def _counts(self, texts: list[str]) -> csr_matrix:
        counts = csr_matrix(self.vectorizer.transform(texts), dtype=np.float32)
        counts.sort_indices()
        return counts

    def _dataset(self, counts: Any, subject_sets: Iterable[Iterable[int]]) -> Dataset:
        """The documents that have a word and a subject."""
        subjects = self.project.subjects
        features = csr_matrix(counts, dtype=np.float32)
        features.sort_indices()
        ids, starts = [], [0]
        for subject_set in subject_sets:
            ids += sorted(subject_set)
            starts.append(len(ids))
        ones = np.ones(len(ids), np.float32)
        labels = csr_matrix((ones, np.asarray(ids, np.int32), starts),
                            shape=(features.shape[0], len(subjects)))  # fmt: skip
        kept = np.flatnonzero((np.diff(features.indptr) > 0) & (np.diff(labels.indptr) > 0))
        if not len(kept):
            found = "no document with both a known word and a subject"
            raise NotSupportedException(found, backend_id=self.backend_id)
        points = Points(features[kept], labels[kept])
        # URIs, because the labels of subjects depend on the language.
        names = tuple(str(subjects[number].uri) for number in range(len(subjects)))
        return Dataset(self.project.project_id, points, label_names=names)

    def _path(self, name: str) -> Path:
        return Path(self.datadir) / name

    def _exchange(self) -> None:
        """Replaces the current run by the new one."""
        run, old = self._path(self._RUN), self._path(self._OLD)
        disk.remove_tree(old)
        if run.exists():
            disk.rename(run, old)
        disk.rename(self._path(self._NEW), run)
        disk.remove_tree(old)
        self._predictor = None

    def _finish_exchange(self) -> None:
        """Finishes an interrupted exchange, or undoes it if the new run is not finished."""
        run, old, new = map(self._path, (self._RUN, self._OLD, self._NEW))
        if old.exists():
            disk.rename(new if _is_finished(new) else old, run)

    @contextlib.contextmanager
    def _as_annif_errors(self, kind: type[Exception] = OperationFailedException) -> Iterator[None]:
        """Turns InputError into errors that Annif shows in one line."""
        try:
            yield
        except InputError as error:
            raise kind(str(error), backend_id=self.backend_id) from error  # type: ignore[call-arg]


def _is_finished(run: Path) -> bool:
    """Whether the training is finished; a run that was stopped has no manifest yet."""
    with contextlib.suppress(InputError):
        return RunFolder(run).finished()
    return False


def _value(text: Any) -> Any:
    """A parameter of a configuration file, or of `--backend-param`, as a value of TOML."""
    try:
        return tomllib.loads(f"it = {text}")["it"]
    except ValueError:
        return str(text)


def _chunks(documents: Iterable[Any]) -> Iterator[tuple[list[str], list[Any]]]:
    """Texts and subjects of some documents at a time."""
    texts: list[str] = []
    sets: list[Any] = []
    for document in documents:
        texts.append(document.text)
        sets.append(document.subject_set)
        if len(texts) == _CHUNK:
            yield texts, sets
            texts, sets = [], []
    if texts:
        yield texts, sets
