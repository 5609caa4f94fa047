"""Causes that were injected into a real store, by the writes of the services, are found first.

What is injected: layers through the Job Service, commits by rounds of a real State Syncer, containers by their
registration, reports as the Task Service stores them. Only times are moved by hand, since no test waits for minutes.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.control.loop import RoundEnd
from penstock.model.alerts import AlertKind
from penstock.model.causes import CauseKind
from penstock.model.reports import KeyGroupRates, TaskProgress
from penstock.store.alerts import raise_alert
from penstock.store.engine import transaction
from penstock.store.rounds import RoundNotes
from penstock.tasks.ownership import Member
from penstock.wire.job_client import JobClient
from services.shard_manager.store.members import register
from services.state_syncer.health.reconciler import HealthAlerts
from tests.support.cli.shell import Shell
from tests.support.job_service.service import CONFIG, RunningJobService
from tests.support.job_service.world import BEHIND, WELL, World
from tests.support.state_syncer.cell import Cell


@pytest.fixture
def world(client: JobClient, service: RunningJobService) -> World:
    return World(client, service, Cell(service.engine))


def dead_syncer(world: World) -> None:
    """The State Syncer had its last round five minutes ago; then somebody writes."""
    world.begin()
    RoundNotes(world.service.engine, "state_syncer", 30.0, lambda: 0.0).note(RoundEnd(world.syncer.epoch, 0.1, None))
    world.do(
        "UPDATE loop_rounds SET ended_at = ended_at - interval '5 minutes', good_at = good_at - interval '5 minutes'"
    )
    world.do("UPDATE leases SET expires_at = now() - interval '4 minutes'")
    world.report("c1", world.task())
    world.client.patch_layer("etl", "oncall", {"priority": 3}, if_match=0)


def dead_task_service(world: World) -> None:
    """No report comes any more, and the containers live."""
    world.begin()
    world.report("c1", world.task())
    world.do("UPDATE reports SET reported_at = reported_at - interval '10 minutes'")
    world.do("UPDATE containers SET heartbeat_at = now()")


def all_cordoned(world: World) -> None:
    """Nobody takes the shards of the job, which was committed four minutes ago."""
    world.begin()
    for name in ("c1", "c2"):
        world.client.cordon(name, reason="a new kernel")
    world.do("UPDATE running SET committed_at = committed_at - interval '4 minutes'")


def sick_container(world: World) -> None:
    """On c1 the tasks of three jobs crash, on c2 those of ten run."""
    world.begin()
    jobs = [f"other-{number}" for number in range(12)]
    for job in jobs:
        world.put(job)
    sick = [world.crashed("Input/output error (IOException)", job=job) for job in jobs[:2]]
    world.report("c1", world.crashed("Input/output error (IOException)"), *sick)
    world.report("c2", *(world.task(job=job) for job in jobs[2:]))


def stopped_by_oncall(world: World) -> None:
    world.begin()
    world.report("c1", world.task())
    world.patch("oncall", {"desired_state": "stopped"}, reason="the table is being copied")


def pinned_by_oncall(world: World) -> None:
    world.begin()
    world.patch("oncall", {"task_count": 1}, reason="too dear")
    world.report("c1", world.behind())


def killed_container(world: World) -> None:
    """c2 ran a task, was killed and registered anew; it has reported nothing yet."""
    world.begin(task_count=2)
    world.do("UPDATE running SET committed_at = committed_at - interval '1 minute'")
    world.report("c1", world.task())
    world.do("INSERT INTO assignment (shard, container, epoch) SELECT n, 'c2', 1 FROM generate_series(0, 4095) AS n")
    with transaction(world.service.engine) as connection:
        register(connection, Member("c2", "2", "http://c2", "local", 1.0, 1, 1), empty=True)


def held_by_a_rescale(world: World) -> None:
    """The layer oncall asks for 4 tasks in place of 2, and the rescale waits for a batch; both tasks are behind."""
    world.begin(task_count=2)
    world.report("c1", world.behind(), world.behind(1))
    world.client.patch_layer("etl", "oncall", {"task_count": 4}, if_match=0, reason="more flights", verify=False)
    world.syncer.round()
    world.do(
        """
        UPDATE sync_state SET detail = 'quiesce: 1 task has not finished its batch',
            plan = jsonb_set(plan, '{step}', '"quiesce"')
        """
    )


def revision_of_a_rescale(world: World) -> int:
    """Two tasks run, and four are written."""
    world.begin(task_count=2)
    world.report("c1", world.task(), world.task(1))
    world.client.patch_layer("etl", "base", {"task_count": 4}, if_match=1, reason="more flights", verify=False)
    return world.client.get_job("etl").revision


def quarantined(world: World) -> None:
    """A rescale is written, and the State Syncer notes that its plan failed five times."""
    revision = revision_of_a_rescale(world)
    world.do(
        f"UPDATE sync_state SET state = 'quarantined', revision = {revision}, failures = 5, detail = 'no host has room'"
    )


def rescale_that_failed_twice(world: World) -> None:
    """A rescale is written. Two plans were taken back, and the third begins; all tasks run well."""
    revision = revision_of_a_rescale(world)
    world.do(
        f"""
        UPDATE sync_state SET state = 'rescaling', revision = {revision}, failures = 2,
            changed_fields = ARRAY['task_count'], detail = 'copy_state: c1 copies the state',
            plan = '{{"kind": "rescale", "failed_before": "step quiesce: late"}}'
        """
    )


def unknown_crash(world: World) -> None:
    """The job up, which writes the input, is late. The job itself crashes with an error that nobody knows."""
    inputs = {"flights": CONFIG["inputs"]["flights"] | {"topic": "raw"}}
    world.put("up", inputs=inputs, output={"type": "kafka", "topic": "flights"})
    world.begin()
    world.report("c2", world.task(job="up", progress=TaskProgress(**BEHIND)))
    world.report("c1", world.crashed("Failed to delete the folder"))


def first_batches(world: World) -> None:
    """The first batch since the start has lasted for two minutes."""
    world.begin()
    world.report("c1", world.task(progress=TaskProgress(oldest_unread_seconds=120.0)))


def worse_query(world: World) -> None:
    """It ran well, but for a killed host. Then the provisioner wrote another query, which divides by zero."""
    world.begin()
    classes = {"out_of_memory": 0, "configuration": 0, "fenced": 0, "host": 2, "other": 0}
    columns, values = ", ".join(f"errors_{name}" for name in classes), ", ".join(map(str, classes.values()))
    sample = f"'etl', 0, date_trunc('minute', now()) - interval '3 minutes', 2, {values}"
    world.do(f"INSERT INTO task_metrics (job, index, minute, crashes, {columns}) VALUES ({sample})")
    world.report("c1", world.task())
    world.patch("provisioner", {"query": {"sql": "SELECT 1 / 0 AS origin FROM flights"}}, reason="a ratio")
    world.report("c1", world.crashed("[DIVIDE_BY_ZERO] Division by zero"))


def less_memory(world: World) -> None:
    world.begin()
    world.report("c1", world.task())
    world.patch("oncall", {"resources": {"memory_bytes": 2**27}}, reason="too dear")
    world.report("c1", world.crashed("Java heap space (OutOfMemoryError)", out_of_memory=True))


def silent_producer(world: World) -> None:
    """The job up writes the input, and its task reports nothing."""
    inputs = {"flights": CONFIG["inputs"]["flights"] | {"topic": "raw"}}
    world.put("up", inputs=inputs, output={"type": "kafka", "topic": "flights"})
    world.begin()
    progress = TaskProgress(**(WELL | {"held_back_by": "up/0/1", "held_back_seconds": 120.0}))
    world.report("c1", world.task(progress=progress))


def malformed(world: World) -> None:
    world.begin()
    told = "flights: 60 of 100 records of the topic flights are malformed, which is more than malformed_limit 0.5"
    world.report("c1", world.crashed(told))


def memory(world: World) -> None:
    world.begin()
    world.report("c1", world.crashed("its Spark host ended with code -9", out_of_memory=True))


def broken_query(world: World) -> None:
    world.begin()
    world.report("c1", world.crashed("query: [UNRESOLVED_COLUMN] A column `delay` cannot be resolved"))


def dead_postgres(world: World) -> None:
    world.begin()
    world.report("c1", world.crashed("postgres cannot serve the sink now: connection refused"))


def missing_topic(world: World) -> None:
    world.begin()
    world.report("c1", world.crashed("kafka did not describe the topics flights: timed out"))


def deleted_topic(world: World) -> None:
    """The task runs, and nothing else is wrong."""
    world.begin()
    problems = {"input_unreadable": "inputs.flights: there is no topic flights"}
    world.report("c1", world.task(progress=TaskProgress(**WELL, input_problems=problems)))


def no_host(world: World) -> None:
    world.begin()
    world.report("c1", world.crashed("its Spark host did not start: not started: Unrecognized VM option 'x'"))


def hot_group(world: World) -> None:
    world.begin(task_count=2)
    even = KeyGroupRates(first=0, records_per_second=(10.0,) * 4, seconds=60.0)
    hot = KeyGroupRates(first=4, records_per_second=(10.0, 10.0, 10.0, 900.0), seconds=60.0)
    world.report("c1", world.task(progress=TaskProgress(**WELL, key_group_rates=even)))
    world.report("c2", world.behind(1, input_rows_per_second=930.0, key_group_rates=hot))


def at_its_limit(world: World) -> None:
    world.begin(max_task_count=1)
    world.report("c1", world.behind())


def too_small(world: World) -> None:
    world.begin()
    world.report("c1", world.behind())


INJECTED: list[tuple[Callable[[World], None], CauseKind]] = [
    (dead_syncer, CauseKind.PROCESS_DOWN),
    (dead_task_service, CauseKind.PROCESS_DOWN),
    (all_cordoned, CauseKind.NO_ROOM),
    (sick_container, CauseKind.BAD_CONTAINER),
    (stopped_by_oncall, CauseKind.HELD_BY_LAYER),
    (pinned_by_oncall, CauseKind.HELD_BY_LAYER),
    (killed_container, CauseKind.BAD_CONTAINER),
    (held_by_a_rescale, CauseKind.RECENT_CHANGE),
    (quarantined, CauseKind.CHANGE_FAILED),
    (rescale_that_failed_twice, CauseKind.CHANGE_FAILED),
    (unknown_crash, CauseKind.OTHER_ERROR),
    (first_batches, CauseKind.WARMING_UP),
    (worse_query, CauseKind.RECENT_CHANGE),
    (less_memory, CauseKind.RECENT_CHANGE),
    (silent_producer, CauseKind.UPSTREAM),
    (malformed, CauseKind.MALFORMED_INPUT),
    (memory, CauseKind.OUT_OF_MEMORY),
    (broken_query, CauseKind.BAD_CODE),
    (dead_postgres, CauseKind.OUTPUT_ERROR),
    (missing_topic, CauseKind.INPUT_ERROR),
    (deleted_topic, CauseKind.INPUT_ERROR),
    (no_host, CauseKind.HOST_ENDED),
    (hot_group, CauseKind.HOT_KEY_GROUP),
    (at_its_limit, CauseKind.AT_LIMIT),
    (too_small, CauseKind.TOO_SMALL),
]


@pytest.mark.parametrize(("inject", "kind"), INJECTED, ids=[inject.__name__ for inject, _ in INJECTED])
def test_an_injected_cause_is_the_first(world: World, inject: Callable[[World], None], kind: CauseKind) -> None:
    inject(world)
    found = world.client.causes("etl")
    assert [cause.kind for cause in found.causes][:1] == [kind], found
    assert found.causes[0].evidence


def test_a_container_that_starts_no_task_is_accused_also_while_others_come_and_go(world: World) -> None:
    """1. c2 has had the shards for long, and does not report task 1. A container is added: c2 is accused, it is not.
    2. c2 got the shards after that container was lost: that one is the cause, and c2 is not accused."""
    world.begin(task_count=2)
    world.do("UPDATE running SET committed_at = committed_at - interval '4 minutes'")
    world.do("UPDATE containers SET registered_at = registered_at - interval '1 hour'")
    world.do(
        """
        INSERT INTO assignment (shard, container, epoch, moved_at)
        SELECT n, 'c2', 1, now() - interval '1 hour' FROM generate_series(0, 4095) AS n
        """
    )
    world.report("c1", world.task())
    with transaction(world.service.engine) as connection:
        register(connection, Member("added", "1", "http://added", "local", 1.0, 1, 1), empty=True)
    (accused,) = _bad_containers(world)
    assert accused == "the container c2 may be bad: task 1 of the job is to run there"
    world.do("UPDATE containers SET state = 'lost', heartbeat_at = now() - interval '1 minute' WHERE name = 'added'")
    world.do("UPDATE assignment SET moved_at = now()")
    (accused,) = _bad_containers(world)
    assert accused.startswith("the container added is lost: nothing was heard of it since ")


def _bad_containers(world: World) -> list[str]:
    return [each.summary for each in world.client.causes("etl").causes if each.kind == CauseKind.BAD_CONTAINER]


def test_a_healthy_job_has_no_cause(world: World, shell: Shell) -> None:
    world.begin()
    world.report("c1", world.task())
    found = world.client.causes("etl")
    assert (found.health, found.causes) == ("healthy", [])
    assert "nothing is wrong" in shell("why", "etl").ok()


def test_a_host_that_ended_with_tasks_of_other_jobs_is_the_only_cause(world: World) -> None:
    """On c1 the tasks of three jobs ended with one host, on c2 those of ten run. With a second host the container is
    accused too."""
    world.begin()
    jobs = [f"other-{number}" for number in range(12)]
    for job in jobs:
        world.put(job)
    world.report("c2", *(world.task(job=job) for job in jobs[2:]))
    for second, kinds in (("h1", ["host_ended"]), ("h2", ["host_ended", "bad_container"])):
        others = [
            world.crashed(f"host {host} ended: killed", job=job)
            for host, job in zip(("h1", second), jobs, strict=False)
        ]
        world.report("c1", world.crashed("host h1 ended: killed"), *others)
        assert [cause.kind for cause in world.client.causes("etl").causes] == kinds


def test_a_healthy_job_with_an_open_alert_is_not_said_to_be_all_well(world: World, shell: Shell) -> None:
    world.begin()
    world.report("c1", world.task())
    with transaction(world.service.engine) as connection:
        raise_alert(connection, AlertKind.MALFORMED_RECORDS, "etl", "3 records are malformed")
        raise_alert(connection, AlertKind.MALFORMED_RECORDS, "etl-2", "9 records are malformed")
    assert world.client.causes("etl").causes == []
    shown = shell("why", "etl").ok()
    assert "alert malformed_records is open since" in shown
    assert "3 records are malformed" in shown
    assert "9 records" not in shown
    assert "nothing is wrong" not in shown


def test_on_call_reads_who_changed_what_and_how_to_go_back(world: World, shell: Shell) -> None:
    """1. A change makes tasks crash, and an alert is open. 2. `penstock why` names the layer, the author, the reason
    and the command."""
    worse_query(world)
    HealthAlerts(world.service.engine, lambda: 0.0).round(world.syncer.epoch)
    shown = shell("why", "etl").ok()
    assert "etl is crashing: task 0: crashes again and again: [DIVIDE_BY_ZERO]" in shown
    assert "1. a change of the layer provisioner by" in shown
    assert "a ratio" in shown
    assert "penstock layers drop etl provisioner" in shown, "the first version of a layer has none to go back to"


def test_causes_of_a_job_that_there_is_not(world: World, shell: Shell) -> None:
    assert "there is no job ghost" in shell("why", "ghost").refusal()


def test_many_jobs_that_lag_are_said_to_share_something(world: World) -> None:
    """As the last of the causes that are likely, since the job's own figures are nearer."""
    too_small(world)
    with transaction(world.service.engine) as connection:
        raise_alert(connection, AlertKind.SCALING_FROZEN, "cell", "40 % of the jobs lag")
    assert CauseKind.MANY_JOBS in {cause.kind for cause in world.client.causes("etl").causes}
