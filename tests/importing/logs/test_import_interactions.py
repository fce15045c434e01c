"""`snm.import_interactions`, against the command."""

import subprocess
import sys

import pytest
from command_line import call, contents
from data.logs import log, write_csv

import snm
from snm.errors import InputError


@pytest.mark.parametrize(
    "options",
    [
        dict(test_fraction=0.2, seed=3),
        dict(leave_last=1, min_users=3, separator=";"),
        dict(test_from=400),
    ],
)
def test_it_makes_what_the_command_makes(options, tmp_path, capsys):
    source = write_csv(tmp_path / "log.csv", log(items=40, count=500))
    flags = [
        word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)
    ]
    call("data", "interactions", source, "--out", tmp_path / "of command", "--time", "when", *flags)
    said = capsys.readouterr().out.splitlines()
    found = snm.import_interactions(str(source), tmp_path / "here", time="when", **options)
    assert capsys.readouterr() == ("", "")
    one, other = (
        {path.name: content for path, content in contents(tmp_path / name).items()}
        for name in ("of command", "here")
    )
    assert one == other and len(one) == 6
    data = snm.load_data(tmp_path / "here")
    assert found["train_points"] == data.train.num_points
    assert found["test_points"] == data.test.num_points
    assert found["items"] == len(data.label_names)
    assert found["notes"] and said[1:-2] == found["notes"]


def test_it_refuses_what_the_command_refuses(tmp_path):
    source = write_csv(tmp_path / "log.csv", log())
    (tmp_path / "there").mkdir()
    for out, wrong, said in (
        ("there", {}, "there: found a file or folder of that name, expected a new folder"),
        ("out", dict(user="who"), "no column 'who'"),
        ("out", dict(label_share=1), "label_share: found 1, expected above 0, below 1"),
        ("out", dict(like=tmp_path / "none"), "none: found no such"),
    ):
        with pytest.raises(InputError) as error:
            snm.import_interactions(source, tmp_path / out, **wrong)
        assert said in str(error.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.csv", "there"]


def test_it_needs_no_parser_of_commands(tmp_path):
    source = write_csv(tmp_path / "log.csv", log())
    code = (
        "import sys, snm; "
        f"snm.import_interactions({str(source)!r}, {str(tmp_path / 'out')!r}, time='when'); "
        "sys.exit('tyro' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert (tmp_path / "out" / "train.txt").exists()
