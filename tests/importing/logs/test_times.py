"""Times of interactions as numbers."""

import math

from snm.importing.logs.times import parse_time


def test_dates_without_a_zone_are_of_utc():
    assert parse_time("1970-01-02") == 86_400 == parse_time("1970-01-02T01:00+01:00")
    assert math.isnan(parse_time("tomorrow"))
