"""Alerts: what is open, what counts again, and the pages that the API shows."""

from __future__ import annotations

from sqlalchemy import Engine

from penstock.model.alerts import AlertKind
from penstock.store.alerts import clear_alerts, open_subjects, raise_alert, replace_alerts
from penstock.store.engine import transaction
from services.job_service.store.overview import alerts_page
from tests.support.store.statements import counted_statements

SLOW, LOST = AlertKind.JOB_LAGGING, AlertKind.TASK_CRASHING


def test_pages_have_the_newest_alerts_that_match(engine: Engine) -> None:
    """1. Open ones only. 2. Cleared ones, too. 3. By kind and subject. 4. The page after another."""
    with transaction(engine) as connection:
        for kind, subject in ((SLOW, "a"), (SLOW, "b"), (LOST, "a")):
            raise_alert(connection, kind, subject, f"{subject} is {kind}", {"of": subject})
        clear_alerts(connection, SLOW, ["b", "unknown"])

        def pages(**wanted: object) -> list[tuple[str, str]]:
            return [(alert.kind, alert.subject) for alert in alerts_page(connection, **{"limit": 9, **wanted})]

        assert pages() == [(LOST, "a"), (SLOW, "a")]
        assert pages(include_cleared=True) == [(LOST, "a"), (SLOW, "b"), (SLOW, "a")]
        assert pages(kind=SLOW) == [(SLOW, "a")]
        assert pages(kind=SLOW, subject="b") == []
        (first,) = alerts_page(connection, limit=1, include_cleared=True)
        assert pages(include_cleared=True, before_id=first.id, limit=1) == [(SLOW, "b")]


def test_replaced_alerts_count_changes_where_that_is_asked_for(engine: Engine) -> None:
    """1. One is open. 2. The same again, and another one to keep. 3. A new message counts only with `refresh`."""
    with transaction(engine) as connection:
        replace_alerts(connection, [SLOW], {(SLOW, "a"): ("a is slow", {})})
        raise_alert(connection, SLOW, "kept", "kept is slow")
        replace_alerts(connection, [SLOW], {(SLOW, "a"): ("a is very slow", {})}, keep=["kept"])
        assert open_subjects(connection, SLOW) == {"a", "kept"}
        (alert,) = alerts_page(connection, limit=9, subject="a")
        assert (alert.message, alert.times) == ("a is slow", 1)
        for _ in range(2):
            replace_alerts(connection, [SLOW], {(SLOW, "a"): ("a is very slow", {})}, refresh=True)
        (alert,) = alerts_page(connection, limit=9)
        assert (alert.message, alert.times) == ("a is very slow", 2)


def test_alerts_about_other_subjects_stay_with_only(engine: Engine) -> None:
    """Of the kinds and subjects that are given, those that were not found are closed."""
    with transaction(engine) as connection:
        for kind, subject in ((SLOW, "a"), (SLOW, "b"), (LOST, "a")):
            raise_alert(connection, kind, subject, "")
        replace_alerts(connection, [SLOW], {(SLOW, "c"): ("", {})}, only=["a", "c"])
        assert open_subjects(connection, SLOW) == {"b", "c"}
        assert open_subjects(connection, LOST) == {"a"}


def test_many_alerts_take_as_many_statements_as_few(engine: Engine) -> None:
    """1. They are raised. 2. Their messages change. 3. They end."""
    counts = []
    for number in (2, 50):
        with transaction(engine) as connection, counted_statements(engine) as statements:
            for message in ("a", "b"):
                found = {(SLOW, str(subject)): (message, {}) for subject in range(number)}
                replace_alerts(connection, [SLOW], found, refresh=True)
            replace_alerts(connection, [SLOW], {})
            assert open_subjects(connection, SLOW) == set()
        counts.append(len(statements))
    assert counts[0] == counts[1]


def test_a_text_that_is_none_for_the_store_refuses_no_alert(engine: Engine) -> None:
    """The same alert again is no change, since the replaced text is compared."""
    bad = {(SLOW, "a\x00"): ("\ud800 is slow", {"of": ["\x00"]})}
    with transaction(engine) as connection:
        for _ in range(2):
            replace_alerts(connection, [SLOW], bad, refresh=True)
        (alert,) = alerts_page(connection, limit=9)
    assert (alert.subject, alert.message, alert.details, alert.times) == (
        "a\ufffd",
        "\ufffd is slow",
        {"of": ["\ufffd"]},
        1,
    )
