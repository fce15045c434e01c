"""Malicious and damaged archives: nothing is written outside the target folder."""

import io
import tarfile
import zipfile

import pytest
from data.repository.archives import FILES, GOOD, said, texts, zipped

from snm.data.repository import unpack as unpacking
from snm.data.repository.fetch import fetch
from snm.data.repository.registry import Entry, Mirror
from snm.data.repository.unpack import unpack
from snm.errors import InputError


def tarred(*members):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for info, data in members:
            archive.addfile(info, io.BytesIO(data) if data is not None else None)
    return out.getvalue()


def info(name, data=b"", kind=tarfile.REGTYPE, link=""):
    found = tarfile.TarInfo(name)
    found.size, found.type, found.linkname = len(data), kind, link
    return found, data if kind == tarfile.REGTYPE else None


def a_link_in_a_zip():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        link = zipfile.ZipInfo("Tiny/tiny_train.txt")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
        archive.writestr("Tiny/tiny_test.txt", "1 1 1\n")
    return out.getvalue()


def without_a_name():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(zipfile.ZipInfo("x"), "1 1 1\n")
    raw, end = out.getvalue(), out.getvalue().rindex(b"PK\x05\x06")
    start = raw.index(b"PK\x01\x02")
    # The directory says that the name has no byte, and that a comment of one follows.
    entry = raw[start:end][:28] + b"\0\0" + b"\0\0" + b"\1\0" + raw[start:end][34:]
    return raw[:start] + entry + raw[end:]


MALICIOUS = {
    "a path upwards": (zipped({**texts(), "../escaped.txt": "x"}), "'../escaped.txt'"),
    "a path upwards, in Windows' way": (zipped({**texts(), "a\\..\\..\\x": "x"}), "paths inside"),
    "an absolute path": (zipped({**texts(), "/tmp/escaped": "x"}), "'/tmp/escaped'"),
    "a drive": (zipped({**texts(), "C:\\x": "x"}), "paths inside"),
    "a path upwards in a tar": (tarred(info("../../x", b"x")), "'../../x'"),
    "a link in a tar": (
        tarred(info("Tiny/tiny_train.txt", kind=tarfile.SYMTYPE, link="/etc/passwd")),
        "no plain file",
    ),
    "a hard link in a tar": (
        tarred(info("Tiny/tiny_train.txt", kind=tarfile.LNKTYPE, link="../x")),
        "no plain file",
    ),
    "a device in a tar": (tarred(info("Tiny/tiny_train.txt", kind=tarfile.CHRTYPE)), "no plain"),
    "a link in a zip": (a_link_in_a_zip(), "a link, expected a plain file"),
    "a member without a name": (without_a_name(), "no file tiny_train.txt"),
    "no archive": (b"hello" * 100, "another kind of file, expected a zip or tar archive"),
    "half a zip": (GOOD[: len(GOOD) // 2], "another kind of file"),
    "a missing file": (zipped({"Tiny/tiny_train.txt": "1 1 1\n"}), "no file tiny_test.txt"),
    "two of a name": (
        zipped({"a/tiny_train.txt": "", "b/tiny_train.txt": "", "tiny_test.txt": ""}),
        "2 files tiny_train.txt",
    ),
}


@pytest.mark.parametrize("what", MALICIOUS)
def test_malicious_archives_write_nothing(tmp_path, what):
    content, message = MALICIOUS[what]
    place = tmp_path / "deep" / "place"
    place.mkdir(parents=True)
    archive = place / "x.zip"
    archive.write_bytes(content)
    wanted = Entry("Tiny-20", (Mirror(url="http://x", files=FILES),))
    with pytest.raises(InputError) as error:
        fetch(wanted, place / "out", said, archive=archive)
    assert message in str(error.value), str(error.value)
    written = {path for path in tmp_path.rglob("*") if path.is_file()}
    assert written == {archive}


def test_a_decompression_bomb_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("snm.data.repository.unpack._ALWAYS_ALLOWED", 1 << 20)
    archive = tmp_path / "bomb.zip"
    archive.write_bytes(zipped({"train.txt": "0" * (4 << 20)}, zipfile.ZIP_DEFLATED))
    assert archive.stat().st_size < 10_000
    with pytest.raises(InputError, match="expected at most 100 times the archive's size"):
        unpack(archive, {"train.txt": "train.txt"}, {}, tmp_path)
    assert (tmp_path / "train.txt").stat().st_size < 3 << 20


def test_a_damaged_member_is_an_error(tmp_path):
    content = bytearray(GOOD)
    content[200] ^= 1
    archive = tmp_path / "x.zip"
    archive.write_bytes(bytes(content))
    with pytest.raises(InputError, match=r"damage in Tiny/tiny_train\.txt"):
        unpack(archive, FILES, {}, tmp_path)


def test_a_full_disk_is_no_damage_of_the_archive(tmp_path):
    archive = tmp_path / "x.zip"
    archive.write_bytes(GOOD)
    (tmp_path / "train.txt").symlink_to("/dev/full")
    with pytest.raises(InputError, match=r"train\.txt: found no space left on device"):
        unpack(archive, FILES, {}, tmp_path)


def test_members_of_a_tar_are_counted_as_they_are_read(tmp_path, monkeypatch):
    """Equal names too, of which there is one entry in the end."""
    monkeypatch.setattr(unpacking, "_MEMBERS", 3)
    path = tmp_path / "a.tar.gz"
    path.write_bytes(tarred(*[info("Tiny/train.txt", b"%d" % n) for n in range(3)]))
    unpack(path, {"train.txt": "Tiny/train.txt"}, {}, tmp_path)
    assert (tmp_path / "train.txt").read_bytes() == b"2"
    path.write_bytes(tarred(*[info("Tiny/train.txt", b"%d" % n) for n in range(4)]))
    with pytest.raises(InputError, match="found over 3 members, expected at most 3"):
        unpack(path, {"train.txt": "Tiny/train.txt"}, {}, tmp_path)
