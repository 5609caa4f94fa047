"""What a warm host reports of checks that could not be made."""

from __future__ import annotations

from penstock.config.problems import Problem
from penstock.control.errors import Unavailable
from penstock.kafka.refusals import LOGIN
from penstock.spark.analysis.analyse import Analysis

REFUSED = "kafka refuses the user bob at kafka:9092"


def test_a_refused_login_is_reported_once_for_each_field_and_is_unchecked() -> None:
    found = Analysis("query.sql")
    for where in ("inputs", "output", "output"):
        with found.catching(where):
            raise Unavailable(REFUSED, rule=LOGIN)
    with found.catching("tables.planes.path"):
        raise Unavailable("the store does not answer")
    report = found.report()
    assert report.logins == tuple(Problem(where, LOGIN, f"{where}: {REFUSED}") for where in ("inputs", "output"))
    assert (report.unchecked, report.problems) == ((REFUSED, "the store does not answer"), ())
