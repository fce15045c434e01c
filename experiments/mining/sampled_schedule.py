"""Trains with a B that changes during the run, against a constant B of the same total cost.

Reddi et al. (2019, section 6) leave open how the number of sampled labels B should change as the
optimization proceeds. Five arms see the same batches and score the same number of labels over the
run: B constant, B doubled from stage to stage (four stages, eight times as large at the end), and B
halved; the last two with k' fixed, and with k' in proportion to B. Otherwise the settings are those
of `--preset paper` with dim 64 and known labels left out of the negatives. Each arm runs at the
preset's learning rate, and at the one of three that has the highest R@1 on a held-out fifth of
train. The JSON file also has what the theory says of each stage: theta, the bound of Lemma 2, the
variance of the gradient, and the branches of Theorem 5.

    python -m experiments.mining.sampled_schedule DATA ...
        --out experiments/results/sampled-schedule.json

Takes about 15 minutes per data set on 2 cores. The file is written after every run, and a second
call goes on where the first ended.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from pathlib import Path
from typing import Any

import numpy as np
import tyro

import snm
from experiments.shared.arms import Arm, train_and_score
from experiments.shared.command_line import run_command
from snm.config.resolve import resolve
from snm.config.stages import Sizes, SizeSchedule
from snm.data.dataset import Dataset
from snm.data.weighting import Weighting
from snm.losses.rank_weights import top
from snm.losses.theta import lemma2_bound, theta_norms
from snm.machine.versions import machine_record
from snm.runs.folder import read_json, write_json
from snm.system.compilation_cache import enable_compilation_cache
from snm.theory.complexity import linear_complexity
from snm.theory.constants import lemma_7, phi_largest
from snm.theory.generalization import Complexity, theorem_5
from snm.theory.variance import linear_gradient_variance

RATES = (15.0, 50.0, 150.0)
STAGES, DELTA = 4, 0.05
KEYS = ("R@1", "P@1", "R@5", "P@5")


@dataclasses.dataclass(frozen=True)
class Setting:
    """Sizes that suit a number of labels.

    Attributes:
      fewest: the smallest B; the largest is eight times that.
      share: sampled labels for each mined one.
      epochs: passes over the training points.
    """

    fewest: int
    share: int
    epochs: int


SETTINGS = {
    "corel5k": Setting(32, 8, 12),
    "delicious": Setting(64, 8, 4),
    "citeulike-t-14k": Setting(512, 128, 4),
}


def arms(setting: Setting) -> list[Arm]:
    """The five arms; all score the same number of labels."""
    low, high = setting.fewest, setting.fewest * 2 ** (STAGES - 1)
    mean = setting.fewest * (2**STAGES - 1) // STAGES
    base = dataclasses.replace(
        snm.preset("paper"),
        dim=64,
        exclude="all",
        epochs=setting.epochs,
        checkpoint_every=10**9,
        mined=mean // setting.share,
    )
    constant = Arm("constant", dataclasses.replace(base, sampled=mean))
    paths = {"grows": (low, high), "falls": (high, low)}
    found = [constant]
    for name, (start, end) in paths.items():
        fixed = Arm(f"B {name}, k' fixed", base).with_settings(sampled=end, sampled_start=start)
        sizes = {"mined": end // setting.share, "mined_start": start // setting.share}
        found += [
            fixed,
            dataclasses.replace(fixed, name=f"B and k' {name[:-1]}").with_settings(**sizes),
        ]
    return found


def of_stages(
    arm: Arm, dataset: Dataset, complexity: Complexity, points: int
) -> list[dict[str, Any]]:
    """What the theory says of each stage: BOWL with hinge, scores in [-1, 1], weights 1/k'."""
    num_labels = dataset.train.num_labels
    sizes = SizeSchedule.of(resolve(arm.config, dataset), num_labels)
    rows, before = [], None
    for stage in map(sizes, sizes.shares):
        if stage != before:
            rows.append(of_sizes(stage, num_labels, complexity, points))
        before = stage
    return rows


def of_sizes(
    stage: Sizes, num_labels: int, complexity: Complexity, points: int
) -> dict[str, float]:
    """One stage, under the weights 1/k' of the runs and under those of the surrogate (k = 1)."""
    weights = top(stage.mined)
    l1, l2 = theta_norms(weights, stage.sampled, num_labels)
    constants = lemma_7("bowl", l1, l2, 1.0, phi_largest("hinge", -1.0))
    bound = theorem_5(constants, complexity, points, num_labels, DELTA)
    return {
        "B": stage.sampled,
        "k'": stage.mined,
        "theta_1": float(weights[0]) * stage.sampled / (num_labels - 1),
        "l2": l2,
        "lemma_2": lemma2_bound(weights, stage.sampled, num_labels),
        "ranks": 1 / l2**2,
        "gradient variance": linear_gradient_variance(weights, stage.sampled, num_labels),
        "gaussian": bound.gaussian,
        "rademacher": bound.rademacher,
        "surrogate l1": stage.mined * (num_labels - 1) / stage.sampled,
    }


