"""Results of `snm compare` as the worker writes them, made up."""

import functools

from snm.compare.probe import MARGIN_QUANTILES
from snm.compare.report.flat import SETTINGS
from snm.compare.report.summary import summarize

BASE = "negative-sampling"
NAMES = [f"{m}@{k}" for k in (1, 3, 5) for m in ("P", "R", "nDCG", "PSP")]


def look(step, level, sampled=True):
    """An entry of the probe; `level` is R@1, and the other values depend on it."""
    found = {
        "step": step,
        "seconds": step / 8,
        "test": {"R@1": level, "P@1": 2 * level},
        "margin": {"quantiles": [q - 0.5 for q in MARGIN_QUANTILES], "share_not_positive": 0.5},
    }
    if sampled:
        found["negatives"] = {
            **{kind: [level / 9 + 0.1 * q for q in range(at, at + 5)]
               for at, kind in enumerate(("sampled", "mined", "positive"))},
            "false_share_sampled": 0.01,
            "false_share_mined": level / 100,
            "mined_by_decile": [0.05] * 9 + [0.55],
        }  # fmt: skip
        found["gradient"] = {"norm": level, "deviation": level / 3}
    return found


def good(seed, value, sampled=True):
    return {
        "seed": seed,
        "metrics": dict.fromkeys(NAMES, value),
        "seconds": 4.0 + seed,
        "examples_per_second": 1000.0,
        "peak_memory_bytes": 2**29,
        "by_label_frequency": [
            {"labels": 9, "occurrences": 9, "recall": value * i / 9, "precision": value / 10}
            for i in range(10)
        ],
        "probes": [look(step, value * step / 8, sampled) for step in (0, 4, 8)],
        "bounds": bounds(value),
    }


def bounds(value):
    """Bounds as the worker measures them; the second margin has the smaller proved bound."""
    terms = {"gaussian": 30.0, "rademacher": 2.0, "confidence": 0.125}
    return {
        "train_risk": 0.25, "test_risk": 1 - value / 100,
        "theorem_6": [
            {"rho": 0.5, "empirical": 0.5, **terms, "unit_factors": 2.625, "proved": 107.0},
            {"rho": 1.0, "empirical": 0.75, **terms, "unit_factors": 2.875, "proved": 53.5},
        ],
        "theorem_5": {"proved": 20.0, "range": 4.0},
    }  # fmt: skip


def arm(name, values, base=None, *, baseline=BASE, sampler="uniform", **differing):
    """An arm with a metric of each seed; None is a seed that failed."""
    seeds = [
        {"seed": seed, "failed": "loss is not finite"} if value is None
        else good(seed, value, sampler == "uniform")
        for seed, value in enumerate(values)
    ]  # fmt: skip
    done = [seed for seed in seeds if "failed" not in seed]
    others = [good(seed, value) for seed, value in enumerate(base or values) if value is not None]
    return {
        **dict.fromkeys(SETTINGS), "name": name, "about": f"about {name}", "baseline": baseline,
        "sampled": 32, "mined": 16,
        "mined_start": 0, "epochs": 4, "sampler": sampler, "differing": differing, "seeds": seeds,
        "seconds": 4.5 if done else None, "peak_memory_bytes": 2**29 if done else None,
        **summarize(done, others),
    }  # fmt: skip


def unprobed(arm):
    """The arm without what most plots show, so that a page takes a moment."""
    seeds = [{**seed, "probes": [], "by_label_frequency": []} for seed in arm["seeds"]]
    return {**arm, "seeds": seeds}


def results(*arms, seeds=2, **more):
    return {
        "command": "snm compare a&b --out 'x<y'",
        "date": "2026-01-31",
        "data": {"name": "a<b>&", "sha256": "0123" * 16, "points": 1234, "test_points": 567,
                 "features": 89, "labels": 33},
        "plan": {"seeds": seeds, "trials": 6, "jobs": 1,
                 "settings": {"dim": 8, "loss": "bowl", "memory": "off"}},
        "device": "cpu: cpu",
        "versions": {"python": "3.11", "snm": "0.1.0", "jax": "0.10"},
        "machine": {"cores": 2, "architecture": "x86_64"},
        "arms": list(arms),
        "peers": [],
        "published": None,
        **more,
    }  # fmt: skip


@functools.cache
def full():
    """Results with failures, an arm without sampled negatives, peers and published figures."""
    base = [2.0, 4.0]
    arms = [
        arm(BASE, base),
        arm("top-1", [1.0, None], base),
        arm("top-16", [4.0, 8.0], base),
        arm("in-batch", [3.0, 3.0], base, sampler="in-batch"),
        arm("<i>&amp;", [3.0, 5.0], base),
        arm("lost", [None, None], base),
    ]
    chosen = {"learning_rate": 50.0, "negative_weight": 4.0}
    tuning = {a["name"]: {"trials": [], "best": chosen} for a in arms}
    metrics = {name: 12.5 for name in NAMES if name[0] in "RP"}
    peers = [
        {"name": "forest", "settings": "3 trees", "metrics": metrics, "seconds": 1.5,
         "peak_memory_bytes": 2**28},
        {"name": "other", "failed": "not installed: pip install other"},
    ]  # fmt: skip
    published = {"source": "Somebody & others (2019), table 3", "columns": ["P@1", "P@3"],
                 "rows": [{"method": "theirs", "metrics": {"P@1": 77.25}}]}  # fmt: skip
    return results(*arms, tuned=arms[:3], tuning=tuning, equal_seconds=arms[:3], peers=peers,
                   published=published)  # fmt: skip


def many():
    """Results with more arms than colours, of two losses, and with intervals."""
    base = [2.0, 4.0, 3.0]
    arms = [arm(BASE, base)]
    arms += [arm(f"top-{2**i}-exclude-all", [2.0 + i, 4.0 + i, 3.0 + i], base) for i in range(12)]
    other = "softmax-" + BASE
    arms += [arm(other, base, baseline=other)]
    arms += [
        arm(f"softmax-top-{4**i}", [2.0, 3.0 + i, 2.5], base, baseline=other) for i in range(4)
    ]
    return results(*arms, seeds=3)
