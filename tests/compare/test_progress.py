"""What a comparison says of the time that it will take."""

from compare.campaigns import small_arms

from snm.compare.arms import BASELINE
from snm.compare.campaign import Campaign
from snm.compare.jobs import Running
from snm.compare.progress import Display, seconds_left


def test_seconds_left_are_of_the_arms():
    """An arm that was not timed has the mean pace of the others: (2 + 6) / 2 seconds an epoch."""
    durations = (("a", 18.0, 10), ("a", 22.0, 10), ("b", 60.0, 10))
    left, later = (("a", 10), ("c", 10)), (("b", 5),)
    state = Running(3, 5, [], durations=durations, left=left, later=later)
    assert seconds_left(state, 1) == (20.0 + 40.0 + 30.0, {"a", "b"})
    assert seconds_left(state, 2)[0] == 45.0
    assert seconds_left(Running(0, 5, [], left=left), 1) == (0.0, set())


def test_an_estimate_follows_the_first_run_and_a_better_one_the_first_of_every_arm(capsys):
    display, runs = Display(), (("a", 10), ("b", 10), ("a", 10), ("b", 10))
    durations = (("a", 60.0, 10), ("b", 600.0, 10), ("a", 60.0, 10), ("b", 600.0, 10))
    for done in range(5):
        state = Running(
            done, 4, [], durations=durations[:done], left=runs[done:], later=(("a", 5),)
        )
        display("equal steps", state)
        display("equal steps", state)
    said = [line for line in capsys.readouterr().out.splitlines() if "left" in line]
    # 3 runs of 60 s and half of one; then 60, 600 and 30 s.
    assert said == ["about 3.5 min left: 4 runs", "about 12 min left: 3 runs"]


def test_runs_of_later_stages_count(dataset, tmp_path, monkeypatch):
    states = []
    monkeypatch.setattr(
        "snm.compare.campaign.run_jobs", lambda *_: (state for state in [Running(0, 2, [])])
    )
    campaign = Campaign(
        "tiny", dataset, small_arms(epochs=4), tmp_path, seeds=3, tune=True, tune_epochs=2,
        equal_seconds=True, on_progress=lambda *told: states.append(told),
    )  # fmt: skip
    next(campaign.run())
    ((stage, state),) = states
    assert stage == "equal steps"
    trials = [(BASELINE, 2)] * 6 + [("top-2", 2)] * 6
    tuned = [(BASELINE, 4), ("top-2", 4)] * 3
    assert state.later == (*trials, *tuned, *[(BASELINE, 4)] * 3)
