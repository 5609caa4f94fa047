"""Commands that need no Job Service: the roles of the store, topics, their records, and packing."""

from __future__ import annotations

import io
import json
import uuid
from pathlib import Path

import psycopg
import pytest
from confluent_kafka.admin import AdminClient

from penstock.local.kafka import EmbeddedKafka
from penstock.local.ports import free_port
from penstock.local.records import partition_of
from penstock.store.address import libpq_url
from penstock.store.roles import TASK_MANAGER, url_for
from tests.support.cli.shell import Shell
from tests.support.spark.wheels import wheel


@pytest.mark.long
def test_a_package_is_packed(lone_shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "rules"
    folder.mkdir()
    assert "(field package, rule not_empty)" in lone_shell("packages", "pack", str(folder), "rules", "1").refusal()
    (folder / "rules.py").write_text("LIMIT = 3\n")
    packed = lone_shell("packages", "pack", str(folder), "rules", "1")
    assert packed.err == f"packed {tmp_path / 'packages' / 'rules-1.zip'}\n"
    assert json.loads(packed.ok())["package"]["digest"].startswith("sha256:")
    (folder / "rules.py").write_text("LIMIT = 4\n")
    wheel(tmp_path, "manners", "2.1", {"manners.py": b"WORD = 'please'\n"})
    (tmp_path / "needs.txt").write_text("manners\n")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    asked = ("packages", "pack", str(folder), "rules", "with", "--requirements", str(tmp_path / "needs.txt"))
    assert "No matching distribution found for manners (field requirements" in lone_shell(*asked).refusal()
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    packed = lone_shell(*asked)
    assert json.loads(packed.ok())["package"]["version"] == "with"
    assert packed.err.endswith(f"packed {tmp_path / 'packages' / 'rules-with.zip'} with manners 2.1\n")
    refused = lone_shell("packages", "pack", str(folder), "rules", "1").refusal()
    assert "(field package.version, rule immutable)" in refused


def test_the_doctor_finds_kafka_well(lone_shell: Shell, kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """1. It counts the topics of a broker that answers, one more once there is one more. 2. Where nobody listens it
    says so, and what to do."""

    def seen() -> dict[str, str]:
        (found,) = [each for each in json.loads(lone_shell("doctor", "--json").out) if each["part"] == "kafka"]
        return found

    monkeypatch.setenv("PENSTOCK_KAFKA_BOOTSTRAP", kafka.bootstrap)
    before = seen()
    assert (before["level"], before["advice"]) == ("ok", "")
    count = int(before["summary"].removesuffix(f" topics at {kafka.bootstrap}"))
    lone_shell("topics", "create", f"cli-{uuid.uuid4().hex[:8]}").ok()
    assert seen() == before | {"summary": f"{count + 1} topics at {kafka.bootstrap}"}
    monkeypatch.setenv("PENSTOCK_KAFKA_BOOTSTRAP", f"127.0.0.1:{free_port()}")
    nobody = seen()
    assert (nobody["level"], "is it running?" in nobody["advice"]) == ("fail", True)


def test_a_topic_is_created_once(lone_shell: Shell, kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_KAFKA_BOOTSTRAP", kafka.bootstrap)
    topic = f"cli-{uuid.uuid4().hex[:8]}"
    assert lone_shell("topics", "create", topic, "--partitions", "3").ok() == f"created {topic} with 3 partitions\n"
    made = AdminClient({"bootstrap.servers": kafka.bootstrap}).list_topics(topic, 10).topics[topic]
    assert len(made.partitions) == 3
    assert "(field name, rule unique)" in lone_shell("topics", "create", topic).refusal()
    assert "did not create a b" in lone_shell("topics", "create", "a b").refusal()


def test_rows_go_into_a_topic_and_come_out(
    lone_shell: Shell, kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """1. Lines of a file and of the standard input, with a key; none of a file with a wrong line. 2. All of them, then
    more than there are. 3. The topic is listed, and goes."""
    monkeypatch.setenv("PENSTOCK_KAFKA_BOOTSTRAP", kafka.bootstrap)
    topic = f"cli-{uuid.uuid4().hex[:8]}"
    assert "there is no topic" in lone_shell("topics", "produce", topic).refusal()
    lone_shell("topics", "create", topic, "--partitions", "4").ok()
    assert f"; do you mean {topic}" in lone_shell("topics", "consume", f"{topic}s", "--count", "1").refusal()
    file = tmp_path / "rows.jsonl"
    file.write_text('{"k": "a", "n": 1}\n\n{"k": "b", "n": 2}\n')
    assert lone_shell("topics", "produce", topic, str(file), "--key", "k").ok() == f"sent 2 records to {topic}\n"
    monkeypatch.setattr("sys.stdin", io.StringIO('{"k": "c", "n": 3}\n'))
    lone_shell("topics", "produce", topic, "--key", "k").ok()
    file.write_text('{"k": "d"}\n{"k": "e"\n')
    raw = tmp_path / "rows.csv"
    raw.write_text("a;1,x\n")
    one = f"cli-{uuid.uuid4().hex[:8]}"
    lone_shell("topics", "create", one, "--partitions", "4").ok()
    lone_shell("topics", "produce", one, str(raw), "--format", "raw", "--separator", ";").ok()
    (row,) = lone_shell("topics", "consume", one, "--from-beginning", "--count", "1", "--whole").ok().splitlines()
    assert (json.loads(row)["key"], json.loads(row)["value"]) == ("a", "1,x")
    assert "line 2 is not JSON" in lone_shell("topics", "produce", topic, str(file)).refusal()
    assert "there is no file" in lone_shell("topics", "produce", topic, str(tmp_path / "rows.json")).refusal()

    consume = ("topics", "consume", topic, "--from-beginning", "--count")
    assert sorted(lone_shell(*consume, "3").ok().splitlines())[1] == '{"k": "b", "n": 2}'
    places = {
        row["key"]: row["partition"] for row in map(json.loads, lone_shell(*consume, "3", "--whole").ok().splitlines())
    }
    assert places == {key: partition_of(key.encode(), "kafka", 4) for key in "abc"}
    late = lone_shell(*consume, "4", "--idle", "1s")
    assert (late.code, late.out.count("\n")) == (3, 3)
    assert f"3 of 4 records of {topic} came, then none for 1 s" in late.err
    assert "try: penstock status" not in late.err
    assert lone_shell("topics", "consume", topic, "--idle", "1s").ok() == ""

    peek = [json.loads(row) for row in lone_shell("topics", "peek", topic, "-n", "2", "--whole").ok().splitlines()]
    assert len(peek) == 2
    assert [row["timestamp"] for row in peek] == sorted(row["timestamp"] for row in peek)
    beginning = lone_shell("topics", "peek", topic, "--from-beginning").ok().splitlines()
    assert sorted(beginning) == sorted(lone_shell(*consume, "3").ok().splitlines())

    transactions = len({(places["a"], 1), (places["b"], 1), (places["c"], 2)})
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in lone_shell("topics", "list").ok().splitlines()]
    assert [topic, "4", str(3 + transactions)] in rows
    assert "(field topic, rule unused)" in lone_shell("topics", "delete", topic).refusal()
    lone_shell("topics", "delete", topic, "--force").ok()
    assert "(field name, rule known)" in lone_shell("topics", "delete", topic, "--force").refusal()


def test_the_roles_of_the_store_are_made_when_asked(lone_shell: Shell, empty_database_url: str) -> None:
    lone_shell("init", "--roles", "--database-url", empty_database_url).ok()
    with psycopg.connect(libpq_url(url_for(TASK_MANAGER, empty_database_url))) as connection:
        assert connection.execute("SELECT count(*) > 0 FROM counters").fetchone() == (True,)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("SELECT FROM tokens")


def test_a_password_is_in_no_command_line_of_a_stack(lone_shell: Shell) -> None:
    said = lone_shell("up", "--database-url", "postgresql://ann:hunter2@127.0.0.1:1/postgres").refusal()
    assert "rule no_password" in said
    assert "hunter2" not in said
