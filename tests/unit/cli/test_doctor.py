"""`penstock doctor`: what it thinks of what it sees, and that it needs no stack."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from penstock.cli import checks, findings
from penstock.cli.findings import Level
from penstock.cli.settings import CliSettings
from penstock.control.errors import TerminalError
from penstock.identity.folder import IdentityFolder
from penstock.identity.roles import Caller, Role
from penstock.wire.status import StatusLine, StatusView
from tests.support.cli.shell import Shell, lone

NOW = datetime(2026, 1, 2, tzinfo=UTC)
GIB = 2**30


@pytest.mark.parametrize(
    ("seconds", "level", "told"),
    [
        (0.0, Level.OK, "agrees with that of postgres"),
        (-5.9, Level.OK, "agrees with that of postgres"),
        (7.0, Level.WARN, "postgres is 6s ahead of this machine"),
        (-3600.0, Level.FAIL, "postgres is 59m behind this machine"),
    ],
)
def test_a_clock_may_differ_by_what_the_reading_took(seconds: float, level: Level, told: str) -> None:
    found = findings.clock("postgres", NOW + timedelta(seconds=seconds), NOW, exact_seconds=1.0)
    assert (found.level, found.summary, bool(found.advice)) == (level, told, level is not Level.OK)


@pytest.mark.parametrize(("free", "level"), [(GIB // 2, Level.FAIL), (5 * GIB, Level.WARN), (50 * GIB, Level.OK)])
def test_a_full_disk_is_told_early(free: int, level: Level) -> None:
    found = findings.disk("/data", free, 100 * GIB)
    assert (found.level, bool(found.advice)) == (level, level is not Level.OK)


@pytest.mark.parametrize(
    ("days", "level", "told"),
    [
        ([], Level.OK, "none"),
        ([90, 30], Level.OK, "2, good for 30 days"),
        ([90, 3], Level.WARN, "that of p1 ends in 3.0 days"),
        ([-1], Level.FAIL, "that of p0 has expired"),
    ],
)
def test_the_first_certificate_to_expire_counts(days: list[int], level: Level, told: str) -> None:
    found = findings.certificates([(f"p{n}", NOW + timedelta(days=each)) for n, each in enumerate(days)], NOW)
    assert (found.level, told in found.summary) == (level, True)


@pytest.mark.parametrize(
    ("schema", "is_too_old", "is_newer", "levels"),
    [
        ("0016", False, False, [Level.OK, Level.OK]),
        ("0015", False, False, [Level.OK, Level.FAIL]),
        (None, True, False, [Level.FAIL, Level.FAIL]),
        ("0018", False, True, [Level.OK, Level.WARN]),
    ],
)
def test_the_schema_must_be_that_of_the_release(
    schema: str | None, is_too_old: bool, is_newer: bool, levels: list[Level]
) -> None:
    found = list(findings.store("18.1", schema, "0016", is_too_old=is_too_old, is_newer=is_newer))
    assert [each.level for each in found] == levels
    assert all(bool(each.advice) is (each.level is not Level.OK) for each in found)


def _line(part: str, *, ok: bool = True, advice: str | None = None, **details: object) -> StatusLine:
    return StatusLine(part=part, ok=ok, summary=f"of {part}", advice=advice, details=details)


def test_parts_that_are_not_well_are_findings_and_open_alerts_are_a_warning() -> None:
    parts = [_line("store", needed_schema="0018"), _line("bus", ok=False, advice="start it"), _line("alerts", ok=False)]
    found = list(findings.cell(StatusView(ok=False, parts=parts), "0016"))
    assert [(each.part, each.level) for each in found] == [
        ("bus", Level.FAIL),
        ("alerts", Level.WARN),
        ("release", Level.WARN),
    ]
    assert [each.advice for each in found[:2]] == ["start it", "see `penstock status`"]
    well = StatusView(ok=True, parts=[_line("store", needed_schema="0016")])
    assert [each.level for each in findings.cell(well, "0016")] == [Level.OK]


def test_without_a_stack_it_says_what_is_here_and_how_to_start_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("URL", "TOKEN", "DATABASE_URL", "KAFKA_BOOTSTRAP", "IDENTITY_DIR"):
        monkeypatch.delenv(f"PENSTOCK_{name}", raising=False)
    monkeypatch.setenv("PENSTOCK_DATA_DIR", str(tmp_path / "none"))
    shell = Shell(monkeypatch, capsys)
    seen = {each["part"]: each for each in json.loads(shell("doctor", "--json").ok())}
    assert [*seen] == ["penstock", "java", "jars", "disk", "certificates", "postgres", "kafka", "job service"]
    assert seen["job service"]["level"] == "warn"
    assert "`penstock up`" in seen["job service"]["advice"]
    assert not (tmp_path / "none").exists()


def test_what_does_not_answer_fails_with_advice_and_the_other_checks_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with lone(monkeypatch, capsys, tmp_path) as shell:
        monkeypatch.setenv("PENSTOCK_DATABASE_URL", "postgresql://127.0.0.1:9/none?connect_timeout=1")
        monkeypatch.setenv("PENSTOCK_KAFKA_BOOTSTRAP", "127.0.0.1:9")
        ended = shell("doctor")
    assert ended.code == 1
    assert "Traceback" not in ended.out + ended.err
    failed = [line.split()[1] for line in ended.out.splitlines() if line.startswith("fail")]
    assert failed == ["postgres", "kafka", "job"]
    assert ended.out.count(" -> ") >= len(failed)


def test_java_is_needed_where_a_stack_may_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> Path:
        raise TerminalError("no JDK 17 found")

    monkeypatch.setattr(checks, "java_home", none)
    for url, level in ((None, Level.FAIL), ("http://far", Level.WARN)):
        first = next(iter(checks._java(CliSettings(url=url))))
        assert (first.part, first.level) == ("java", level)


def test_a_store_without_its_jars_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_SHARE", str(tmp_path))
    assert list(checks._checkpoints(CliSettings())) == []
    (missing,) = checks._checkpoints(CliSettings(checkpoint_root="s3a://bucket/checkpoints"))
    assert (missing.level, missing.part) == (Level.FAIL, "checkpoints")
    assert "python -m penstock.local.jars s3" in missing.advice
    (tmp_path / "jars" / "s3").mkdir(parents=True)
    (tmp_path / "jars" / "s3" / "hadoop-aws.jar").touch()
    for root in ("s3a://bucket/checkpoints", "/data/checkpoints"):
        (found,) = checks._checkpoints(CliSettings(checkpoint_root=root))
        assert found.level is Level.OK


def test_certificates_of_the_folder_and_of_others_are_looked_at(tmp_path: Path) -> None:
    folder = IdentityFolder(tmp_path / "identity")
    folder.create("cell", datetime.now(UTC))
    folder.issue(Caller(Role.STATE_SYNCER), ["localhost"], datetime.now(UTC), days=3)
    folder.issue(Caller(Role.TASK_SERVICE), ["localhost"], datetime.now(UTC), days=3, to=tmp_path / "other")
    found = list(checks._certificates(CliSettings(identity_dir=folder.path)))
    assert [each.level for each in found] == [Level.WARN, Level.WARN]
    assert "penstock certificates issue task_service" in found[1].advice


def test_a_token_that_others_can_read_is_told(tmp_path: Path) -> None:
    token = tmp_path / "admin.token"
    token.write_text("pst_x")
    token.chmod(0o644)
    assert [each.level for each in checks._token_file(CliSettings(data_dir=tmp_path))] == [Level.WARN]
    token.chmod(0o600)
    assert list(checks._token_file(CliSettings(data_dir=tmp_path))) == []
