"""The commands of operators: alerts, silences, layers of the cell, leaders, containers, tokens, `init --recover`."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from sqlalchemy import text

from penstock.model.alerts import AlertKind
from penstock.store import leases
from penstock.store.alerts import clear_alerts, raise_alert
from penstock.store.engine import connect, transaction
from penstock.wire.alerts import SilenceWrite
from services.auto_scaler.store.decisions import AUTO_SCALER, NewDecision, insert_decisions
from services.job_service.metrics import OpenAlerts
from tests.support.cli.shell import Shell
from tests.support.control.clock import FakeClock
from tests.support.job_service.service import RunningJobService
from tests.support.store.jobs import make_layer, write_layer


def test_an_alert_is_acknowledged_and_silenced(shell: Shell, service: RunningJobService) -> None:
    with transaction(service.engine) as connection:
        raise_alert(connection, AlertKind.QUARANTINED, "etl", "failed")
    number = str(json.loads(shell("alerts", "--json").ok())["alerts"][0]["id"])
    assert "acknowledged by admin, ends in " in shell("acknowledge", number, "--for", "2h", "-r", "mine").ok()
    assert "acknowledged by admin" in shell("alerts").ok()
    assert shell("acknowledge", number, "--end").ok() == "quarantined etl: open\n"
    assert "(field for, rule required)" in shell("silences", "create", "--subject", "e*", "-r", "release").refusal()
    assert "(field reason, rule required)" in shell("silences", "create", "--subject", "e*", "--for", "1h").refusal()
    said = shell("silences", "create", "--kind", "quarantined", "--subject", "e*", "-r", "x", "--for", "1h").ok()
    silence = said.split()[1].rstrip(":")
    assert shell("alerts").ok() == "none\n"
    assert f"silence {silence}" in shell("alerts", "--silenced").ok()
    assert "quarantined" in shell("silences", "list").ok()
    shell("silences", "end", silence).ok()
    assert "failed" in shell("alerts").ok()
    assert shell("silences", "list").ok() == "none\n"
    assert "silence" in shell("silences", "list", "--ended", "--json").ok()


def test_why_the_auto_scaler_decided_as_it_did(shell: Shell, service: RunningJobService) -> None:
    """1. Nothing was decided. 2. A release before this one had a reason only. 3. This one has all that was known.
    4. A later decision that changes nothing does not hide the change."""
    write_layer(service.engine, "etl", make_layer())
    assert shell("decisions", "etl", "--why").ok() == "none\n"
    former = NewDecision("etl", datetime.now(UTC), "none", "none", {"reason": "healthy"}, None, "nothing to do")
    known = {"reason": "the reason", "why": ["Symptom: lag [of 120 s].", "Limit: 32 tasks."]}
    newest = former._replace(symptom="lag", action="increase_tasks", inputs=known, change={"task_count": 4})
    with transaction(service.engine) as connection:
        epoch = leases.take(connection, AUTO_SCALER, "test", url="", seconds=60.0)
        assert epoch is not None
        insert_decisions(connection, [former], epoch)
    assert shell("decisions", "etl", "--why").ok().splitlines()[1:] == ["  healthy"]
    with transaction(service.engine) as connection:
        insert_decisions(connection, [newest], epoch)
    said = shell("decisions", "etl", "--why").ok().splitlines()
    assert said[0].startswith("action: increase_tasks; outcome: nothing to do; ")
    assert said[1:] == ["  Symptom: lag [of 120 s].", "  Limit: 32 tasks."]
    with transaction(service.engine) as connection:
        insert_decisions(connection, [former], epoch)
    said = [line.partition(";")[0] for line in shell("decisions", "etl", "--why").ok().splitlines()]
    assert said[:3] == ["action: none", "  healthy", "action: increase_tasks"]
    table = shell("decisions", "etl").ok()
    assert all(text in table for text in ('{"task_count":4}', "the reason", "healthy"))
    assert json.loads(shell("decisions", "etl", "--json").ok())["decisions"][1]["action"] == "increase_tasks"


def test_layers_of_the_cell(shell: Shell) -> None:
    assert "oncall" in shell("layers", "list").ok()
    shell("layers", "add", "canary", "--rank", "150", "--default-expiry", "2h", "-r", "trial").ok()
    assert shell("layers", "change", "canary", "--rank", "160").ok() == "canary: rank 160, default expiry 2h\n"
    assert "default expiry never" in shell("layers", "change", "canary", "--default-expiry", "never").ok()
    assert "(field rank, rule builtin)" in shell("layers", "change", "oncall", "--rank", "1").refusal()
    assert "(field layer, rule known)" in shell("layers", "change", "other").refusal()
    shell("layers", "remove", "canary").ok()
    said = shell("history", "--subject", "canary").ok()
    assert [word in said for word in ("layer_added", "layer_changed", "layer_dropped", "trial")] == [True] * 4


def test_leaders_and_the_history_of_the_cell(shell: Shell, service: RunningJobService) -> None:
    with transaction(service.engine) as connection:
        leases.take(connection, "a.loop", "me", url="http://me", seconds=60.0)
        leases.take(connection, "b.loop", "me", url="http://me", seconds=60.0)
        leases.release(connection, "b.loop", "me")
    led, nobody = [line for line in shell("leaders").ok().splitlines() if ".loop" in line]
    assert "me" in led.split()
    assert "nobody" in nobody.split()
    assert len(json.loads(shell("leaders", "--json").ok())["leaders"]) == 2
    shell("shards", "--set", "2048", "-r", "growth").ok()
    assert "shard_count: 1024 -> 2048" in shell("history").ok()
    assert json.loads(shell("history", "--json").ok())["entries"][0]["reason"] == "growth"


def test_a_container_is_forgotten(shell: Shell, service: RunningJobService) -> None:
    with transaction(service.engine) as connection:
        connection.execute(
            text(
                "INSERT INTO containers (name, incarnation, url, region, cpu_cores, memory_bytes, disk_bytes, state)"
                " VALUES ('c0', 'i', 'http://c0', 'here', 2, 1, 1, 'live')"
            )
        )
    assert "(field container, rule lost)" in shell("forget", "c0").refusal()
    with transaction(service.engine) as connection:
        connection.execute(text("UPDATE containers SET state = 'lost'"))
    assert shell("forget", "c0", "-r", "forged").ok() == "forgot c0\n"


def test_a_secret_is_given_to_jobs_and_taken_from_them(shell: Shell) -> None:
    """1. Nobody may use one. 2. Some jobs may. 3. What names no jobs is refused. 4. It goes."""
    assert shell("secrets", "list").ok() == "none\n"
    said = shell("secrets", "put", "api-key", "--job", "payments", "--job", "team-a.*", "-r", "new").ok()
    assert "api-key may be used by payments, team-a.*" in said
    assert "payments, team-a.*" in shell("secrets", "list").ok()
    assert shell("secrets", "put", "api-key", "--job", "NO").code == 1
    assert json.loads(shell("secrets", "list", "--json").ok())["secrets"][0]["jobs"] == ["payments", "team-a.*"]
    assert shell("secrets", "delete", "api-key", "-r", "leaked").ok() == "deleted api-key\n"
    assert "there is no secret api-key" in shell("secrets", "delete", "api-key").refusal()
    assert shell("secrets", "list").ok() == "none\n"
    assert "leaked" in shell("history", "--subject", "api-key").ok()


def test_open_alerts_are_counted_by_kind(service: RunningJobService) -> None:
    """1. Of each kind, also one without an alert. 2. One that is cleared or silenced does not count."""
    counts = OpenAlerts(service.engine, FakeClock())
    with transaction(service.engine) as connection:
        for subject in ("a", "b"):
            raise_alert(connection, AlertKind.QUARANTINED, subject, "failed")
    assert _counted(counts)["quarantined"] == 2
    assert set(_counted(counts)) == {kind.value for kind in AlertKind}
    with transaction(service.engine) as connection:
        clear_alerts(connection, AlertKind.QUARANTINED, ["a"])
    service.client().silence(SilenceWrite(subject="b", reason="known", expires_in_seconds=60))
    assert sum(_counted(counts).values()) == 0


def _counted(counts: OpenAlerts) -> dict[str, float]:
    counts.read_again()
    (family,) = counts.collect()
    return {sample.labels["kind"]: sample.value for sample in family.samples}


def test_alerts_are_not_counted_while_the_store_is_away() -> None:
    engine = connect("postgresql://127.0.0.1:1/none")
    counts = OpenAlerts(engine, FakeClock())
    counts.read_again()
    assert list(counts.collect()) == []
    engine.dispose()


def test_a_token_is_rotated(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    made = shell("tokens", "create", "robot", "--role", "oncall", "--for", "90d").ok().split()[-1]
    assert "in 89d" in shell("tokens", "list").ok()
    said = shell("tokens", "rotate", "robot", "--overlap", "0", "--for", "never").ok()
    assert "robot (oncall), shown only now: pst_" in said
    assert "expires: never" in said
    assert "(field name, rule last_admin)" in shell("tokens", "revoke", "admin").refusal()
    monkeypatch.setenv("PENSTOCK_TOKEN", made)
    assert "Unauthenticated: " in shell("jobs", "list").refusal()


def test_who_holds_the_store_makes_a_new_admin(shell: Shell, empty_database_url: str) -> None:
    """1. The first. 2. There is one. 3. None can be used: it says what to do. 4. Recovered, and recorded."""
    url = ("--database-url", empty_database_url)
    assert "admin token, shown only now: pst_" in shell("init", *url).ok()
    assert "an admin token exists already" in shell("init", *url).ok()
    engine = connect(empty_database_url)
    with transaction(engine) as connection:
        connection.execute(text("UPDATE tokens SET expires_at = now()"))
    said = shell("init", *url).ok()
    assert "no admin token can be used" in said
    assert "`penstock init --recover`" in said
    assert "admin token, shown only now: pst_" in shell("init", *url, "--recover", "-r", "lost").ok()
    assert "an admin token exists already" in shell("init", *url).ok()
    with transaction(engine) as connection:
        rows = connection.execute(text("SELECT action, author, reason FROM cell_history ORDER BY id")).all()
    engine.dispose()
    assert [tuple(row) for row in rows] == [("token_created", "init", ""), ("admin_recovered", "init", "lost")]


def test_the_doctor_asks_the_service_and_the_store(
    shell: Shell, service: RunningJobService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1. Both answer: of the cell, its loops are missing. 2. A token that is not known."""
    monkeypatch.setenv("PENSTOCK_DATABASE_URL", service.database_url)
    seen = {each["part"]: each for each in json.loads(shell("doctor", "--json").out)}
    assert [seen[part]["level"] for part in ("postgres", "migrations", "clock", "job service", "token")] == ["ok"] * 5
    assert (seen["loop state_syncer"]["level"], bool(seen["loop state_syncer"]["advice"])) == ("fail", True)

    monkeypatch.setenv("PENSTOCK_TOKEN", "pst_unknown")
    ended = shell("doctor")
    assert ended.code == 1
    assert "fail  job service" in ended.out
    assert "-> set PENSTOCK_TOKEN to a good token" in ended.out
