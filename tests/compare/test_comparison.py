"""What a comparison trains, writes into its tables, and hands to peers."""

import csv
import dataclasses
import shutil

import pytest
import tiny
from compare.campaigns import end_runs_at_once, small_arms
from compare.comparison import BASE, NAMES, arm, full, results, unprobed

import snm
from snm.compare.arms import BASELINE
from snm.compare.campaign import Campaign
from snm.compare.cli import Compare, _peers
from snm.compare.peers.process import PeerOptions
from snm.compare.records import write_record
from snm.compare.report.flat import results_csv
from snm.compare.report.html.page import page
from snm.compare.report.markdown import markdown
from snm.compare.report.summary import summarize
from snm.compare.report.tables import all_sheets
from snm.compare.report.verdict import verdict
from snm.compare.worker import run_task
from snm.config.resolve import resolve


def test_each_cell_is_of_its_own_metric():
    own = {name: float(number) for number, name in enumerate(NAMES)}
    one = arm("top-16", [4.0, 8.0], [2.0, 4.0])
    one |= {"mean": own, "ratio": dict.fromkeys(NAMES)}
    found = {sheet.title: sheet for sheet in all_sheets(results(arm(BASE, [2.0, 4.0]), one))}
    for title, before, names in (
        ("Equal steps", 2, ("R@1", "R@3", "R@5", "P@1", "P@3", "P@5")),
        ("Ranking and rare labels", 1, ("nDCG@1", "nDCG@3", "nDCG@5", "PSP@1", "PSP@3", "PSP@5")),
    ):
        assert found[title].columns[before:] == names
        assert found[title].rows[1][before:] == tuple(f"{own[name]:.2f}" for name in names)


def test_a_comparison_with_auc_tells_it():
    arms = [arm(BASE, [2.0, 4.0]), arm("top-16", [4.0, 8.0], [2.0, 4.0])]
    for each, values in zip(arms, ((80.0, 90.0), (90.0, 97.0)), strict=True):
        for seed, value in zip(each["seeds"], values, strict=True):
            seed["metrics"] |= {"AUC": value, "points": 9}
    for each in arms:
        each |= summarize(each["seeds"], arms[0]["seeds"])
    found = results(*arms)
    sheet = {sheet.title: sheet for sheet in all_sheets(found)}["Ranking and rare labels"]
    assert sheet.columns[-1] == "AUC" and "AUC: how often" in sheet.note
    assert sheet.rows[1][-1].startswith("93.50") and "(1.10" in sheet.rows[1][-1]
    first, *_, last = csv.DictReader(results_csv(found).splitlines())
    assert (first["AUC"], last["AUC"], last["ratio AUC"]) == ("80.0", "97.0", "1.1")
    assert "points" not in first
    (plain,) = [sheet for sheet in all_sheets(results(arm(BASE, [2.0, 4.0])))
                if sheet.title == "Ranking and rare labels"]  # fmt: skip
    assert plain.columns[-1] == "PSP@5" and "AUC" not in plain.note


def test_all_labels_are_told_by_their_number():
    """The results have 33 labels, so that a point's label has 32 others."""
    sizes = [
        ({"mined": 16}, "16 of 32"),
        ({"mined": "all", "sampled": "all"}, "all of 32"),
        ({"mined": 16, "sampled": "all", "mined_start": "all"}, "all to 16 of 32"),
        ({"mined": 4, "sampled": 8, "sampled_start": "all"}, "4 of 32 to 8"),
    ]
    arms = [arm(BASE, [1.0, 2.0]) | changed for changed, _ in sizes]
    (sheet,) = [each for each in all_sheets(results(*arms)) if each.title == "Equal steps"]
    assert [row[1] for row in sheet.rows] == [cell for _, cell in sizes]


def test_what_else_stands_in_the_tables():
    found = {sheet.title: sheet for sheet in all_sheets(full())}
    assert found["Time and memory"].columns == ("arm", "seconds", "examples/s", "memory, MiB")
    assert found["Time and memory"].rows[2] == ("top-16", "4.5", "1,000", "512")
    assert found["Each arm at its best"].rows[1][1] == "rate 50, weight 4"
    assert found["Equal seconds"].rows[0][1:3] == ("4", "4.5")
    assert found["Peers"].columns[-2:] == ("seconds", "memory, MiB")
    assert found["Peers"].rows[0][-2:] == ("1.5", "256")
    assert found["Published figures"].rows == (("theirs", "77.25", "-"),)
    assert found["Published figures"].columns == ("method", "P@1", "P@3")


