"""What the marks of producers say of rows."""

from __future__ import annotations

import json

from penstock.spark.producers import ended
from penstock.spark.redistribute.spoken import furthest_ends


def test_the_furthest_end_of_each_key_group_counts() -> None:
    """Not the newest: producers write one beside the other. The mark that a job has ended speaks of no row."""
    marks = [{"at": {"0": 10, "3": 5}}, {"at": {"0": 7}}, {"at": {"3": 6, "1": 2}}, {"at": {}}]
    told = furthest_ends([*(json.dumps(mark).encode() for mark in marks), ended("j", 1).encode()])
    assert told == {0: 10, 1: 2, 3: 6}
