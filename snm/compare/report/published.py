"""Published figures, which the report shows beside measured ones and marks as published."""

from __future__ import annotations

from typing import Any

__all__ = ["COLUMNS", "FIGURES", "SOURCE", "published_for"]

SOURCE = (
    "Published, not measured here: Reddi, Kale, Yu, Holtmann-Rice, Chen and Kumar (AISTATS 2019), "
    "Table 3; percent, test points."
)
"""Source of `FIGURES`."""

COLUMNS = ("P@1", "P@3", "P@5")
"""Metrics of a row of `FIGURES`."""

Figures = tuple[float | None, float | None, float | None]

# The first row is the paper's own model. Its section 5 names the papers of the other methods.
FIGURES: dict[str, dict[str, Figures]] = {
    "AmazonCat": {
        "SNM (that paper)": (81.58, 71.54, 58.79),
        "SLEEC (Bhatia et al., 2015)": (90.53, 76.33, 61.52),
        "LEML (Yu et al., 2014)": (None, None, None),
        "PfastreXML (Jain et al., 2016)": (91.75, 77.97, 63.68),
        "DiSMEC (Babbar and Schölkopf, 2017)": (93.4, 79.1, 64.1),
        "PD-Sparse": (90.60, 75.14, 60.69),
        "PPD-Sparse (Yen et al., 2017)": (None, None, None),
    },
    "WikiLSHTC": {
        "SNM (that paper)": (60.65, 42.08, 31.87),
        "SLEEC (Bhatia et al., 2015)": (54.83, 33.42, 23.85),
        "LEML (Yu et al., 2014)": (19.82, 11.43, 8.39),
        "PfastreXML (Jain et al., 2016)": (56.05, 36.79, 27.09),
        "DiSMEC (Babbar and Schölkopf, 2017)": (64.4, 42.5, 31.5),
        "PD-Sparse": (61.26, 39.48, 28.79),
        "PPD-Sparse (Yen et al., 2017)": (64.08, 41.26, 30.12),
    },
    "Amazon670K": {
        "SNM (that paper)": (44.68, 40.55, 37.40),
        "SLEEC (Bhatia et al., 2015)": (35.05, 31.25, 28.56),
        "LEML (Yu et al., 2014)": (8.13, 6.83, 6.03),
        "PfastreXML (Jain et al., 2016)": (39.46, 35.81, 33.05),
        "DiSMEC (Babbar and Schölkopf, 2017)": (44.7, 39.7, 36.1),
        "PD-Sparse": (None, None, None),
        "PPD-Sparse (Yen et al., 2017)": (45.32, 40.37, 36.92),
    },
}
"""Data set -> method -> P@1, P@3, P@5 in percent; None where the table has a dash."""

# The name AmazonCat alone means the set of 13K labels; amazoncat-14k is another set.
_BEGINNINGS = {
    "amazoncat13k": "AmazonCat",
    "wikilshtc": "WikiLSHTC",
    "amazon670k": "Amazon670K",
}


def published_for(name: str) -> dict[str, Any] | None:
    """The published figures of a data set.

    Args:
      name: name of the data set. Case, punctuation and suffixes are ignored, so a folder
        `AmazonCat-13K.bow` is found.

    Returns:
      `source`; `columns`, the names of the metrics; `rows`, each with `method`, `metrics` (name ->
      percent or None) and `published`, True. None if there are no figures.

    Example:
      >>> published_for("amazon-670k")["rows"][0]["metrics"]["P@1"]
      44.68
    """
    letters = "".join(letter for letter in name.lower() if letter.isalnum())
    found = "AmazonCat" if letters == "amazoncat" else None
    for beginning, title in _BEGINNINGS.items():
        if letters.startswith(beginning):
            found = title
    if found is None:
        return None
    rows = [
        {"method": method, "metrics": dict(zip(COLUMNS, figures, strict=True)), "published": True}
        for method, figures in FIGURES[found].items()
    ]
    return {"source": SOURCE, "columns": COLUMNS, "rows": rows}