def test_settings_in_which_arms_differ_are_told():
    """A loss has its own rate and scale: neither table nor verdict calls such arms equal."""
    bowl = arm(BASE, [1.0, 2.0], loss="bowl", learning_rate=50.0, vartheta="top")
    soft = arm("softmax", [2.0, 3.0], loss="softmax", learning_rate=20.25, vartheta=None)
    found = results(bowl, soft)
    sheet = {sheet.title: sheet for sheet in all_sheets(found)}["Settings of the arms"]
    assert sheet.columns == ("arm", "loss", "learning_rate", "vartheta")
    assert sheet.rows == ((BASE, "bowl", "50", "top"), ("softmax", "softmax", "20.25", "-"))
    assert verdict(found)[0].endswith("Settings are not equal: arms differ in learning rate.")
    same = results(arm(BASE, [1.0, 2.0]), arm("top-1", [2.0, 3.0]))
    assert "Settings of the arms" not in {sheet.title for sheet in all_sheets(same)}
    assert "not equal" not in verdict(same)[0]


def test_what_a_comparison_sets_itself_is_told_beside_the_arms():
    """Votes of a memory are the same for all losses, so a report of arms that have one says so."""
    found = results(unprobed(arm(BASE, [1.0, 2.0])), unprobed(arm("top-1", [2.0, 3.0])))
    alone = "Each run is one model of all training points, without validation, a memory of"
    votes = "Each run is one model, without validation, and has a memory of neighbours where"
    settings = found["plan"]["settings"]
    for memory, adjustment, said in (("off", "off", alone), ("on", "off", votes),
                                     ("on", "on", votes)):  # fmt: skip
        settings |= {"memory": memory, "logit_adjustment": adjustment}
        for text in (markdown(found), page(found), all_sheets(found)[0].note):
            assert said in text
            assert ("can hide differences between arms" in text) == (memory == "on")
            assert ("and a logit adjustment where" in text) == (adjustment == "on")
        assert ("All arms have a memory" in verdict(found)[0]) == (memory == "on")


def test_what_a_comparison_trains(dataset, tmp_path, monkeypatch):
    """Runs are told apart by seed; trials are on the held-out fifth, and the best one counts."""
    ran = end_runs_at_once(monkeypatch, lambda job: {"metrics": {"R@1": job.config.learning_rate}})
    arms = small_arms(epochs=4)
    *_, found = Campaign("tiny", dataset, arms, tmp_path, seeds=2, tune=True, tune_epochs=3).run()
    table, trials, tuned = ran[:4], ran[4:16], ran[16:]
    assert [(job.arm, job.config.seed) for job in table] == [
        (BASELINE, 0), ("top-2", 0), (BASELINE, 1), ("top-2", 1)
    ]  # fmt: skip
    assert {(job.split, job.config.epochs) for job in trials} == {("validation", 3)}
    assert {(job.split, job.config.epochs) for job in (*table, *tuned)} == {("test", 4)}
    assert {job.config.learning_rate for job in tuned} == {150.0}  # of 16.7, 50 and 150
    assert found["tuning"]["top-2"]["best"]["learning_rate"] == 150.0


@pytest.mark.parametrize("data", ["bibtex", "gs://bucket/sets/a"])
def test_a_plan_names_data_that_are_no_path_as_they_are(dataset, tmp_path, data):
    campaign = Campaign(data, dataset, small_arms(), tmp_path)
    assert campaign.plan()["data"] == data


def test_arms_of_other_losses_tell_their_rate_and_scale(dataset, tmp_path, monkeypatch):
    end_runs_at_once(monkeypatch)
    arms = small_arms(("bowl", "softmax"))
    (found,) = Campaign("tiny", dataset, arms, tmp_path).run()
    bowl, mined, soft, _ = found["arms"]
    own = resolve(dataclasses.replace(arms[0].config, loss="softmax", learning_rate="auto",
                                      score_scale="auto"), dataset)  # fmt: skip
    assert (bowl["differing"]["learning_rate"], bowl["differing"]["score_scale"]) == (50.0, 1.0)
    assert soft["differing"]["learning_rate"] == own.learning_rate != 50.0
    assert soft["differing"]["score_scale"] == own.score_scale != 1.0
    assert soft["about"] == (
        "softmax, all sampled labels are negatives; learning rate "
        f"{own.learning_rate:.4g}; score scale {own.score_scale:.4g}"
    )
    assert mined["differing"].items() - bowl["differing"].items() == {("mined", 2)}


@pytest.mark.parametrize("losses", [("bowl",), ("bowl", "softmax")])
def test_arms_of_a_loss_without_negative_sampling_have_no_ratio(
    dataset, tmp_path, monkeypatch, losses
):
    """Loss, rate and scale differ from those of BOWL: the quotient would be of all three."""
    end_runs_at_once(
        monkeypatch,
        lambda job: {"metrics": dict.fromkeys(NAMES, 2.0 + (job.arm == "in-batch"))},
    )
    arms = small_arms(losses, extras=("in-batch",))
    (found,) = Campaign("tiny", dataset, arms, tmp_path).run()
    report = results(*found["arms"], seeds=1)
    note, said = all_sheets(report)[0].note, verdict(report)[0]
    assert found["arms"][1]["ratio"]["R@1"] == 1.0
    last = found["arms"][-1]
    why = " No ratio, as --losses lacks their loss: in-batch."
    if "softmax" in losses:
        assert (last["baseline"], last["ratio"]["R@1"]) == ("softmax-negative-sampling", 1.5)
        assert why not in note
        assert "1.50 times that of softmax-negative-sampling" in said
    else:
        assert (last["baseline"], last["ratio"]["R@1"]) == (BASELINE, None)
        assert why in note
        assert "percent: no ratio to negative-sampling, which has another loss." in said
        (line,) = [each for each in csv.DictReader(results_csv(report).splitlines())
                   if each["arm"] == "in-batch"]  # fmt: skip
        assert (line["R@1"], line["ratio R@1"]) == ("3.0", "")


