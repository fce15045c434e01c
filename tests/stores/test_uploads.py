"""A folder in a store: whole for readers at every operation, also where operations fail."""

import json
import random
import shutil

import pytest
from flaky_store import KilledError

from snm.errors import InputError
from snm.stores.address import Address
from snm.stores.copies import local_copy
from snm.stores.objects import Objects, StoreError
from snm.stores.snapshots import download, newest
from snm.stores.uploads import Uploads
from snm.system.files.checksums import with_checksum

PLACE = "flaky://bucket/runs/a"
# Files change, come and go; two have the same content.
STATES = [
    {"a": b"1", "d/b": b"22" * 50},
    {"a": b"1", "d/b": b"22" * 50, "d/c": b"3", "e": b"3"},
    {"a": b"other", "d/c": b"3"},
    {"a": b"1", "d/c": b"33", "log": b"x" * 999},
]


def content(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes()
            for path in folder.rglob("*") if path.is_file()}  # fmt: skip


def write(folder, state):
    shutil.rmtree(folder, ignore_errors=True)
    for name, raw in state.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(raw)
    return {name: folder / name for name in state}


def read(folder):
    """What a reader finds: the content, or None."""
    objects = Objects(Address.of(PLACE))
    found = newest(objects)
    if found is None or not found.files:
        return None
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    download(objects, found, folder)
    return content(folder)


def begun(home):
    """The writer of a process that begins, and the number of states that it found."""
    home.mkdir(parents=True, exist_ok=True)
    uploads = Uploads(Objects(Address.of(PLACE)), home)
    uploads.begin(home / "a")
    found = content(home / "a") if (home / "a").exists() else None
    return uploads, 0 if found is None else STATES.index(found) + 1


def send_all(uploads, done, scratch):
    for number in range(done, len(STATES)):
        uploads.send(write(scratch / str(number), STATES[number]))


@pytest.mark.parametrize("share", [0.0, 0.05, 0.2])
@pytest.mark.parametrize("seed", range(3))
def test_a_reader_finds_a_whole_folder_at_every_operation(seed, share, flaky, tmp_path):
    flaky.rng, seen, looked = random.Random(seed), [], [0]

    def look(kind, name):
        flaky.before, flaky.share = staticmethod(lambda *_: None), 0.0  # for the reader
        found = read(tmp_path / "reader")
        seen.append(-1 if found is None else STATES.index(found))
        looked[0] += 1
        flaky.before, flaky.share = staticmethod(look), share

    flaky.before, flaky.share = staticmethod(look), share
    uploads, done = begun(tmp_path / "home")
    send_all(uploads, done, tmp_path)
    assert looked[0] > 40 and sorted(seen) == seen, "a reader saw an older one again"
    assert set(seen) == {-1, 0, 1, 2, 3} and bool(flaky.failed) == bool(share)


def test_killed_at_every_operation_the_next_process_goes_on(flaky, tmp_path):
    """Each time on a machine without the folder; what was left behind is removed."""
    operations = [0]

    def count(kind, name):
        operations[0] += 1
        if operations[0] == last[0]:
            raise KilledError

    last = [0]
    while True:
        last[0] += 1
        flaky.reset()
        operations[0], flaky.before = 0, staticmethod(count)
        home = tmp_path / str(last[0])
        try:
            send_all(*begun(home / "first"), home / "scratch")
            break  # there are no more operations
        except KilledError:
            flaky.before = staticmethod(lambda *_: None)
        found = read(home / "reader")
        uploads, done = begun(home / "second")
        assert done == (0 if found is None else STATES.index(found) + 1)
        send_all(uploads, done, home / "scratch")
        assert read(home / "reader") == STATES[-1]
        snapshots = [raw for name, raw in flaky.content.items() if "/snapshots/" in name]
        list_objects = {f"{PLACE}/files/{path}.{sha[:16]}" for raw in snapshots
                  for path, (_, sha) in json.loads(raw)["files"].items()}  # fmt: skip
        assert list_objects == {name for name in flaky.content if "/files/" in name}
        assert len(snapshots) == 2
    assert last[0] > 40


