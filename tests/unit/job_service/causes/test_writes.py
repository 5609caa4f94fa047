"""A crash in code that somebody wrote: who, when, and the commands that go back."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.model.causes import CauseKind
from services.job_service.causes.facts import Crashes, Minute
from services.job_service.causes.rank import causes_of
from tests.support.job_service.causes import ago, change, facts, failed, task

CODE = change({"query": {"sql": "a"}}, {"query": {"sql": "b"}})
BROKEN = failed("[DIVIDE_BY_ZERO] x")
LONG = "SELECT delay FROM flights WHERE origin = 'SFO' AND delay > 1234567 AND x"
OVERRIDE = CODE.model_copy(update={"version": 3, "reason": "oops", "at": ago(60), "old": None})
CRASHED_NOW = [Crashes(0, (ago(30),), "x")]


@pytest.mark.parametrize(
    ("written", "advice"),
    [
        (OVERRIDE, "go back: `penstock override etl --drop`"),
        (
            OVERRIDE.model_copy(update={"old": CODE.old}),
            "go back: `penstock revert etl oncall 2 --reason ...`, or `penstock override etl --drop`",
        ),
        (
            OVERRIDE.model_copy(update={"layer": "provisioner", "old": CODE.old}),
            "go back: `penstock revert etl provisioner 2 --reason ...`",
        ),
        (
            OVERRIDE.model_copy(update={"layer": "provisioner", "version": 1}),
            "go back: `penstock layers drop etl provisioner --reason ...`",
        ),
    ],
    ids=["the override", "an override before", "another layer", "the first version of a layer"],
)
def test_a_crash_in_code_that_a_layer_changed_names_the_write_and_the_way_back(written: Any, advice: str) -> None:
    """Tasks crashed before too, so the change is not accused; the error of the code names it all the same."""
    known = facts([BROKEN], crashes=CRASHED_NOW, changes=[written], minutes=[Minute(ago(700), crashes=1.0)])
    (first,) = causes_of(known)
    assert first.kind is CauseKind.BAD_CODE
    assert first.evidence[-1].startswith(
        f"{written.layer}, version {written.version}, written by ann 1 minute ago (oops)"
    )
    assert first.advice == f"mend the query or the package, or {advice}"
    accused = causes_of(facts([BROKEN], crashes=CRASHED_NOW, changes=[written]))[0]
    assert (accused.kind, accused.advice) == (CauseKind.RECENT_CHANGE, advice)
    assert f"version {written.version}" in accused.evidence[0]


def test_a_write_after_the_first_crash_is_no_way_back() -> None:
    (first,) = causes_of(facts([BROKEN], crashes=[Crashes(0, (ago(90), ago(30)), "x")], changes=[OVERRIDE]))
    assert "penstock override" not in first.advice
    well = [*CRASHED_NOW, Crashes(1, (ago(72_000),), "y")]
    known = facts([BROKEN, task(1)], crashes=well, changes=[OVERRIDE], minutes=[Minute(ago(700), crashes=1.0)])
    assert "penstock override etl --drop" in causes_of(known)[0].advice, "the other task crashed yesterday, and is well"


def test_a_text_is_not_cut_in_the_middle_of_a_number() -> None:
    written = OVERRIDE.model_copy(update={"new": {"query": {"sql": LONG}}})
    evidence = causes_of(facts([BROKEN], crashes=CRASHED_NOW, changes=[written]))[0].evidence[0]
    assert evidence.endswith("to SELECT delay FROM flights WHERE origin = 'SFO' AND delay > ...")
    (error, *_) = causes_of(facts([failed("query: " + "x" * 285 + " of 1234567890 rows")]))[0].evidence
    assert error.endswith("x of ...")


def crashes_of_a_minute(of: str | None) -> Minute:
    """Two crashes of one kind, shortly before the change; None: none."""
    names = {"host": "restarts_by_host", "memory": "restarts_by_memory"}
    counts: dict[str, float] = {"restarts_by_host": 0.0, "restarts_by_memory": 0.0}
    counts |= {names[of]: 2.0} if of in names else {}
    return Minute(ago(180), crashes=0.0 if of is None else 2.0, restarts=0.0 if of is None else 2.0, **counts)


@pytest.mark.parametrize(
    ("error", "before", "is_accused"),
    [
        ("[DIVIDE_BY_ZERO] x", None, True),
        ("[DIVIDE_BY_ZERO] x", "host", True),
        ("[DIVIDE_BY_ZERO] x", "memory", True),
        ("[DIVIDE_BY_ZERO] x", "query", False),
        ("host h-1 ended: killed", "host", False),
        ("host h-1 ended: killed", "query", True),
        ("Java heap space", "memory", False),
        ("Java heap space", "host", True),
    ],
)
def test_only_crashes_of_the_same_kind_before_a_change_clear_it(
    error: str, before: str | None, is_accused: bool
) -> None:
    """1. Tasks crash, are well again, and somebody changes the query. 2. They crash again."""
    known = facts([failed(error)], crashes=CRASHED_NOW, changes=[OVERRIDE], minutes=[crashes_of_a_minute(before)])
    assert any(each.kind is CauseKind.RECENT_CHANGE for each in causes_of(known)) is is_accused
