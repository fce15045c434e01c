"""The backend in Annif's own command line, library and registry; skipped where Annif is missing."""

import importlib.util
import itertools
import json
import shutil
import subprocess
import sys

import numpy as np
import pytest

import snm.annif
from snm.errors import InputError

NOISE = tuple(f"noise{number}" for number in range(9))
WORDS = ("apple", "bread", "chair", "drill", "eagle", "fjord")
NEEDS_ANNIF = pytest.mark.skipif(
    importlib.util.find_spec("annif") is None, reason="Annif is not installed (extra annif)"
)
# Of Annif and what it imports.
QUIET = [pytest.mark.filterwarnings("ignore::DeprecationWarning"),
         pytest.mark.filterwarnings("ignore::UserWarning"), NEEDS_ANNIF]  # fmt: skip
SETTINGS = {"backend": "snm", "dim": "4", "members": "1", "epochs": "1", "memory": "on",
            "language": "en", "vocab": "set", "analyzer": "simple", "limit": "4",
            "allow_learn": "true"}  # fmt: skip


def documents(count, subjects, seed=0):
    """Texts and subjects: a text has the words of its subjects, and one more."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(count):
        own = sorted(rng.choice(subjects, 2, replace=False).tolist())
        words = [WORDS[number] for number in own] + [NOISE[rng.integers(9)]]
        found.append((" ".join(words), own))
    return found


@pytest.fixture(scope="module")
def sentences(tmp_path_factory):
    """NLTK's parameters of sentences, which Annif would fetch: none."""
    punkt = pytest.importorskip("nltk.tokenize.punkt", reason="Annif is not installed")
    place = tmp_path_factory.mktemp("nltk")
    folder = place / "tokenizers" / "punkt_tab" / "english"
    folder.mkdir(parents=True)
    punkt.save_punkt_params(punkt.PunktParameters(), dir=str(folder))
    return place


class Project:
    """What a backend sees of an Annif project."""

    project_id = "wood"

    def __init__(self, folder, subjects):
        import annif.corpus  # noqa: F401 (before the vocabulary, which it imports)
        from annif.analyzer import get_analyzer
        from annif.vocab import Subject, SubjectIndexFile

        self.datadir, self.analyzer = str(folder), get_analyzer("simple")
        self.subjects = SubjectIndexFile()
        for number in range(subjects):
            self.subjects.append(Subject(f"http://example.org/{number}", {"en": str(number)}, None))


def corpus_of(rows):
    from annif.corpus import Document, DocumentList, SubjectSet

    return DocumentList([Document(text=text, subject_set=SubjectSet(own)) for text, own in rows])


def backend_of(folder, subjects, **changes):
    from annif.backend import get_backend

    snm.annif.register()
    project = Project(folder, subjects)
    return get_backend("snm")("snm", config_params={**SETTINGS, **changes}, project=project)


def suggested(backend, *texts, limit=2):
    """The ids of the best subjects of texts, best first, and the scores."""
    from annif.corpus import Document

    batch = backend.suggest([Document(text=text) for text in texts], {"limit": limit})
    scores = batch.array.toarray()
    order = np.argsort(-scores, axis=1, kind="stable")[:, :limit]
    return [
        [int(one) for one in row if scores[at, one] > 0] for at, row in enumerate(order)
    ], scores


@pytest.fixture(scope="module")
def trained(sentences, tmp_path_factory):
    """A folder of a project that knows five subjects; to change it, copy it."""
    folder = tmp_path_factory.mktemp("annif")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NLTK_DATA", str(sentences))
        import nltk

        patch.setattr(nltk.data, "path", [str(sentences)])
        backend = backend_of(folder, 5)
        backend.train(corpus_of([*documents(600, 5), ("", [1]), ("apple", [])]))
    assert snm.load(folder / "snm-run").memory is not None, "its neighbours tell more"
    return folder


@pytest.fixture
def place(trained, sentences, tmp_path, monkeypatch):
    import nltk

    monkeypatch.setattr(nltk.data, "path", [str(sentences)])
    return shutil.copytree(trained, tmp_path / "project")


@pytest.fixture(autouse=True)
def _quietly(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["annif"])


