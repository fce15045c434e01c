"""Archives of the tiny data set, as a repository would serve them."""

import io
import zipfile

import tiny

FILES = {"train.txt": "Tiny/tiny_train.txt", "test.txt": "Tiny/tiny_test.txt"}
SIZES = {"features": 30, "labels": 20, "train_points": 60, "test_points": 20}


def texts():
    head = f"{tiny.FEATURES} {tiny.LABELS}"
    return {
        "Tiny/tiny_train.txt": f"60 {head}\n" + "\n".join(tiny.rows(60, 0)) + "\n",
        "Tiny/tiny_test.txt": f"20 {head}\n" + "\n".join(tiny.rows(20, 1)) + "\n",
    }


def zipped(members, compression=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return out.getvalue()


GOOD = zipped(texts())


def said(*_):
    pass
