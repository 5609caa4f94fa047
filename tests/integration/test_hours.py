"""Hours of jobs, rolled from samples: in pages, by one process at a time, once they are over; days go whole."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Engine, text

from penstock.model.job_metrics import HOUR, MINUTE
from penstock.store.engine import connect, transaction
from penstock.store.roles import SERVICE, grant_roles, url_for
from services.task_service.sampler import Sampler
from services.task_service.store.hours import HourStore, Rolled
from services.task_service.store.samples import SampleStore
from tests.support.control.clock import FakeClock
from tests.support.store.running import commit_job

THIS_HOUR = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
OLD = THIS_HOUR - 5 * HOUR
JOBS = ("a", "b", "c", "d", "e")
DAYS = "SELECT part FROM job_metrics_parts ORDER BY ends"


def run(engine: Engine, statement: str, **values: object) -> list[object]:
    with transaction(engine) as connection:
        found = connection.execute(text(statement), values)
        return list(found.scalars()) if found.returns_rows else []


def measure(engine: Engine, minute: datetime, *jobs: str) -> None:
    columns, values = "job, index, minute, backlog_records", "unnest(CAST(:jobs AS text[])), 0, :minute, 7"
    run(engine, f"INSERT INTO task_metrics ({columns}) SELECT {values}", jobs=list(jobs), minute=minute)


def rolled_jobs(engine: Engine, hour: datetime = OLD) -> list[object]:
    return run(engine, "SELECT job FROM job_metrics WHERE hour = :hour ORDER BY job", hour=hour)


def cursor(engine: Engine) -> tuple[datetime, str]:
    with transaction(engine) as connection:
        hour, job = connection.execute(text("SELECT hour, job FROM rolled")).one()
        return hour, job


@pytest.fixture
def store(engine: Engine) -> HourStore:
    """Five jobs of two tasks, of which the hour `OLD` is the first that is not rolled. Pages of two."""
    for job in JOBS:
        commit_job(engine, job, task_count=2)
    run(engine, "UPDATE rolled SET hour = :hour, job = ''", hour=OLD)
    measure(engine, OLD + MINUTE, *JOBS)
    return HourStore(engine, most_jobs=3, most_tasks=4)


def test_an_hour_is_rolled_in_pages_that_another_process_carries_on(engine: Engine, store: HourStore) -> None:
    """1. A page of as many tasks as fit. 2. The process ends; another one goes on. 3. What follows is rolled, and hours
    without samples are passed over. 4. Nothing is due until the present hour is over."""
    measure(engine, OLD + 2 * HOUR, "b")
    assert store.roll() == Rolled(OLD, 2, is_whole=False)
    assert (rolled_jobs(engine), cursor(engine)) == (["a", "b"], (OLD, "b"))
    other = HourStore(engine)
    assert other.roll() == Rolled(OLD, 3, is_whole=True)
    assert (rolled_jobs(engine), cursor(engine)) == (list(JOBS), (OLD + 2 * HOUR, ""))
    assert other.roll() == Rolled(OLD + 2 * HOUR, 1, is_whole=True)
    assert (cursor(engine)[0] >= THIS_HOUR, other.roll()) == (True, None)


def test_while_a_process_rolls_another_one_leaves_it_to_it(engine: Engine, store: HourStore) -> None:
    with engine.begin() as connection:
        connection.execute(text("SELECT FROM rolled FOR UPDATE"))
        assert store.roll() is None
    assert store.roll() is not None


def test_an_hour_that_is_rolled_again_is_what_its_samples_say(engine: Engine, store: HourStore) -> None:
    """As after the store was restored: the cursor is that of an older day."""
    whole = HourStore(engine)
    whole.roll()
    run(engine, "UPDATE rolled SET hour = :hour, job = ''", hour=OLD)
    run(engine, "UPDATE task_metrics SET backlog_records = 8 WHERE job = 'c'")
    whole.roll()
    assert run(engine, "SELECT backlog_records[2] FROM job_metrics ORDER BY job") == [7, 7, 8, 7, 7]
    assert run(engine, "SELECT array_length(backlog_records, 1) FROM job_metrics WHERE job = 'a'") == [60]
    assert run(engine, "SELECT lag_seconds FROM job_metrics WHERE job = 'a'") == [None]


def test_the_role_of_services_rolls_and_drops_days(engine: Engine, store: HourStore, database_url: str) -> None:
    with transaction(engine) as connection:
        grant_roles(connection)
    service = connect(url_for(SERVICE, database_url), connections=1)
    rolled = HourStore(service).roll()
    assert rolled is not None
    assert rolled.jobs == len(JOBS)
    assert rolled_jobs(service) == list(JOBS)
    run(engine, "SELECT add_job_metrics_day(now() - interval '20 days')")
    assert HourStore(service).drop_oldest(14) is not None
    service.dispose()


@pytest.mark.parametrize(("minutes", "is_due"), [(61, False), (63, True)])
def test_an_hour_is_due_when_its_last_samples_are_there(engine: Engine, minutes: int, is_due: bool) -> None:
    run(engine, "UPDATE rolled SET hour = clock_timestamp() - make_interval(mins => :minutes)", minutes=minutes)
    assert (HourStore(engine).roll() is not None) == is_due


def test_samples_that_are_not_rolled_stay_as_long_as_hours_do(engine: Engine, store: HourStore) -> None:
    """1. All samples of before are three days old, and not rolled. 2. They are: they go. 3. Hours go by their own
    age."""
    samples = SampleStore(engine)
    (first,) = run(engine, "SELECT part FROM sample_parts ORDER BY ends LIMIT 1")
    run(engine, "DELETE FROM task_metrics")
    run(engine, f"ALTER TABLE task_metrics DETACH PARTITION {first}")
    ended = THIS_HOUR - timedelta(days=3)
    run(engine, f"ALTER TABLE task_metrics ATTACH PARTITION {first} FOR VALUES FROM (MINVALUE) TO ('{ended}')")
    measure(engine, ended - HOUR, *JOBS)
    run(engine, "UPDATE rolled SET hour = :hour", hour=ended - HOUR)
    assert samples.drop_oldest(2, unrolled_days=14) is None
    HourStore(engine).roll()
    assert (samples.drop_oldest(2, unrolled_days=14), samples.drop_oldest(2, unrolled_days=14)) == (first, None)
    (day,) = run(engine, DAYS)
    assert (store.drop_oldest(14), store.drop_oldest(2), run(engine, DAYS)) == (None, day, [])


def test_samples_that_nobody_rolls_go_at_last(engine: Engine) -> None:
    run(engine, "UPDATE rolled SET hour = now() - interval '60 days'")
    (first,) = run(engine, "SELECT part FROM sample_parts ORDER BY ends LIMIT 1")
    run(engine, f"ALTER TABLE task_metrics DETACH PARTITION {first}")
    ended = THIS_HOUR - timedelta(days=15)
    run(engine, f"ALTER TABLE task_metrics ATTACH PARTITION {first} FOR VALUES FROM (MINVALUE) TO ('{ended}')")
    assert SampleStore(engine).drop_oldest(2, unrolled_days=16) is None
    assert SampleStore(engine).drop_oldest(2, unrolled_days=14) == first


def test_the_sampler_rolls_a_page_a_step_and_drops_what_is_old(engine: Engine, store: HourStore) -> None:
    run(engine, "SELECT add_job_metrics_day(now() - interval '20 days')")
    sampler = Sampler(SampleStore(engine), store, FakeClock(), keep_days=14, keep_task_days=2)
    assert [sampler.step() for _ in range(4)] == [True, True, True, False]
    assert rolled_jobs(engine) == list(JOBS)
    assert len(run(engine, DAYS)) == 1