class TestOfAProject:
    pytestmark = QUIET

    def test_it_suggests_what_it_was_taught(self, place):
        backend = backend_of(place, 5)
        assert backend.is_trained and not list(place.glob("tmp-*"))
        found, scores = suggested(backend, "apple drill", "eagle bread noise3", "zebra")
        assert [sorted(one) for one in found] == [[0, 3], [1, 4], []]
        assert scores.min() >= 0 and scores.max() <= 1 and (scores > 0).sum() == 4
        assert suggested(backend, "apple", limit=1)[0] == [[0]]
        # As the run answers that anybody can load.
        model = snm.load(place / "snm-run")
        counts = backend.vectorizer.transform(["apple drill"])
        labels, likely = model.predict_proba(counts.astype(np.float32), 2)
        np.testing.assert_allclose(scores[0, labels[0]], likely[0], rtol=1e-5)

    def test_it_learns_documents_and_subjects(self, place):
        """A new subject takes the place of an old one in texts with the same words."""
        backend = backend_of(place, 6)
        before = suggested(backend, "chair noise1", limit=1)[0]
        assert before == [[2]]
        taught = [("chair", [5])] * 3 + [("chair noise1", [5])] * 30 + [("unheard", [5])]
        backend.learn(corpus_of(taught))
        assert 5 in suggested(backend, "chair noise1")[0][0]
        again = backend_of(place, 6)
        assert 5 in suggested(again, "chair noise1")[0][0]
        assert sorted(suggested(again, "apple drill")[0][0]) == [0, 3], "what it knew, it knows"
        run = snm.load(place / "snm-run")
        assert run.label_names[5] == "http://example.org/5"
        # Without a new subject too: this is stored beside those of before.
        again.learn(corpus_of([("eagle chair", [0])]))
        assert len(snm.load(place / "snm-run").memory.rows) == len(run.memory.rows) + 1

    def test_it_learns_only_with_the_vocabulary_it_knows(self, place):
        """Rows of old subjects would be those of others."""
        from annif.exception import OperationFailedException
        from annif.vocab import Subject

        for number, uri in ((0, "http://example.org/1"), (4, "http://example.org/other")):
            backend = backend_of(place, 6)
            backend.project.subjects._subjects[number] = Subject(uri, {"en": uri}, None)
            with pytest.raises(OperationFailedException, match="another order: train again"):
                backend.learn(corpus_of([("chair", [5])]))
        with pytest.raises(OperationFailedException, match="train again"):
            backend_of(place, 4).learn(corpus_of([("chair", [2])]))
        assert snm.load(place / "snm-run").model.spec.num_labels == 5

    def test_what_it_cannot_do_is_one_line(self, place, tmp_path):
        from annif.exception import AnnifException

        def refused(act, *words):
            with pytest.raises(AnnifException, match=words[0]) as error:
                act(*words[1:])
            assert "\n" not in error.value.format_message()

        backend = backend_of(place, 5)
        refused(backend.train, "cached", "cached")
        refused(backend.train, "no documents", corpus_of([]))
        refused(backend.train, "both a known word and a subject", corpus_of([("apple", [])] * 9))
        wrong = backend_of(place, 5, dim="eight")
        refused(wrong.train, "wood: dim: found 'eight'", corpus_of(documents(9, 5)))
        refused(backend_of(tmp_path / "no", 5).initialize, "vectorizer file")
        (place / "snm-run" / "weighting.npz").write_bytes(b"x")
        refused(backend_of(place, 5).initialize, r"weighting\.npz: found a damaged")
        shutil.rmtree(place / "snm-run")
        refused(backend_of(place, 5).initialize, "no model")

    def test_without_a_memory_it_learns_new_subjects_alone(self, place):
        from annif.exception import NotSupportedException

        backend = backend_of(place, 5, memory="off", epochs="3")
        backend.train(corpus_of(documents(60, 5)))
        scores = suggested(backend, "apple drill")[1]
        assert 0 < scores.max() <= 1, "the logistic function of the score"
        with pytest.raises(NotSupportedException, match="train again"):
            backend.learn(corpus_of(documents(3, 5)))
        grown = backend_of(place, 6, memory="off")
        grown.learn(corpus_of([("fjord apple", [5])]))
        assert snm.load(place / "snm-run").model.spec.num_labels == 6

    def test_training_that_fails_or_is_interrupted_leaves_the_model(self, place, monkeypatch):
        from annif.exception import AnnifException

        import snm.annif.backend as module

        def stopped(*_, **__):
            raise KeyboardInterrupt

        before = suggested(backend_of(place, 5), "apple drill")[0]
        others = [(f"zebra {text}", own) for text, own in documents(20, 5, seed=1)]
        failing = backend_of(place, 5)
        with pytest.raises(AnnifException, match="memory on: found 20 training points"):
            failing.train(corpus_of(others))
        assert suggested(failing, "apple drill")[0] == before
        monkeypatch.setattr(module, "train", stopped)
        with pytest.raises(KeyboardInterrupt):
            backend_of(place, 5).train(corpus_of(others))
        again = backend_of(place, 5)
        assert suggested(again, "apple drill")[0] == before
        assert "zebra" not in again.vectorizer.vocabulary_

    def test_an_interrupted_exchange_is_undone(self, place):
        (place / "snm-run").rename(place / "tmp-snm-before")
        assert sorted(suggested(backend_of(place, 5), "apple drill")[0][0]) == [0, 3]
        # The new run is whole, and was not yet in its place.
        shutil.copytree(place / "snm-run", place / "tmp-snm-run")
        (place / "snm-run").rename(place / "tmp-snm-before")
        (place / "tmp-snm-before" / "result.json").unlink()
        assert sorted(suggested(backend_of(place, 5), "apple drill")[0][0]) == [0, 3]
        assert (place / "snm-run" / "result.json").exists()
        # The next training was stopped before its first file was whole.
        shutil.rmtree(place / "tmp-snm-before")
        (place / "snm-run").rename(place / "tmp-snm-before")
        (place / "tmp-snm-run").mkdir()
        assert sorted(suggested(backend_of(place, 5), "apple drill")[0][0]) == [0, 3]
        assert (place / "snm-run" / "result.json").exists()


