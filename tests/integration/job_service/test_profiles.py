"""Profiles in the Job Service, the State Syncer's rounds about them, and `penstock jobs profile`."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine, text

from penstock.control.errors import Conflict, Forbidden, InvalidConfig, NotFound
from penstock.store.engine import transaction
from penstock.tasks.profile import ProfileReport, ProfileRequest
from penstock.wire.job_client import JobClient
from services.state_syncer.host_tasks.outcomes import Done, Failed, Lost, Unanswered
from services.state_syncer.profiles.reconciler import ProfileReconciler
from services.state_syncer.profiles.store import ProfileStore
from tests.support.cli.shell import Shell
from tests.support.control.rounds import rounds_go_on
from tests.support.job_service.service import CONFIG, RunningJobService
from tests.support.state_syncer.cell import Cell
from tests.support.state_syncer.containers import Containers, MemoryHostTasks

REPORT = ProfileReport(rows=9000, batches=9, seconds=9.0, rows_per_second=1000.0, low_rows_per_second=900.0)


class Profiling:
    """A job that does not run, two containers, and the leader's rounds."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.cell = Cell(engine, ("a", "b"))
        self.containers = Containers(lambda key: Done(REPORT))
        self.elect()

    def elect(self) -> None:
        """A new leader, which knows nothing of what containers answered."""
        self._host_tasks = MemoryHostTasks(self.containers)

    def rounds(self, count: int) -> None:
        """Each round is a new process: all that it knows of the ones before is in the store."""
        for _ in range(count):
            ProfileReconciler(ProfileStore(self.engine), self._host_tasks).round(self.cell.epoch)


@pytest.fixture
def profiling(service: RunningJobService, client: JobClient) -> Profiling:
    client.put_job("etl", CONFIG)
    return Profiling(service.engine)


def test_a_profile_is_made_of_what_is_expected_and_kept(client: JobClient, profiling: Profiling) -> None:
    """1. Asked for, though the job never ran; a second one at once is refused. 2. A container is recorded, then asked.
    3. How far it is. 4. A new leader asks the same one for the same. Done."""
    asked = client.create_profile("etl", 30, reason="before the launch")
    assert (asked.state, asked.seconds, asked.reason) == ("asked", 30, "before the launch")
    with pytest.raises(Conflict, match="a profile of etl is under way") as caught:
        client.create_profile("etl")
    assert caught.value.rule == "one_profile_at_a_time"
    profiling.containers.works = lambda key: Unanswered("12 rows in 1 batches")
    profiling.rounds(1)
    assert (client.profile("etl", asked.number).container is None, profiling.containers.asked) == (False, [])
    profiling.rounds(2)
    (ask,) = profiling.containers.asked
    assert isinstance(ask.request, ProfileRequest)
    assert (ask.request.number, ask.request.seconds) == (asked.number, 30)
    assert ask.request.config.model_dump(mode="json") == asked.config
    assert client.profile("etl", asked.number).detail == "12 rows in 1 batches"
    profiling.containers.works = lambda key: Done(REPORT)
    profiling.elect()
    profiling.rounds(2)
    assert len(profiling.containers.asked) == 1
    done = client.profile("etl", asked.number)
    assert (done.state, done.report, done.detail) == ("done", REPORT, "")
    assert client.profiles("etl").profiles == [done]


def test_a_loss_is_made_good_once_and_a_failure_says_why(client: JobClient, profiling: Profiling) -> None:
    profiling.containers.works = lambda key: Lost("no answer") if key.container == "a" else Failed("no such column")
    number = client.create_profile("etl").number
    profiling.rounds(8)
    failed = client.profile("etl", number)
    assert (failed.state, failed.detail, failed.report) == ("failed", "no such column", None)
    assert [each.key.container for each in profiling.containers.asked] == ["a", "b"]


def test_a_configuration_that_cannot_be_read_is_that_profile_s_trouble(client: JobClient, profiling: Profiling) -> None:
    client.put_job("other", CONFIG)
    bad, good = client.create_profile("etl").number, client.create_profile("other").number
    with transaction(profiling.engine) as connection:
        connection.execute(text("UPDATE profiles SET config = '{}' WHERE number = :number"), {"number": bad})
    profiling.rounds(3)
    assert "cannot be read" in client.profile("etl", bad).detail
    assert client.profile("other", good).state == "done"


def test_ten_profiles_of_a_job_are_kept_and_go_with_it(client: JobClient, profiling: Profiling) -> None:
    numbers = []
    for _ in range(12):
        numbers.append(client.create_profile("etl").number)
        profiling.rounds(3)
    assert [each.number for each in client.profiles("etl").profiles] == numbers[:1:-1]
    with transaction(profiling.engine) as connection:
        connection.execute(text("DELETE FROM jobs WHERE name = 'etl'"))
        assert connection.execute(text("SELECT count(*) FROM profiles")).scalar_one() == 0


def test_what_is_refused(service: RunningJobService, client: JobClient, profiling: Profiling) -> None:
    reader = client.create_token("onlooker", "reader")
    with pytest.raises(NotFound):
        client.create_profile("nobody")
    with pytest.raises(InvalidConfig, match="seconds"):
        client.create_profile("etl", 4)
    with pytest.raises(InvalidConfig, match="seconds"):
        client.create_profile("etl", 601)
    with pytest.raises(NotFound):
        client.profile("etl", 77)
    with pytest.raises(Forbidden):
        service.client(reader).create_profile("etl")
    assert client.profiles("etl").profiles == []


def test_the_command(client: JobClient, profiling: Profiling, shell: Shell) -> None:
    """1. Without any there is none to show. 2. It waits, and says what a task does. 3. The newest is shown again. 4. A
    failure is an error."""
    assert "run the command without --last" in shell("jobs", "profile", "etl", "--last").refusal()
    with rounds_go_on(lambda: profiling.rounds(1)):
        said = shell("jobs", "profile", "etl", "--for", "10s").ok()
        assert "one task of etl does 1,000" in said
        assert "9,000 rows in 9 batches" in said
        assert "1,000" in shell("jobs", "profile", "etl", "--last").ok()
        profiling.containers.works = lambda key: Failed("no such column")
        assert "failed: no such column" in shell("jobs", "profile", "etl", "--for", "10s").refusal()
