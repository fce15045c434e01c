"""Figures that were published, to be shown as such beside what is measured here."""

from __future__ import annotations

from typing import Any

__all__ = ["COLUMNS", "FIGURES", "SOURCE", "published_for"]

SOURCE = (
    "Published, not measured here: Reddi, Kale, Yu, Holtmann-Rice, Chen and Kumar (AISTATS 2019), "
    "Table 3; percent, test points."
)
"""Where `FIGURES` are from."""

COLUMNS = ("P@1", "P@3", "P@5")
"""What the figures of a row are."""

Figures = tuple[float | None, float | None, float | None]

# The first row is that paper's own model; the methods' papers are named by its section 5.
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

# AmazonCat alone is the set of 13K labels; amazoncat-14k is another.
_BEGINNINGS = {
    "amazoncat13k": "AmazonCat",
    "wikilshtc": "WikiLSHTC",
    "amazon670k": "Amazon670K",
}


def published_for(name: str) -> dict[str, Any] | None:
    """What was published on a data set.

    Args:
      name: the data set's; case and punctuation do not count, nor does what comes after it, so
        that a folder `AmazonCat-13K.bow` is found.

    Returns:
      `source`; `columns`, the names of the figures; `rows`, each with `method`, `metrics` (name ->
      percent or None) and `published`, True. None where there is nothing.

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