@pytest.mark.slow
@NEEDS_ANNIF
def test_annifs_command_line(tmp_path, sentences, monkeypatch):
    """load-vocab, train, suggest, learn and eval, each a process of its own."""
    monkeypatch.setenv("NLTK_DATA", str(sentences))
    monkeypatch.chdir(tmp_path)
    vocabulary = "".join(f"<http://example.org/{n}>\t{word}\n" for n, word in enumerate(WORDS))
    (tmp_path / "vocab.tsv").write_text(vocabulary)
    more = [(" ".join(three), [5]) for three in itertools.combinations(NOISE, 3)]
    for name, rows in (("train", documents(600, 5)), ("test", documents(40, 5, seed=1)),
                       ("more", more)):  # fmt: skip
        lines = (
            f"{text}\t{' '.join(f'<http://example.org/{n}>' for n in own)}\n" for text, own in rows
        )
        (tmp_path / f"{name}.tsv").write_text("".join(lines))
    lines = [f"{key}={value}\n" for key, value in {"name": "wood", **SETTINGS}.items()]
    (tmp_path / "projects.cfg").write_text("[wood]\n" + "".join(lines))

    def annif(*words, text=None):
        done = subprocess.run([sys.executable, "-m", "snm.annif", *words], input=text,
                              capture_output=True, text=True)  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    annif("load-vocab", "--language", "en", "set", "vocab.tsv")
    annif("train", "wood", "train.tsv")
    assert "<http://example.org/3>\tdrill" in annif("suggest", "-l", "1", "wood", text="drill")
    annif("eval", "-M", "metrics.json", "wood", "test.tsv")
    told = json.loads((tmp_path / "metrics.json").read_text())
    assert told["Documents_evaluated"] == 40 and told["Precision@1"] > 0.9
    annif("eval", "--jobs", "2", "-M", "again.json", "wood", "test.tsv")
    assert json.loads((tmp_path / "again.json").read_text()) == told
    annif("learn", "wood", "more.tsv")
    votes = snm.load(tmp_path / "data" / "projects" / "wood" / "snm-run").memory.labels
    assert votes[:, 5].sum() == len(more) == 84


def test_without_annif(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "annif", None)
    monkeypatch.delitem(sys.modules, "annif.backend", raising=False)
    with pytest.raises(InputError, match=r"pip install -e '\.\[annif\]'"):
        snm.annif.register()
    with pytest.raises(SystemExit) as stop:
        snm.annif.main()
    said = capsys.readouterr().err
    assert stop.value.code == 2 and said.count("\n") == 1 and "pip install" in said
