"""The container file, the batch script and the JobSet: read by the rules of what runs them."""

import json
import math
import os
import re
import shlex
import stat
import subprocess
import tomllib

import pages
import pytest
import yaml

from snm.cli.main import parse
from snm.distributed.mesh import parse_mesh
from snm.errors import STOPPED
from snm.stores.address import KINDS, Address

PAGE = pages.ROOT / "docs/devices.md"


def block(kind: str, start: str) -> str:
    """The one block of the page of this kind that begins so."""
    (text,) = (b.text for b in pages.blocks(PAGE) if b.kind == kind and b.text.startswith(start))
    return text


def make_devices(words: list[str]) -> int:
    """The devices of the mesh of an `snm train` command, which the command line must read."""
    assert words[:2] == ["snm", "train"]
    return math.prod(parse_mesh(parse(words[1:]).settings.mesh))


# -- the container file ------------------------------------------------------------------------


def instructions() -> list[tuple[str, str]]:
    lines = (pages.ROOT / "Containerfile").read_text().replace("\\\n", " ").splitlines()
    return [tuple(line.split(" ", 1)) for line in lines if line and not line.startswith("#")]


def test_the_container_file_has_what_a_build_needs():
    known = {"FROM", "ARG", "WORKDIR", "COPY", "RUN", "ENV", "USER", "ENTRYPOINT"}
    found = instructions()
    assert found[0][0] == "FROM" and {name for name, _ in found} <= known
    project = tomllib.loads((pages.ROOT / "pyproject.toml").read_text())["project"]
    (python,) = re.findall(r"^python:(3\.\d+)-slim$", found[0][1])
    low, high = re.fullmatch(r">=3\.(\d+),<3\.(\d+)", project["requires-python"]).groups()
    assert int(low) <= int(python.split(".")[1]) < int(high)
    (entry,) = (json.loads(text) for name, text in found if name == "ENTRYPOINT")
    assert entry[0] in project["scripts"]
    for name, text in found:
        if name == "COPY":
            *sources, target = text.split()
            assert all((pages.ROOT / source).exists() for source in sources)
            # A folder's content is copied, not the folder.
            assert target == ("./" if len(sources) > 1 else sources[0])
    # A number, as a pod that must not run as root wants one; of the user who is made before.
    names = [name for name, _ in found]
    (user,) = (text for name, text in found if name == "USER")
    made = names.index("USER") - 2
    assert int(user) > 0 and found[made][1].startswith(f"useradd --uid {user} ")
    assert names.index("USER") < names.index("ENTRYPOINT")