def theory(dataset: Dataset, setting: Setting) -> dict[str, Any]:
    """The stages of each arm, with complexities of the linear class on the training points."""
    train = dataset.train
    kept = np.flatnonzero(np.diff(train.labels.indptr))
    features = Weighting.fit("tfidf", train.features).apply(train.features)[kept]
    found = linear_complexity(features, train.labels[kept], draws=16)
    return {arm.name: of_stages(arm, dataset, found.estimate, len(kept)) for arm in arms(setting)}


def main(
    data: tyro.conf.Positional[tuple[Path, ...]], out: Path, seeds: tuple[int, ...] = (0, 1, 2)
) -> None:
    """Runs all arms, and writes JSON after each run.

    Args:
      data: folders of data sets, of the names in `SETTINGS`.
      out: JSON file to write; its runs are kept, and not repeated.
      seeds: of the runs on test points; tuning uses seed 0.
    """
    enable_compilation_cache()
    file: dict[str, Any] = read_json(out) if out.exists() else {"sets": {}}
    for folder in data:
        dataset = snm.load_data(folder)
        setting = SETTINGS[dataset.name]
        rows = file["sets"].setdefault(
            dataset.name,
            {
                "sha256": dataset.sha256,
                **dataclasses.asdict(setting),
                **machine_record(),
                "runs": [],
            },
        )
        if "stages" not in rows:
            rows["stages"] = theory(dataset, setting)

        run = functools.partial(one_run, file, out, dataset.name)
        everyone = arms(setting)
        for arm in everyone:
            for seed in seeds:
                run("test", dataset, arm, RATES[1], seed)
        held_out = dataset.split(0.2, seed=0)
        for arm in everyone:
            tried = [run("held out", held_out, arm, rate, 0) for rate in RATES]
            best = max(tried, key=lambda row: row["R@1"])["rate"]
            for seed in seeds:
                run("test", dataset, arm, best, seed)
    summarize(file)
    write_json(out, file)


def one_run(
    file: dict[str, Any],
    out: Path,
    name: str,
    part: str,
    dataset: Dataset,
    arm: Arm,
    rate: float,
    seed: int,
) -> dict[str, Any]:
    """The row of a run; if the file has none yet, trains and writes the file."""
    rows = file["sets"][name]["runs"]
    key = {"part": part, "arm": arm.name, "rate": rate, "seed": seed}
    for row in rows:
        if key.items() <= row.items():
            return row
    found = train_and_score(dataset, arm.with_settings(learning_rate=rate, seed=seed).config, KEYS)
    load = round(os.getloadavg()[0], 1)
    rows.append({**key, **found["metrics"], "seconds": round(found["seconds"], 2), "load": load})
    write_json(out, file)
    print(name, rows[-1], flush=True)
    return rows[-1]


def summary(runs: list[dict[str, Any]], arm: str, *, tuned: bool) -> dict[str, Any] | None:
    """Means and standard deviations over seeds on test points, at the preset's or a tuned rate.

    None where runs are missing.
    """
    rate = RATES[1]
    if tuned:
        tried = [row for row in runs if row["part"] == "held out" and row["arm"] == arm]
        if len(tried) < len(RATES):
            return None
        rate = max(tried, key=lambda row: row["R@1"])["rate"]
    mine = [row for row in runs if row["part"] == "test" and row["arm"] == arm]
    mine = [row for row in mine if row["rate"] == rate]
    if len(mine) < 2:
        return None
    values = {key: [row[key] for row in mine] for key in KEYS}
    return {
        "rate": rate,
        "seeds": len(mine),
        "mean": {key: float(np.mean(of_key)) for key, of_key in values.items()},
        "sd": {key: float(np.std(of_key, ddof=1)) for key, of_key in values.items()},
    }


def summarize(file: dict[str, Any]) -> None:
    """Writes `summary` of each set, and prints it as a table in Markdown."""
    print(
        "| data | arm | R@1 | P@1 | rate | R@1, tuned | P@1, tuned |\n|---|---|---|---|---|---|---|"
    )
    for name, found in file["sets"].items():
        found["summary"] = []
        for arm in found["stages"]:
            plain, tuned = (summary(found["runs"], arm, tuned=which) for which in (False, True))
            found["summary"].append({"arm": arm, "plain": plain, "tuned": tuned})
            cells = [f"{tuned['rate']:g}" if tuned else ""]
            for place, of_arm in ((0, plain), (3, tuned)):
                for number, key in enumerate(("R@1", "P@1")):
                    text = f"{of_arm['mean'][key]:.2f} ± {of_arm['sd'][key]:.2f}" if of_arm else ""
                    cells.insert(place + number, text)
            print("|", " | ".join([f"`{name}`", arm, *cells]), "|")


if __name__ == "__main__":
    run_command(main)