def test_tuned_arms_tell_what_they_were_tuned_to(dataset, tmp_path, monkeypatch):
    end_runs_at_once(monkeypatch)
    arms = small_arms(("bowl", "softmax"))
    best = {arm.name: {"best": {"learning_rate": rate}}
            for arm, rate in zip(arms, (50.0, 150.0, 50.0, 50.0), strict=True)}  # fmt: skip
    monkeypatch.setattr(Campaign, "_tuning", lambda _: best)
    *_, found = Campaign("tiny", dataset, arms, tmp_path, tune=True).run()
    scale = found["tuned"][2]["score_scale"]
    assert [arm["about"].partition(";")[2] for arm in found["tuned"]] == [
        "", " learning rate 150", *2 * [f" score scale {scale:.4g}"],
    ]  # fmt: skip


def test_a_setting_that_no_arm_reads_has_no_value(dataset, tmp_path, monkeypatch):
    end_runs_at_once(monkeypatch)
    campaign = Campaign("tiny", dataset, small_arms(("softmax",)), tmp_path)
    (found,) = campaign.run()
    for told in found["arms"]:
        assert [told[name] for name in ("phi", "negative_weight", "vartheta")] == [None] * 3
        assert (told["loss"], told["sampled"]) == ("softmax", 8)
    first, _ = csv.DictReader(results_csv({**found, "plan": campaign.plan()}).splitlines())
    assert (first["phi"], first["sampled"]) == ("", "8")


def run_here(folder, data, split="test", probes=0, **settings):
    """The result of a run of a comparison in this process."""
    config = resolve(dataclasses.replace(tiny.CONFIG, **settings), snm.load_data(data))
    asked = {"data": str(data), "arm": "top-3", "split": split, "probes": probes,
             "config": dataclasses.asdict(config)}  # fmt: skip
    write_record(folder / "top-3.task.json", asked)
    return run_task(folder / "top-3.task.json")


@pytest.mark.parametrize(("split", "points"), [("test", tiny.TEST_POINTS), ("validation", 12)])
def test_a_trial_is_scored_on_a_fifth_of_train(folder, tmp_path, split, points):
    assert run_here(tmp_path, folder, split, epochs=1)["metrics"]["points"] == points


@pytest.mark.parametrize(
    ("epochs", "probes", "looks"), [(3, 3, [0, 1, 2, 3]), (5, 2, [0, 3, 5]), (1, 2, [0, 1])]
)
def test_a_run_is_looked_at_as_often_as_asked_at_most(folder, tmp_path, epochs, probes, looks):
    """Before it, after every second epoch or so, and at its end; never within an epoch."""
    found = run_here(tmp_path, folder, probes=probes, epochs=epochs)
    steps = found["steps"] // epochs
    assert [look["step"] for look in found["probes"]] == [steps * look for look in looks]


def test_looks_are_at_the_ends_of_epochs_where_points_have_no_labels(folder, tmp_path):
    """40 of 60 points have labels, 3 batches of 16: of all points there would be 4."""
    data = shutil.copytree(folder, tmp_path / "data")
    head, *lines = (data / "train.txt").read_text().splitlines()
    lines[40:] = [" " + line.partition(" ")[2] for line in lines[40:]]
    (data / "train.txt").write_text("\n".join([head, *lines]) + "\n")
    found = run_here(tmp_path, data, probes=3, epochs=3)
    assert [look["step"] for look in found["probes"]] == [0, 3, 6, 9]


def test_peers_get_what_the_arms_have(tmp_path, monkeypatch):
    told = []

    def run_peer(name, data, out, options, stop):
        told.append(options)
        return {"name": name, "asked": {"data": data}}

    monkeypatch.setattr("snm.compare.peers.process.run_peer", run_peer)
    config = dataclasses.replace(snm.preset("paper"), weighting="l2", seen="drop",
                                 propensity_a=0.6, propensity_b=2.6)  # fmt: skip
    asked = Compare("data/of/mine/tiny", tmp_path, peers=("neighbors",))
    assert _peers(asked, config, lambda *_: None, lambda: False) == [
        {"name": "neighbors"}
    ]  # no path
    assert told == [PeerOptions(weighting="l2", seen="drop", propensity=(0.6, 2.6))]