def test_a_folder_that_the_store_does_not_know_of_stays(flaky, tmp_path):
    """What this machine has of the newest snapshot may have gone on: a failed upload, say."""
    uploads, _ = begun(tmp_path / "home")
    uploads.send(write(tmp_path / "home" / "a", STATES[0]))
    write(tmp_path / "home" / "a", STATES[1])
    assert begun(tmp_path / "home")[1] == 2
    # Another machine went on from the first: its work is in the store, and counts.
    other, done = begun(tmp_path / "other")
    assert done == 1
    other.send(write(tmp_path / "scratch", STATES[2]))
    assert begun(tmp_path / "home")[1] == 3


def test_the_newer_of_two_processes_takes_over(flaky, tmp_path):
    old, _ = begun(tmp_path / "old")
    old.send(write(tmp_path / "scratch", STATES[0]))
    new, done = begun(tmp_path / "new")
    assert done == 1
    with pytest.raises(StoreError, match="written by another process, which has taken over"):
        old.send(write(tmp_path / "scratch", STATES[1]))
    assert read(tmp_path / "reader") == STATES[0]
    new.send(write(tmp_path / "scratch", STATES[2]))
    assert read(tmp_path / "reader") == STATES[2]


def test_the_claim_of_a_process_that_begins_meanwhile_stays(flaky, tmp_path, monkeypatch):
    """The older one has looked for others, and removes what is old."""
    old, _ = begun(tmp_path / "old")
    clear, begins = old._remove_unused, []

    def late():
        begins.append(begun(tmp_path / "new")[0])
        clear()

    monkeypatch.setattr(old, "_remove_unused", late)
    old.send(write(tmp_path / "scratch", STATES[0]))
    with pytest.raises(StoreError, match="written by another process, which has taken over"):
        old.send(write(tmp_path / "scratch", STATES[1]))
    begins[0].send(write(tmp_path / "scratch", STATES[2]))
    assert read(tmp_path / "reader") == STATES[2]


def test_objects_of_a_process_that_begins_meanwhile_stay(flaky, tmp_path, monkeypatch):
    """The older one stood still for long after its claim."""
    commit, met = Uploads._commit, []

    def late(self, files):
        commit(self, files)
        if not met:
            met.append(self)
            begun(tmp_path / "new")[0].send(write(tmp_path / "scratch", STATES[1]))

    monkeypatch.setattr(Uploads, "_commit", late)
    begun(tmp_path / "old")
    assert read(tmp_path / "reader") == STATES[1]


def test_it_gives_up_in_one_line(flaky, tmp_path):
    uploads, _ = begun(tmp_path / "home")
    flaky.broken = "/files/d/b"
    told = (rf"^{PLACE}/files/d/b\.[0-9a-f]{{16}}: gave up after 8 tries "
            r"\(ConnectionError: 503 the store is down\)$")  # fmt: skip
    with pytest.raises(StoreError, match=told):
        uploads.send(write(tmp_path / "scratch", STATES[0]))
    assert read(tmp_path / "reader") is None
    flaky.broken = ""
    uploads.send(write(tmp_path / "scratch", STATES[0]))
    assert read(tmp_path / "reader") == STATES[0]


def test_a_write_that_was_cut_off_is_done_again(flaky, tmp_path):
    flaky.cut = ["/snapshots/00000001", "/files/d/b", "/snapshots/00000002"]
    uploads, _ = begun(tmp_path / "home")
    uploads.send(write(tmp_path / "scratch", STATES[0]))
    assert not flaky.cut and read(tmp_path / "reader") == STATES[0]


