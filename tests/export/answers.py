"""Two models that must answer alike."""

import numpy as np


def assert_answer_alike(there, here, points):
    """Labels, scores, probabilities and witnesses of the points are equal, to the bit."""
    for options in ({}, {"labels": [3, 7, 50]}):
        for mine, theirs in zip(there.predict(points, 2, **options),
                                here.predict(points, 2, **options), strict=True):  # fmt: skip
            np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(
        there.predict_proba(points, 2)[1], here.predict_proba(points, 2)[1]
    )
    answers = here.predict(points[:9], 2)[0]
    assert there.witnesses(points[:9], answers) == here.witnesses(points[:9], answers)
