"""Small comparisons, whose runs end at once."""

import dataclasses

import snm
from snm.compare.arms import plan_arms
from snm.compare.records import write_record


def small_arms(losses=("bowl",), mined=(2,), extras=(), **settings):
    """Arms that sample 8 labels, from the preset of the paper."""
    base = dataclasses.replace(snm.preset("paper"), sampled=8, **settings)
    return plan_arms(base, mined=mined, losses=losses, extras=extras)


def end_runs_at_once(monkeypatch, result=None):
    """Makes runs of a comparison end with `result(job)`, or without; returns the jobs in order."""
    ran = []

    def run_jobs(data, folder, jobs, num_parallel):
        folder.mkdir(exist_ok=True)
        ran.extend(jobs)
        for job in jobs if result is not None else ():
            record = {"seed": job.config.seed, "seconds": 1.0, "peak_memory_bytes": 1}
            write_record(folder / f"{job.name}.json", record | result(job))
        yield from ()

    monkeypatch.setattr("snm.compare.campaign.run_jobs", run_jobs)
    return ran
