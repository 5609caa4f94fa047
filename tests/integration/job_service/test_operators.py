"""What operators do to the cell: alerts, layers, containers, shards, leaders. All of it is in the history."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import text

from penstock.control.errors import Conflict, Forbidden, InvalidConfig, NotFound
from penstock.control.process import wait_until
from penstock.model.alerts import AlertKind
from penstock.store import alerts, leases
from penstock.store.engine import transaction
from penstock.wire.alerts import SilenceWrite
from penstock.wire.job_client import JobClient
from penstock.wire.layers import LayerAdd, LayerChange
from services.job_service.store import layers as layer_rows
from tests.support.job_service.service import CONFIG, RunningJobService


def _raise(service: RunningJobService, subject: str, kind: AlertKind = AlertKind.JOB_LAGGING) -> int:
    with transaction(service.engine) as connection:
        alerts.raise_alert(connection, kind, subject, "it lags")
        found = text("SELECT id FROM alerts WHERE (kind, subject) = (:kind, :subject) AND cleared_at IS NULL")
        return int(connection.execute(found, {"kind": kind.value, "subject": subject}).scalar_one())


def _clear(service: RunningJobService, subject: str) -> None:
    with transaction(service.engine) as connection:
        alerts.clear_alerts(connection, AlertKind.JOB_LAGGING, [subject])


def test_an_alert_is_acknowledged_until_it_closes(service: RunningJobService, client: JobClient) -> None:
    """1. The list shows who. 2. It is raised again: still. 3. It closes and comes again: nobody has it. 4. A closed
    one, and an unknown one, are refused."""
    number = _raise(service, "etl")
    with service.client(client.create_token("ann", "oncall")) as ann:
        assert ann.acknowledge(number, reason="on it").acknowledged_by == "ann"
    assert _raise(service, "etl") == number
    (shown,) = client.alerts().alerts
    assert (shown.acknowledged_by, shown.acknowledged_reason, shown.acknowledged_until) == ("ann", "on it", None)
    _clear(service, "etl")
    again = _raise(service, "etl")
    assert [alert.acknowledged_by for alert in client.alerts().alerts] == [None]
    with pytest.raises(Conflict) as refused:
        client.acknowledge(number)
    assert (refused.value.field, refused.value.rule) == ("alert", "open")
    with pytest.raises(NotFound):
        client.acknowledge(again + 100)


def test_an_acknowledgement_ends(service: RunningJobService, client: JobClient) -> None:
    number = _raise(service, "etl")
    assert client.acknowledge(number, expires_in_seconds=3600).acknowledged_until is not None
    with transaction(service.engine) as connection:
        connection.execute(text("UPDATE alerts SET acknowledged_until = now()"))
    assert client.alerts().alerts[0].acknowledged_by is None
    client.acknowledge(number)
    for _ in range(2):
        assert client.end_acknowledgement(number, reason="home").acknowledged_by is None
    actions = [entry.action for entry in client.cell_history(subject="job_lagging etl").entries]
    assert actions == ["acknowledgement_ended", "alert_acknowledged", "alert_acknowledged"]


def test_silenced_alerts_are_recorded_and_shown_on_request(service: RunningJobService, client: JobClient) -> None:
    """1. Jobs of one kind by pattern. 2. Raised while it goes on. 3. It ends: all are listed."""
    for subject in ("etl-1", "etlx", "a_b", "axb", "100%"):
        _raise(service, subject)
    _raise(service, "etl-1", AlertKind.TASK_CRASHING)
    made = client.silence(_silence("etl-*", AlertKind.JOB_LAGGING))
    assert _listed(client) == {"100%", "axb", "a_b", "etlx", "etl-1 task_crashing"}
    _raise(service, "etl-2")
    assert _listed(client) == {"100%", "axb", "a_b", "etlx", "etl-1 task_crashing"}
    everything = client.alerts(include_silenced=True).alerts
    assert {alert.subject: alert.silence for alert in everything if alert.kind == "job_lagging"} == {
        "etl-1": made.id, "etl-2": made.id, "etlx": None, "a_b": None, "axb": None, "100%": None,
    }  # fmt: skip
    client.silence(_silence("a_b", None))
    client.silence(_silence("100%", None))
    assert _listed(client) == {"axb", "etlx", "etl-1 task_crashing"}
    for _ in range(2):
        client.end_silence(made.id, reason="mended")
    assert _listed(client) == {"axb", "etlx", "etl-1 task_crashing", "etl-1", "etl-2"}
    assert [silence.subject for silence in client.silences().silences] == ["100%", "a_b"]
    assert len(client.silences(include_ended=True).silences) == 3
    actions = [(entry.action, entry.reason) for entry in client.cell_history(subject=str(made.id)).entries]
    assert actions == [("silence_ended", "mended"), ("silence_created", "release")]


def _silence(subject: str, kind: AlertKind | None) -> SilenceWrite:
    return SilenceWrite(kind=kind, subject=subject, reason="release", expires_in_seconds=3600)


def _listed(client: JobClient) -> set[str]:
    found = client.alerts().alerts
    return {alert.subject if alert.kind == "job_lagging" else f"{alert.subject} {alert.kind}" for alert in found}


def test_a_silence_of_everything_is_refused(service: RunningJobService, client: JobClient) -> None:
    for subject in ("*", "**"):
        with pytest.raises(InvalidConfig) as refused:
            client.silence(_silence(subject, None))
        assert (refused.value.field, refused.value.rule) == ("subject", "names_something")
    with service.client(client.create_token("bob", "provisioner")) as bob:
        for call in (
            lambda: bob.silence(_silence("etl", None)),
            lambda: bob.acknowledge(1),
            lambda: bob.end_silence(1),
        ):
            with pytest.raises(Forbidden):
                call()


def test_a_layer_is_changed_and_removed(service: RunningJobService, client: JobClient) -> None:
    """1. Its new expiry counts for the next write. 2. While a job has something in it, it stays. 3. Dropped, it goes.
    4. A layer of this name comes again: versions go on."""
    client.put_job("etl", CONFIG)
    client.add_layer(LayerAdd(name="canary", rank=150))
    change = LayerChange(rank=150, default_expiry_seconds=600, documentation="trial", reason="shorter")
    assert client.change_layer("canary", change).default_expiry_seconds == 600
    client.change_layer("canary", change)
    assert client.put_layer("etl", "canary", {"priority": 1}, if_match=0).expires_at is not None
    with pytest.raises(Conflict) as refused:
        client.remove_layer("canary")
    assert (refused.value.field, refused.value.rule) == ("layer", "unused")
    client.drop_layer("etl", "canary", if_match=1)
    client.remove_layer("canary", reason="done")
    assert "canary" not in [layer.name for layer in client.layers()]
    with pytest.raises(NotFound):
        client.remove_layer("canary")
    client.add_layer(LayerAdd(name="canary", rank=150))
    assert client.put_layer("etl", "canary", {"priority": 1}, if_match=0).version == 3
    entries = client.cell_history(subject="canary").entries
    assert [(entry.action, entry.reason) for entry in entries] == [
        ("layer_added", ""), ("layer_dropped", "done"), ("layer_changed", "shorter"), ("layer_added", ""),
    ]  # fmt: skip


def test_a_rank_that_would_change_a_job_is_refused(client: JobClient) -> None:
    """1. Nobody has both layers: it may. 2. A job has both: it may not. 3. One is dropped: it may again."""
    client.put_job("etl", CONFIG)
    client.add_layer(LayerAdd(name="canary", rank=150))
    client.put_layer("etl", "canary", {"priority": 1}, if_match=0)
    client.change_layer("canary", LayerChange(rank=250))
    client.put_layer("etl", "scaler", {"priority": 2}, if_match=0)
    client.change_layer("canary", LayerChange(rank=260))
    with pytest.raises(Conflict, match=r"scaler, and etl have both") as refused:
        client.change_layer("canary", LayerChange(rank=150))
    assert (refused.value.field, refused.value.rule) == ("rank", "order_in_use")
    assert client.get_job("etl").config["priority"] == 1
    client.drop_layer("etl", "scaler", if_match=1)
    client.change_layer("canary", LayerChange(rank=150))
    for name, rank, rule in (("oncall", 5000, "builtin"), ("canary", 100, "unique")):
        with pytest.raises(Conflict) as refused:
            client.change_layer(name, LayerChange(rank=rank))
        assert (refused.value.field, refused.value.rule) == ("rank", rule)
    with pytest.raises(Conflict) as refused:
        client.remove_layer("rollback")
    assert (refused.value.field, refused.value.rule) == ("layer", "builtin")


def test_a_rank_waits_for_writes_under_way(service: RunningJobService, client: JobClient) -> None:
    """A write shares the layers until it ends: so a change of a rank sees what it wrote."""
    client.put_job("etl", CONFIG)
    client.add_layer(LayerAdd(name="canary", rank=150))
    client.put_layer("etl", "scaler", {"priority": 2}, if_match=0)

    def change() -> str:
        with pytest.raises(Conflict) as refused:
            client.change_layer("canary", LayerChange(rank=250))
        return str(refused.value.rule)

    def is_waiting() -> bool:
        with transaction(service.engine) as connection:
            found = text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
            return bool(connection.execute(found).scalar_one())

    with ThreadPoolExecutor(1) as pool:
        with transaction(service.engine) as connection:
            layer_rows.share(connection)
            changed = pool.submit(change)
            wait_until(lambda: changed.done() or is_waiting(), 30.0, "the change to wait")
            connection.execute(
                text(
                    "INSERT INTO expected_layers (job, layer, config, version, revision, author)"
                    " VALUES ('etl', 'canary', '{}', 1, 9, 'x')"
                )
            )
        assert changed.result(timeout=60) == "order_in_use"


def test_a_lost_container_is_forgotten(service: RunningJobService, client: JobClient) -> None:
    """1. Live: refused. 2. Lost, with a shard: refused. 3. Without: it goes, with its alerts. 4. Nobody knows it."""
    _add_container(service, "c0")
    assert _refused_rule(client) == "lost"
    _run(
        service,
        "UPDATE containers SET state = 'lost'; INSERT INTO assignment (shard, container, epoch) VALUES (0, 'c0', 1)",
    )
    assert _refused_rule(client) == "owns_no_shard"
    _run(service, "UPDATE assignment SET container = NULL, epoch = 2")
    _raise(service, "c0", AlertKind.CONTAINER_FAILING)
    client.forget_container("c0", reason="forged")
    assert list(client.all_containers()) == []
    assert client.alerts().alerts == []
    with pytest.raises(NotFound):
        client.forget_container("c0")
    (entry,) = client.cell_history(subject="c0").entries
    assert (entry.action, entry.reason, entry.author) == ("container_forgotten", "forged", "admin")
    assert entry.old is not None
    assert entry.old["url"] == "http://c0"


def test_a_container_that_nobody_heard_for_long_is_forgotten(service: RunningJobService, client: JobClient) -> None:
    """Without a Shard Manager it stays live. One that renews its own lease is alive, however old its heartbeat."""
    _add_container(service, "c0")
    long_ago = "registered_at = now() - interval '1 hour', heartbeat_at = now() - interval '1 hour'"
    _run(service, f"UPDATE containers SET {long_ago}, lease_renewed_at = now()")
    assert _refused_rule(client) == "lost"
    _run(service, "UPDATE containers SET lease_renewed_at = now() - interval '1 hour'")
    client.forget_container("c0")
    assert list(client.all_containers()) == []


def _refused_rule(client: JobClient) -> str | None:
    with pytest.raises(Conflict) as refused:
        client.forget_container("c0")
    assert refused.value.field == "container"
    return refused.value.rule


def _add_container(service: RunningJobService, name: str) -> None:
    _run(
        service,
        f"""
        INSERT INTO containers (name, incarnation, url, region, cpu_cores, memory_bytes, disk_bytes, state)
            VALUES ('{name}', 'i', 'http://{name}', 'here', 2, 1, 1, 'live');
        INSERT INTO reports (container, incarnation, commit_number, version) VALUES ('{name}', 'i', 1, 1)
        """,
    )


def _run(service: RunningJobService, statement: str) -> None:
    with transaction(service.engine) as connection:
        connection.exec_driver_sql(statement)


def test_leaders_are_shown(service: RunningJobService, client: JobClient) -> None:
    """1. One leads. 2. It renews: it leads since then. 3. Another takes over. 4. It gives up: nobody leads."""
    _lead(service, "first", 60.0)
    _run(service, "UPDATE leases SET taken_at = now() - interval '1 hour' WHERE name = 'a.loop'")
    _lead(service, "first", 60.0)
    (leader,) = [each for each in client.leaders() if each.loop == "a.loop"]
    assert (leader.holder, leader.url) == ("first", "http://first")
    first_epoch = leader.epoch
    assert 0 < leader.expires_in_seconds <= 60
    assert leader.leads_for_seconds is not None
    assert leader.leads_for_seconds >= 3600
    _run(service, "UPDATE leases SET expires_at = now() - interval '1 minute' WHERE name = 'a.loop'")
    (leader,) = [each for each in client.leaders() if each.loop == "a.loop"]
    assert leader.expires_in_seconds < -50
    _lead(service, "second", 60.0)
    (leader,) = [each for each in client.leaders() if each.loop == "a.loop"]
    assert leader.holder == "second"
    assert leader.epoch > first_epoch
    assert leader.leads_for_seconds is not None
    assert leader.leads_for_seconds < 3600
    with transaction(service.engine) as connection:
        leases.release(connection, "a.loop", "second")
    (leader,) = [each for each in client.leaders() if each.loop == "a.loop"]
    assert leader.expires_in_seconds == 0


def _lead(service: RunningJobService, holder: str, seconds: float) -> None:
    with transaction(service.engine) as connection:
        assert leases.take(connection, "a.loop", holder, url=f"http://{holder}", seconds=seconds) is not None


def test_the_history_has_every_write_to_the_cell(service: RunningJobService, client: JobClient) -> None:
    """Also pages: three entries, two a page."""
    _add_container(service, "c0")
    client.ask_for_shards(2048, reason="growth")
    client.cordon("c0", reason="disk")
    client.drain("c0", reason="disk")
    client.uncordon("c0", reason="new disk")
    (asked,) = client.cell_history(subject="cell").entries
    assert (asked.action, asked.author, asked.reason) == ("shard_count_asked", "admin", "growth")
    assert (asked.old, asked.new) == (
        {"shard_count": 1024, "wanted_shard_count": 1024},
        {"shard_count": 2048, "wanted_shard_count": 2048},
    )
    first = client.cell_history(subject="c0", limit=2)
    rest = client.cell_history(subject="c0", limit=2, cursor=first.next)
    assert [entry.action for entry in (*first.entries, *rest.entries)] == [
        "container_uncordoned", "container_drained", "container_cordoned",
    ]  # fmt: skip
    refused = client.cell_history().entries
    with pytest.raises(Conflict):
        client.revoke_token("admin")
    assert client.cell_history().entries == refused
