"""The listwise losses by name, for tests that hold for each of them."""

from snm.losses import listwise

LISTWISE = {
    "listnet": listwise.listnet,
    "listmle": listwise.listmle,
    "rankcosine": listwise.rankcosine,
    "smoothed-dcg": listwise.smoothed_dcg,
    "ranksvm": listwise.ranksvm,
}