@pytest.mark.parametrize("change", [lambda raw: raw[:-1], lambda raw: raw[:-1] + b"?"])
def test_a_changed_object_is_found(change, flaky, tmp_path):
    uploads, _ = begun(tmp_path / "home")
    uploads.send(write(tmp_path / "scratch", STATES[0]))
    (name,) = (name for name in flaky.content if "/files/d/b" in name)
    flaky.content[name] = change(flaky.content[name])
    with pytest.raises(StoreError, match=r"files/d/b.*(has 99 bytes, not 100|another checksum)"):
        read(tmp_path / "reader")


def test_a_snapshot_that_was_cut_off_does_not_count(flaky, tmp_path):
    uploads, _ = begun(tmp_path / "home")
    uploads.send(write(tmp_path / "scratch", STATES[0]))
    flaky.content[f"{PLACE}/snapshots/00000009-0123abcd.json"] = b'{"files": {'
    assert read(tmp_path / "reader") == STATES[0]
    again, done = begun(tmp_path / "other")
    assert done == 1
    again.send(write(tmp_path / "scratch", STATES[1]))
    assert read(tmp_path / "reader") == STATES[1]
    assert not any("0123abcd" in name for name in flaky.content)


def test_what_is_no_run_stays_as_it_is(flaky, tmp_path):
    """Nothing is removed but what an upload wrote."""
    flaky.content[f"{PLACE}/files/thesis.tex"] = b"years of work"
    told = rf"{PLACE}: found something that is no run \('files/thesis.tex'\), expected a new or"
    with pytest.raises(InputError, match=told):
        begun(tmp_path / "home")
    del flaky.content[f"{PLACE}/files/thesis.tex"]
    uploads, _ = begun(tmp_path / "home")
    names = ("files/a", "files-of-mine/x.txt", "snapshots/x")
    mine = {f"{PLACE}/{name}": b"mine" for name in names}
    flaky.content |= mine
    send_all(uploads, 0, tmp_path)
    begun(tmp_path / "other")
    assert flaky.content.items() >= mine.items()


def test_names_stay_in_the_folder(flaky, tmp_path):
    uploads, _ = begun(tmp_path / "home")
    uploads.send({"../outside": write(tmp_path / "scratch", {"a": b"1"})["a"]})
    with pytest.raises(InputError, match=r"found an object named '\.\./outside', expected names"):
        read(tmp_path / "reader")


@pytest.mark.parametrize(
    "files", [["a"], {"a": 1}, {"a": [1]}, {"a": ["1", "0" * 64]}, {"a": [1, "../../other"]}]
)
def test_a_snapshot_of_another_form_is_one_line(files, flaky, tmp_path):
    text = with_checksum({"format": "snm snapshot 1", "files": files})
    flaky.content[f"{PLACE}/snapshots/00000001-0123abcd.json"] = json.dumps(text).encode()
    with pytest.raises(InputError, match=r"0123abcd\.json: found a list of files of another form"):
        read(tmp_path / "reader")


def test_an_object_that_was_removed_by_hand_is_named(flaky, tmp_path):
    uploads, _ = begun(tmp_path / "home")
    uploads.send(write(tmp_path / "scratch", STATES[0]))
    (name,) = (name for name in flaky.content if "/files/d/b" in name)
    del flaky.content[name]
    told = rf"{name}: no such object, but listed: removed by hand"
    with pytest.raises(StoreError, match=told):
        begun(tmp_path / "other")
    with pytest.raises(StoreError, match=told):
        local_copy(PLACE)


def test_checksums_of_files_that_are_no_more_are_forgotten(flaky, tmp_path):
    """A long run has many checkpoints."""
    uploads, _ = begun(tmp_path / "home")
    for number in range(5):
        uploads.send(write(tmp_path / str(number), {str(number): b"1", "log": b"1" * number}))
    assert len(uploads._digests) == 2


def test_an_address_without_its_package_says_what_to_install():
    with pytest.raises(InputError, match=r"gs://bucket/a: found no package gcsfs, expected pip"):
        Objects(Address.of("gs:/bucket/a"))
