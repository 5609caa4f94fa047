"""Rows that go by age: a page a round, and never what somebody still needs."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import IntegrityError

from penstock.control.errors import Fenced
from penstock.store import leases
from penstock.store.engine import transaction
from services.job_service.expiry import LOOP
from services.job_service.housekeeping import PASS_SECONDS, Housekeeping
from services.job_service.store import flows
from services.job_service.store.left_outputs import purge_left
from tests.support.control.clock import FakeClock
from tests.support.store.jobs import make_layer, write_layer

_DAYS = timedelta(days=90)
_OLD = """
    INSERT INTO decisions (job, at, symptom, action, inputs, outcome, leader_epoch)
        SELECT 'j' || mod(n, 2), now() - make_interval(hours => 24 * (100 - n) - 12), 's', 'a', '{}', 'o', 1
        FROM generate_series(0, 19) n;
    INSERT INTO alerts (kind, subject, message, raised_at, cleared_at)
        SELECT 'k', 's' || n, 'm', now() - make_interval(hours => 24 * (100 - n) - 12),
            CASE WHEN mod(n, 2) = 0 THEN now() - make_interval(hours => 24 * (100 - n) - 12) END
        FROM generate_series(0, 19) n;
    INSERT INTO history (job, layer, version, revision, action, author, at)
        SELECT 'j', CASE WHEN n < 2 THEN 'oncall' ELSE 'base' END, n + 1, n + 1, 'put', 'ann',
            now() - make_interval(hours => 24 * (100 - n) - 12)
        FROM generate_series(0, 19) n;
"""


_LEFT = """
    INSERT INTO left_outputs (place, job, reads, generation, left_at)
        SELECT place, 'gone', '{src}', 1, now() - make_interval(days => CASE place WHEN 'young' THEN 89 ELSE 91 END)
        FROM unnest(CAST(:places AS text[])) AS place
