"""A run on texts, and texts to label."""

import tiny

import snm
from snm.data.vectorizer import Vectorizer

WORDS = tuple(f"word{number:02}" for number in range(tiny.FEATURES))
TEXTS = ["word03 word21 word07", "word19 word25", "nothing known", "", "word11 word11 word02"]


def run_of_texts(folder):
    """A run on tiny data whose features are words of texts in the columns `title` and `text`."""
    data, columns = tiny.write(folder / "data"), ("title", "text")
    words = Vectorizer("counts", tiny.FEATURES, vocabulary=WORDS, columns=columns)
    words.write(data / "vectorizer.json")
    snm.train(data, tiny.CONFIG, folder / "run")
    return folder / "run"
