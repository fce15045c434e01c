"""Times of interactions as numbers."""

import math

from snm.importing.log_times import seconds_of


def test_dates_without_a_zone_are_of_utc():
    assert seconds_of("1970-01-02") == 86_400 == seconds_of("1970-01-02T01:00+01:00")
    assert math.isnan(seconds_of("tomorrow"))
