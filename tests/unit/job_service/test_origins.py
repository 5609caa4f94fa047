"""Which write set which field."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from penstock.wire.jobs import HistoryEntry
from services.job_service.origins import origins_in

Content = dict[str, Any] | None
CONTENTS: list[Content] = [
    {"priority": 1},
    {"priority": 1, "labels": {"a": "x"}},
    {"priority": 2, "labels": {"a": "x"}},
    {"priority": 1, "labels": {"a": "x", "b": "y"}},
]


def writes(*contents: Content) -> list[HistoryEntry]:
    """The writes that made these contents one after the other, newest first."""
    made = [
        HistoryEntry(
            id=number,
            job="etl",
            layer="oncall",
            version=number,
            revision=10 * number,
            action="patch",
            author=f"author {number}",
            reason="",
            at=datetime(2026, 1, number, tzinfo=UTC),
            old=old,
            new=new,
            expires_at=None,
        )
        for number, (old, new) in enumerate(zip((None, *contents), contents, strict=False), 1)
    ]
    return made[::-1]


def found(*contents: Content) -> dict[str, int]:
    return {".".join(path): write.id for path, write in origins_in(contents[-1] or {}, writes(*contents))}


def test_a_field_has_the_write_that_gave_it_its_value() -> None:
    """A value that came back counts from when it did."""
    assert found(*CONTENTS) == {"labels.b": 4, "priority": 4, "labels.a": 2}


def test_a_layer_that_was_dropped_begins_anew() -> None:
    assert found({"priority": 1}, None, {"priority": 1}) == {"priority": 3}


def test_a_field_whose_write_is_not_known_is_left_out() -> None:
    newest = writes(*CONTENTS)[:1]
    assert {path for path, _ in origins_in(CONTENTS[-1] or {}, newest)} == {("labels", "b"), ("priority",)}


def test_no_more_is_read_than_needed() -> None:
    read = iter(writes(*CONTENTS))
    dict(origins_in({"priority": 1}, read))
    assert next(read).id == 3