@pytest.mark.parametrize("extra", ["cuda12", "cuda13", "tpu", "tpu,gcs", ""])
def test_the_container_file_installs_the_extra(extra, tmp_path):
    """The line that installs, in a shell whose pip tells what it is asked for."""
    (line,) = (t for name, t in instructions() if name == "RUN" and t.startswith("pip "))
    pip = tmp_path / "pip"
    pip.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    pip.chmod(stat.S_IRWXU)
    env = {"PATH": f"{tmp_path}:{os.defpath}", "EXTRA": extra}
    told = subprocess.run(["sh", "-c", line], env=env, capture_output=True, text=True, check=True)
    asked = told.stdout.split()
    wanted = ["serve", "sklearn", *filter(None, extra.split(","))]  # it serves and reads texts
    assert asked[0] == "install" and f".[{','.join(wanted)}]" in asked
    assert asked[asked.index("-c") + 1] == "constraints.txt"
    extras = tomllib.loads((pages.ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    assert all(one in extras for one in wanted)


# -- SLURM -------------------------------------------------------------------------------------

SBATCH = {  # options of sbatch that the script may use, and what their values look like
    "nodes": r"\d+",
    "ntasks-per-node": r"\d+",
    "gpus-per-node": r"\d+",
    "signal": r"(B:)?[A-Z]+\d?@\d+",
    "requeue": "",
    "time": r"(\d+-)?\d+:\d+:\d+",
}


def sbatch(script: str) -> dict[str, str]:
    """The options of a batch script; raises AssertionError for one that sbatch does not read."""
    lines = script.splitlines()
    assert lines[0].startswith("#!")
    options, commands = {}, False
    for line in lines[1:]:
        if line.startswith("#SBATCH"):
            assert not commands, f"behind the first command, where sbatch stops reading: {line}"
            (word,) = shlex.split(line.removeprefix("#SBATCH"), comments=True)
            name, _, value = word.removeprefix("--").partition("=")
            assert name in SBATCH and re.fullmatch(SBATCH[name], value), line
            options[name] = value
        commands |= bool(line) and not line.startswith("#")
    return options


def test_the_batch_script_starts_one_task_a_gpu():
    script = block("bash", "#!")
    options = sbatch(script)
    tasks = int(options["nodes"]) * int(options["ntasks-per-node"])
    assert options["ntasks-per-node"] == options["gpus-per-node"]
    (line,) = (words for words in pages.commands(script) if words[0] == "srun")
    assert make_devices(line[1:]) == tasks
    # The signal must reach the tasks, not the shell alone, and the job must be queued again.
    assert not options["signal"].startswith("B:") and "requeue" in options
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)


@pytest.mark.parametrize(
    ("before", "after"),
    [("--nodes", "--node"), ("--gpus-per-node=8", "--gpus-per-node=many"), ("#!", "srun true\n#!")],
)
def test_a_wrong_batch_script_is_found(before, after):
    with pytest.raises(AssertionError):
        sbatch(block("bash", "#!").replace(before, after, 1))


# -- GKE ---------------------------------------------------------------------------------------

TEXT, COUNT = str, int
WORDS = {str: str}
JOBSET = {  # fields of a JobSet, jobset.x-k8s.io/v1alpha2, that the page uses; ! is required
    "apiVersion!": TEXT,
    "kind!": TEXT,
    "metadata!": {"name!": TEXT, "annotations": WORDS},
    "spec!": {
        "failurePolicy": {
            "maxRestarts": COUNT,
            "rules": [{"action!": TEXT, "onJobFailureReasons": [TEXT]}],
        },
        "replicatedJobs!": [
            {
                "name!": TEXT,
                "replicas": COUNT,
                "template!": {
                    "spec!": {
                        "parallelism": COUNT,
                        "completions": COUNT,
                        "backoffLimit": COUNT,
                        "podFailurePolicy": {
                            "rules!": [
                                {
                                    "action!": TEXT,
                                    "onExitCodes": {
                                        "containerName": TEXT,
                                        "operator!": TEXT,
                                        "values!": [COUNT],
                                    },
                                }
                            ]
                        },
                        "template!": {
                            "spec!": {
                                "restartPolicy!": TEXT,
                                "serviceAccountName": TEXT,
                                "terminationGracePeriodSeconds": COUNT,
                                "nodeSelector": WORDS,
                                "containers!": [
                                    {
                                        "name!": TEXT,
                                        "image!": TEXT,
                                        "args": [TEXT],
                                        "env": [{"name!": TEXT, "value": TEXT}],
                                        "resources": {"limits": {str: COUNT}},
                                    }
                                ],
                            }
                        },
                    }
                },
            }
        ],
    },
}
# Chips of a host in slices of several hosts, by the label of the accelerator.
SLICES = {"tpu-v5-lite-podslice": 4, "tpu-v5p-slice": 4, "tpu-v6e-slice": 4}


def wrong(value, schema, where="") -> list[str]:
    """Where a value is not what a schema says."""
    if isinstance(schema, list):
        if not isinstance(value, list) or not value:
            return [f"{where}: no list"]
        return [w for i, one in enumerate(value) for w in wrong(one, schema[0], f"{where}[{i}]")]
    if not isinstance(schema, dict):
        return [] if isinstance(value, schema) and value is not True else [f"{where}: {value!r}"]
    if not isinstance(value, dict):
        return [f"{where}: no mapping"]
    if str in schema:
        return [w for key, one in value.items() for w in wrong(one, schema[str], f"{where}.{key}")]
    fields = {name.rstrip("!"): of for name, of in schema.items()}
    missing = {name[:-1] for name in schema if name.endswith("!")} - value.keys()
    found = [f"{where}.{name}: missing" for name in sorted(missing)]
    for key, one in value.items():
        known = key in fields
        found += wrong(one, fields[key], f"{where}.{key}") if known else [f"{where}.{key}: unknown"]
    return found


def jobset() -> dict:
    return yaml.safe_load(block("yaml", "apiVersion: jobset"))


def test_the_jobset_fills_its_slice():
    found = jobset()
    assert wrong(found, JOBSET) == []
    assert (found["apiVersion"], found["kind"]) == ("jobset.x-k8s.io/v1alpha2", "JobSet")
    (slices,) = found["spec"]["replicatedJobs"]
    job = slices["template"]["spec"]
    pod = job["template"]["spec"]
    (container,) = pod["containers"]
    selected = pod["nodeSelector"]
    topology = selected["cloud.google.com/gke-tpu-topology"]
    chips = math.prod(int(side) for side in topology.split("x"))
    a_host = container["resources"]["limits"]["google.com/tpu"]
    assert a_host == SLICES[selected["cloud.google.com/gke-tpu-accelerator"]]
    assert job["parallelism"] == job["completions"] == chips // a_host > 1
    assert make_devices(["snm", *container["args"]]) == chips
    # One pod that fails ends all, and all begin again from the newest checkpoint.
    assert job["backoffLimit"] == 0 and pod["restartPolicy"] == "Never"
    policy = found["spec"]["failurePolicy"]
    assert policy["maxRestarts"] > 0
    # A stop that was asked for is none of these restarts.
    (at,) = (rule["onExitCodes"] for rule in job["podFailurePolicy"]["rules"])
    assert (at["containerName"], at["values"]) == (container["name"], [STOPPED])
    (rule,) = policy["rules"]
    assert rule["action"] == "RestartJobSetAndIgnoreMaxRestarts"
    assert rule["onJobFailureReasons"] == ["PodFailurePolicy"]
    # Data, run and programs are in a store, whose package the image has.
    places = [*container["args"][1:4:2], *(one["value"] for one in container["env"])]
    assert len(places) == 3 and {Address.of(place).scheme for place in places} == {"gs"}
    built = next(c for c in pages.commands(block("console", "$ docker build")) if "build" in c)
    extras = built[built.index("--build-arg") + 1].partition("=")[2].split(",")
    assert built[built.index("--tag") + 1] == container["image"]
    assert extras == ["tpu", KINDS["gs"].extra]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda spec: spec.update(replicatedjobs=[]), ".spec.replicatedjobs: unknown"),
        (lambda spec: spec.pop("replicatedJobs"), ".spec.replicatedJobs: missing"),
        (lambda spec: spec["failurePolicy"].update(maxRestarts="3"), "maxRestarts: '3'"),
        (
            lambda spec: spec["replicatedJobs"][0]["template"]["spec"].update(template=[]),
            ".template: no mapping",
        ),
    ],
)
def test_a_wrong_jobset_is_found(change, told):
    found = jobset()
    change(found["spec"])
    (line,) = wrong(found, JOBSET)
    assert told in line
