"""Published figures, which the report shows beside measured ones and marks as published."""

from __future__ import annotations

from typing import Any

from snm.data.repository.registry import bare_name, entry_like

__all__ = ["FIGURES", "SOURCES", "published_for"]

_NOTE = (
    "Published, not measured here; percent, test points. Splits, features and texts of the points "
    "can differ from those here."
)

_COLUMNS = ("P@1", "P@3", "P@5")
"""Metrics of a row of `FIGURES`."""

Figures = tuple[float | None, float | None, float | None]

SOURCES: dict[str, str] = {
    "snm": "Reddi, Kale, Yu, Holtmann-Rice, Chen and Kumar (AISTATS 2019), Table 3",
    "x-transformer": "Chang, Yu, Zhong, Yang and Dhillon (KDD 2020), Table 3, which has all but "
    "its own row from You et al. (NeurIPS 2019), Table 3; EURLex-4K is 15,449 and 3,865 points",
    "annexml": "README of github.com/yahoojapan/AnnexML",
    "dismec": "readme.txt of github.com/xmc-aalto/dismec",
    "omikuji": "README of github.com/tomtung/omikuji, which ran the program of Parabel's authors "
    "and quotes the paper of Bonsai",
}
"""Name of a source -> the paper or page, and the table."""

_DISMEC = "DiSMEC (Babbar and Schölkopf, 2017)"
_PFASTREXML = "PfastreXML (Jain et al., 2016)"
_ANNEXML = "AnnexML (Tagami, 2017)"
_PARABEL = "Parabel (Prabhu et al., 2018)"
_EXTREMETEXT = "eXtremeText (Wydmuch et al., 2018)"
_BONSAI = "Bonsai (Khandagale et al., 2020)"
_XML_CNN = "XML-CNN (Liu et al., 2017), on texts"
_ATTENTIONXML = "AttentionXML (You et al., 2019), on texts"
_X_TRANSFORMER = "X-Transformer (that paper), on texts"

# The first row of `snm` is the paper's own model. Its section 5 names the papers of the others.
FIGURES: dict[str, dict[str, dict[str, Figures]]] = {
    "EURLex-4K": {
        "x-transformer": {
            _ANNEXML: (79.66, 64.94, 53.52),
            _DISMEC: (83.21, 70.39, 58.73),
            _PFASTREXML: (73.14, 60.16, 50.54),
            _PARABEL: (82.12, 68.91, 57.89),
            _EXTREMETEXT: (79.17, 66.80, 56.09),
            _BONSAI: (82.30, 69.55, 58.35),
            _XML_CNN: (75.32, 60.14, 49.21),
            _ATTENTIONXML: (87.12, 73.99, 61.92),
            _X_TRANSFORMER: (87.22, 75.12, 62.90),
        },
        "dismec": {_DISMEC: (82.51, 69.48, 57.94)},
    },
    "Wiki10-31K": {
        "x-transformer": {
            _ANNEXML: (86.46, 74.28, 64.20),
            _DISMEC: (84.13, 74.72, 65.94),
            _PFASTREXML: (83.57, 68.61, 59.10),
            _PARABEL: (84.19, 72.46, 63.37),
            _EXTREMETEXT: (83.66, 73.28, 64.51),
            _BONSAI: (84.52, 73.76, 64.69),
            _XML_CNN: (81.41, 66.23, 56.11),
            _ATTENTIONXML: (87.47, 78.48, 69.37),
            _X_TRANSFORMER: (88.51, 78.71, 69.62),
        },
        "annexml": {_ANNEXML: (86.52, 74.29, 64.19)},
    },
    "AmazonCat-13K": {
        "snm": {
            "SNM (that paper)": (81.58, 71.54, 58.79),
            "SLEEC (Bhatia et al., 2015)": (90.53, 76.33, 61.52),
            "LEML (Yu et al., 2014)": (None, None, None),
            _PFASTREXML: (91.75, 77.97, 63.68),
            _DISMEC: (93.4, 79.1, 64.1),
            "PD-Sparse": (90.60, 75.14, 60.69),
            "PPD-Sparse (Yen et al., 2017)": (None, None, None),
        },
        "x-transformer": {
            _ANNEXML: (93.54, 78.36, 63.30),
            _DISMEC: (93.81, 79.08, 64.06),
            _PFASTREXML: (91.75, 77.97, 63.68),
            _PARABEL: (93.02, 79.14, 64.51),
            _EXTREMETEXT: (92.50, 78.12, 63.51),
            _BONSAI: (92.98, 79.13, 64.46),
            _XML_CNN: (93.26, 77.06, 61.40),
            _ATTENTIONXML: (95.92, 82.41, 67.31),
            _X_TRANSFORMER: (96.70, 83.85, 68.58),
        },
    },
    "WikiLSHTC-325K": {
        "snm": {
            "SNM (that paper)": (60.65, 42.08, 31.87),
            "SLEEC (Bhatia et al., 2015)": (54.83, 33.42, 23.85),
            "LEML (Yu et al., 2014)": (19.82, 11.43, 8.39),
            _PFASTREXML: (56.05, 36.79, 27.09),
            _DISMEC: (64.4, 42.5, 31.5),
            "PD-Sparse": (61.26, 39.48, 28.79),
            "PPD-Sparse (Yen et al., 2017)": (64.08, 41.26, 30.12),
        },
        "omikuji": {_PARABEL: (65.0, 43.2, 32.0), _BONSAI: (66.6, 44.5, 33.0)},
    },
    "Amazon-670K": {
        "snm": {
            "SNM (that paper)": (44.68, 40.55, 37.40),
            "SLEEC (Bhatia et al., 2015)": (35.05, 31.25, 28.56),
            "LEML (Yu et al., 2014)": (8.13, 6.83, 6.03),
            _PFASTREXML: (39.46, 35.81, 33.05),
            _DISMEC: (44.7, 39.7, 36.1),
            "PD-Sparse": (None, None, None),
            "PPD-Sparse (Yen et al., 2017)": (45.32, 40.37, 36.92),
        },
        "omikuji": {_PARABEL: (44.9, 39.8, 36.0), _BONSAI: (45.5, 40.3, 36.5)},
    },
}
"""Data set -> source -> method -> P@1, P@3, P@5 in percent; None where the table has a dash.

Data sets have the names of `snm/data/repository/registry.toml`.
"""

_AMBIGUOUS = ("amazon",)
"""Aliases of the registry by which other data sets go too."""


def published_for(name: str) -> dict[str, Any] | None:
    """The published figures of a data set.

    Args:
      name: of the data set, as `snm.data.repository.registry.entry_like` reads it; but not
        `amazon`, which may be one of several.

    Returns:
      `source`, a note with the sources; `columns`, the names of the metrics; `rows`, each with
      `method`, which ends with the number of its source, and `metrics` (name -> percent or None).
      None if there are no figures.

    Example:
      >>> published_for("amazon-670k")["rows"][0]["metrics"]["P@1"]
      44.68
    """
    entry = None if bare_name(name) in _AMBIGUOUS else entry_like(name)
    figures = FIGURES.get(entry.name) if entry is not None else None
    if figures is None:
        return None
    sources = [f"[{i}] {SOURCES[source]}." for i, source in enumerate(figures, 1)]
    rows = [
        {"method": f"{method} [{i}]", "metrics": dict(zip(_COLUMNS, values, strict=True))}
        for i, methods in enumerate(figures.values(), 1)
        for method, values in methods.items()
    ]
    return {"source": " ".join([_NOTE, *sources]), "columns": _COLUMNS, "rows": rows}
