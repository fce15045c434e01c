"""Launchers of several processes, and their options."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs.processes.several_processes import assert_same, ended, free_port, of_one, start, together

from snm.distributed.launch import ProcessOptions, launched
from snm.errors import InputError


def open_mpi(number, processes):
    """The environment of mpirun, whose first variable gives JAX the address and port."""
    return {
        "OMPI_MCA_orte_hnp_uri": f"{free_port() * 4096}.0;tcp://127.0.0.1:1234",
        "OMPI_COMM_WORLD_SIZE": str(processes),
        "OMPI_COMM_WORLD_RANK": str(number),
        "OMPI_COMM_WORLD_LOCAL_RANK": str(number),
    }


def slurm(number, processes):
    return {
        "SLURM_JOB_ID": str(os.getpid()),
        "SLURM_STEP_NODELIST": "localhost",
        "SLURM_STEP_NUM_TASKS": str(processes),
        "SLURM_NTASKS": str(processes),
        "SLURM_PROCID": str(number),
        "SLURM_LOCALID": str(number),
    }


@pytest.mark.slow
@pytest.mark.parametrize("launcher", [open_mpi, slurm])
def test_launchers_are_detected(launcher, data, tiny_run, tmp_path):
    given = [launcher(number, 2) for number in range(2)]
    for one in given:  # one job, so one address
        one.update({key: given[0][key] for key in one if "uri" in key})
    found = together(data, tmp_path / "two", "--mesh=data=2", launcher=lambda n, _: given[n])
    assert_same(found, of_one(tiny_run))


def test_a_batch_script_or_a_single_task_is_one_process():
    assert launched(slurm(0, 2)) and launched(open_mpi(1, 2))
    assert launched({"TPU_WORKER_HOSTNAMES": "a,b"})
    assert not launched({**slurm(0, 1), **open_mpi(0, 1)})
    assert not launched({"SLURM_NTASKS": "4", "SLURM_JOB_ID": "1"})


WHOLE = dict(coordinator="host:1234", num_processes=4, process_id=3)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (dict(coordinator="host"), "--coordinator: found 'host', expected HOST:PORT"),
        (dict(coordinator="host:0"), "--coordinator"),
        (dict(coordinator="host:70000"), "--coordinator"),
        (dict(process_id=4), "--process-id: found 4, expected 0 to 3"),
        (dict(process_id=-1), "--process-id"),
        (dict(num_processes=0), "--num-processes: found 0, expected 1 or more"),
        (dict(process_id=None), "--process-id: found nothing"),
        (dict(coordinator=None, process_id=None), "--coordinator, --process-id: found nothing"),
        (dict(peer_timeout=0), "--peer-timeout"),
    ],
)
def test_inconsistent_options_are_refused(changes, said):
    with pytest.raises(InputError) as error:
        ProcessOptions(**{**WHOLE, **changes}).check(launched=False)
    assert error.value.as_flags.startswith(said)


@given(st.text(max_size=12))
def test_addresses_are_accepted_or_refused(text):
    try:
        ProcessOptions(**{**WHOLE, "coordinator": text}).check(launched=False)
    except InputError:
        return
    host, port = text.rsplit(":", 1)
    assert host and 0 < int(port) < 65536


@pytest.mark.slow
def test_a_mesh_that_the_processes_do_not_divide_is_refused_by_all(data, tmp_path):
    for mesh in ("--mesh=data=1", "--mesh=label=3"):
        for status, said in ended(start(data, tmp_path / "run", mesh), within=400):
            assert status == 2
            assert "a multiple of the 2 processes, for example data=2" in said.splitlines()[-1]
    assert not (tmp_path / "run").exists()