"""


def leave(engine: Engine, *places: str) -> None:
    with transaction(engine) as connection:
        connection.execute(text(_LEFT), {"places": list(places)})


def left(engine: Engine) -> list[str]:
    with transaction(engine) as connection:
        return list(connection.execute(text("SELECT place FROM left_outputs ORDER BY place")).scalars())


@pytest.fixture
def epoch(engine: Engine) -> int:
    with transaction(engine) as connection:
        connection.exec_driver_sql(_OLD)
        taken = leases.take(connection, LOOP, "me", url="", seconds=600)
    assert taken is not None
    return taken


def ids(engine: Engine, table: str) -> list[int]:
    with transaction(engine) as connection:
        return list(connection.execute(text(f"SELECT id FROM {table} ORDER BY id")).scalars())


def passes(engine: Engine, epoch: int, *tables: str, rounds: int = 12) -> Housekeeping:
    keeping = Housekeeping(engine, FakeClock(), LOOP, dict.fromkeys(tables, _DAYS), most_rows=3)
    for _ in range(rounds):
        keeping.round(epoch)
    return keeping


def test_a_round_notes_the_flows_of_jobs_of_the_release_before(engine: Engine, epoch: int) -> None:
    write_layer(engine, "etl", make_layer())
    with transaction(engine) as connection:
        connection.execute(text("INSERT INTO flows (job, reads) VALUES ('etl', '{}')"))
    passes(engine, epoch, rounds=1)
    with transaction(engine) as connection:
        assert connection.execute(text("SELECT dead_letters FROM flows")).scalars().all() == ["etl.dead-letters"]


def test_old_decisions_go_but_not_the_newest_of_a_job(engine: Engine, epoch: int) -> None:
    with transaction(engine) as connection:
        connection.execute(text("UPDATE decisions SET job = 'lone' WHERE id = 1"))
    passes(engine, epoch, "decisions")
    assert ids(engine, "decisions") == [1, *range(11, 21)]


def test_cleared_alerts_go_and_open_ones_stay_however_old(engine: Engine, epoch: int) -> None:
    passes(engine, epoch, "alerts")
    assert ids(engine, "alerts") == [2, 4, 6, 8, 10, *range(11, 21)]


def test_old_history_moves_and_no_version_can_be_used_again(engine: Engine, epoch: int) -> None:
    """The newest row of each layer stays: it says which versions were used, and that the job existed."""
    passes(engine, epoch, "history")
    assert ids(engine, "history") == [2, *range(11, 21)]
    assert ids(engine, "history_archive") == [1, *range(3, 11)]
    for version in (1, 2):
        with pytest.raises(IntegrityError, match="was used before"), transaction(engine) as connection:
            connection.execute(
                text(
                    "INSERT INTO expected_layers (job, layer, version, revision, author)"
                    " VALUES ('j', 'oncall', :version, 99, 'x')"
                ),
                {"version": version},
            )


def test_nothing_goes_without_its_setting(engine: Engine, epoch: int) -> None:
    passes(engine, epoch, "alerts")
    assert len(ids(engine, "history")) == len(ids(engine, "decisions")) == 20


def test_a_round_reads_a_page_and_a_pass_ends_at_young_rows(engine: Engine, epoch: int) -> None:
    """1. Three rows a round. 2. A pass ends at young rows. 3. The next one comes in an hour."""
    clock = FakeClock()
    keeping = Housekeeping(engine, clock, LOOP, {"history": _DAYS}, most_rows=3)
    keeping.round(epoch)
    assert ids(engine, "history_archive") == [1, 3]
    for _ in range(10):
        keeping.round(epoch)
    with transaction(engine) as connection:
        connection.execute(text("DELETE FROM leases"))
    keeping.round(epoch)
    clock.seconds += PASS_SECONDS
    with pytest.raises(Fenced):
        keeping.round(epoch)


def test_what_was_left_goes_by_age_where_nobody_writes_or_reads(engine: Engine, epoch: int) -> None:
    """It stays where a job has rows or malformed records, or reads: by name or by pattern."""
    source = {"topic": None, "topic_pattern": "by-pattern-.*"}
    side = {"late": {"where": "true", "output": {"type": "kafka", "topic": "by-side"}}}
    write_layer(engine, "etl", make_layer(output={"topic": "written"}, dead_letter_topic="letters", side_outputs=side))
    write_layer(engine, "reader", make_layer(inputs={"events": {"topic": "read"}}))
    write_layer(engine, "all", make_layer(completeness="drop_late", inputs={"events": source}, output={"topic": "o"}))
    table = {"type": "delta", "path": "/shared", "allow_other_writers": True}
    write_layer(engine, "sharer", {**make_layer(), "output": table})
    used = ["/shared", "by-pattern-1", "by-side", "letters", "read", "written"]
    leave(engine, *used, "young", "nobody", "/by-pattern-path", "/nobody", "other@eu")
    with transaction(engine) as connection:
        connection.execute(text("INSERT INTO flows (job, reads) SELECT name, '{}' FROM jobs ON CONFLICT DO NOTHING"))
    passes(engine, epoch, "left_outputs", rounds=12)
    assert left(engine) == sorted([*used, "young"])


def test_what_a_job_still_runs_is_not_left(engine: Engine, epoch: int) -> None:
    """It is to write elsewhere, and its tasks do not yet."""
    leave(engine, "out", "other")
    with transaction(engine) as connection:
        connection.execute(
            text(
                "INSERT INTO running (job, config, revision, generation, restarts, commit_number, leader_epoch)"
                " VALUES ('gone', '{}', 1, 1, 0, 1, 1)"
            )
        )
    passes(engine, epoch, "left_outputs")
    assert left(engine) == ["other", "out"]


def test_nothing_that_was_left_goes_while_a_flow_is_not_known(engine: Engine, epoch: int) -> None:
    leave(engine, "nobody")
    write_layer(engine, "etl", make_layer())
    with transaction(engine) as connection:
        connection.execute(text("INSERT INTO flows (job, reads) VALUES ('etl', '{}') ON CONFLICT DO NOTHING"))
        assert purge_left(connection, _DAYS, 0, 3) == (0, 0)
        flows.note(connection, 10)
        assert purge_left(connection, _DAYS, 0, 3) == (1, 1)
    assert left(engine) == []
