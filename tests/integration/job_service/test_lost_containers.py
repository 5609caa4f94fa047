"""The cause of tasks that wait on another container, since theirs is gone."""

from __future__ import annotations

from penstock.store.engine import transaction
from penstock.tasks.ownership import Member
from penstock.wire.job_client import JobClient
from services.shard_manager.store.members import declare_lost, register
from tests.support.job_service.service import RunningJobService
from tests.support.job_service.world import World
from tests.support.state_syncer.cell import Cell


def test_a_lost_container_is_accused_and_its_heir_is_not(client: JobClient, service: RunningJobService) -> None:
    """1. c2, which ran task 1, is lost: its reports are forgotten, and its shards go to c1. 2. It is back, as a new
    life without shards."""
    world = World(client, service, Cell(service.engine))
    world.begin(task_count=2)
    world.report("c1", world.task())
    world.report("c2", world.task(1))
    world.do("UPDATE running SET committed_at = committed_at - interval '10 minutes'")
    world.do("UPDATE containers SET registered_at = registered_at - interval '1 hour'")
    world.do("UPDATE containers SET heartbeat_at = now() - interval '70 seconds' WHERE name = 'c2'")
    world.do("INSERT INTO assignment (shard, container, epoch) SELECT n, 'c1', 1 FROM generate_series(0, 4095) AS n")
    with transaction(world.service.engine) as connection:
        assert declare_lost(connection, {"c2": "1"}, 60.0) == {"c2"}
    first, *more = world.client.causes("etl").causes
    assert (first.kind, first.certainty) == ("bad_container", "likely")
    assert first.summary.startswith("the container c2 is lost: nothing was heard of it since ")
    assert first.evidence == ["these tasks do not run well yet; perhaps c2 ran them before: task 1 on c1"]
    assert not any("c1 may be bad" in each.summary for each in more)
    with transaction(world.service.engine) as connection:
        register(connection, Member("c2", "2", "http://c2", "local", 1.0, 1, 1), empty=True)
    first, *more = world.client.causes("etl").causes
    assert first.summary.startswith("the container c2 started ")
    assert not any("c1 may be bad" in each.summary for each in more)
