"""The files of a cell's identity: who may read them, and how they are renewed."""

from __future__ import annotations

import math
import stat
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from prometheus_client import REGISTRY

import penstock.identity.process as process_module
from penstock.control.errors import NotFound, TerminalError, Unauthenticated, UserError
from penstock.identity.folder import AUTHORITY, AUTHORITY_KEY, LOOPBACK_KEY, IdentityFolder
from penstock.identity.metrics import observe_certificate
from penstock.identity.process import ProcessIdentity
from penstock.identity.roles import Caller, Role
from tests.support.full_disk import AFTER_A_CRASH
from tests.support.identity import make_cell

NOW = datetime.now(UTC)
CONTAINER = Caller(Role.TASK_MANAGER, "c1.north")
MANAGER = Caller(Role.SHARD_MANAGER)


@pytest.fixture
def folder(tmp_path: Path) -> IdentityFolder:
    made = IdentityFolder(tmp_path / "identity")
    made.create("north", NOW)
    return made


def test_keys_are_for_their_owner_only(folder: IdentityFolder, tmp_path: Path) -> None:
    folder.issue(CONTAINER, ["localhost"], NOW, to=tmp_path / "c1")
    folder.issue(MANAGER, ["localhost"], NOW)
    keys = [*folder.path.glob("*.key"), *(tmp_path / "c1").glob("*.key")]
    assert {path.name for path in keys} == {
        AUTHORITY_KEY,
        LOOPBACK_KEY,
        "shard_manager.key",
        "task_manager.c1.north.key",
    }
    assert {stat.S_IMODE(path.stat().st_mode) for path in keys} == {0o600}
    assert {path.name for path in (tmp_path / "c1").iterdir()} == {
        AUTHORITY,
        "task_manager.c1.north.crt",
        "task_manager.c1.north.key",
    }


def test_a_second_start_changes_nothing(folder: IdentityFolder) -> None:
    before = {path.name: path.read_bytes() for path in folder.path.iterdir()}
    folder.create("other", NOW)
    assert {path.name: path.read_bytes() for path in folder.path.iterdir()} == before


def test_what_was_issued_is_listed_and_renewed_for_the_same_hosts(folder: IdentityFolder) -> None:
    folder.issue(CONTAINER, ["c1.example", "10.0.0.1"], NOW, days=1)
    later = NOW + timedelta(days=10)
    assert folder.renew(later, days=5) == [CONTAINER]
    (issued,) = folder.issued()
    assert (issued.caller, issued.hosts) == (CONTAINER, ("c1.example", "10.0.0.1"))
    assert issued.expires_at == (later + timedelta(days=5)).replace(microsecond=0)


def test_an_old_authority_is_dropped_only_when_nobody_needs_it(folder: IdentityFolder) -> None:
    """1. A new authority is trusted beside the old one. 2. What the old one issued keeps it. 3. Renewed, it may go."""
    folder.issue(MANAGER, ["localhost"], NOW)
    folder.add_authority(NOW)
    assert folder.trusted().count(b"BEGIN CERTIFICATE") == 2
    with pytest.raises(UserError, match="shard_manager"):
        folder.drop_old_authorities(NOW)
    folder.renew(NOW)
    assert folder.drop_old_authorities(NOW) == 1
    assert folder.trusted().count(b"BEGIN CERTIFICATE") == 1


def test_what_was_issued_to_other_folders_is_recorded_until_it_expires(folder: IdentityFolder, tmp_path: Path) -> None:
    """Two processes of one role are two; the same one, issued again, is one."""
    for host in ("one", "two", "one"):
        folder.issue(MANAGER, [host], NOW, days=3, to=tmp_path / host)
    folder.issue(CONTAINER, ["c1", "10.0.0.1"], NOW, days=1, to=tmp_path / "a folder")
    later = folder.elsewhere(NOW + timedelta(days=2))
    assert sorted((str(each.caller), each.hosts) for each in later) == [
        ("shard_manager", ("one",)),
        ("shard_manager", ("two",)),
    ]
    (found,) = (each for each in folder.elsewhere(NOW) if each.caller == CONTAINER)
    assert found.command() == (
        "penstock certificates issue task_manager --container c1.north --host c1 --host 10.0.0.1 "
        f"--to '{tmp_path}/a folder'"
    )
    assert list(folder.issued()) == []


def test_an_old_authority_stays_while_another_folder_needs_it(folder: IdentityFolder, tmp_path: Path) -> None:
    """1. It issued a certificate to another folder. 2. It cannot be dropped until that is issued again, or it has
    expired, or the operator says so."""
    folder.issue(MANAGER, ["m"], NOW, days=3, to=tmp_path / "m")
    folder.add_authority(NOW)
    folder.renew(NOW)
    with pytest.raises(UserError, match=r"issue shard_manager --host m --to .*--yes"):
        folder.drop_old_authorities(NOW)
    before = (folder.path / AUTHORITY).read_bytes()
    assert folder.drop_old_authorities(NOW, unseen=True) == 1
    for dropped in (lambda: folder.drop_old_authorities(NOW + timedelta(days=4)), lambda: _issued_again(folder)):
        (folder.path / AUTHORITY).write_bytes(before)
        assert dropped() == 1


def _issued_again(folder: IdentityFolder) -> int:
    (record,) = folder.elsewhere(NOW)
    folder.issue(record.caller, record.hosts, NOW, to=Path(record.folder))
    return folder.drop_old_authorities(NOW)


def test_only_who_has_the_key_of_the_authority_issues(folder: IdentityFolder, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="penstock init"):
        IdentityFolder(tmp_path / "nowhere").issue(MANAGER, [], NOW)
    (folder.path / AUTHORITY_KEY).unlink()
    with pytest.raises(NotFound):
        folder.issue(MANAGER, [], NOW)


@pytest.mark.parametrize("crash", AFTER_A_CRASH)
def test_a_rotation_that_dies_leaves_the_former_pair(
    folder: IdentityFolder, monkeypatch: pytest.MonkeyPatch, crash: str
) -> None:
    """While it writes: nothing has changed. Between the two files: running processes have the pair before."""
    folder.issue(MANAGER, ["localhost"], NOW)
    before = _pair(folder)
    with AFTER_A_CRASH[crash](monkeypatch):
        folder.issue(MANAGER, ["localhost"], NOW)
    assert sum(was != now for was, now in zip(before, _pair(folder), strict=True)) == (crash == "second rename")
    assert not list(folder.path.glob(".*"))
    folder.issue(MANAGER, ["localhost"], NOW)
    ProcessIdentity(folder.path, MANAGER, tls=True).require()


@pytest.mark.parametrize("crash", AFTER_A_CRASH)
def test_a_new_authority_that_is_written_half_does_not_ruin_the_cell(
    folder: IdentityFolder, monkeypatch: pytest.MonkeyPatch, crash: str
) -> None:
    """1. The authority before still issues, and is trusted. 2. Another attempt succeeds. 3. The old ones can go."""
    folder.issue(MANAGER, ["localhost"], NOW)
    with AFTER_A_CRASH[crash](monkeypatch):
        folder.add_authority(NOW)
    for _ in range(2):
        folder.renew(NOW)
        assert _is_trusted(folder)
        folder.drop_old_authorities(NOW)
        assert _is_trusted(folder)
        folder.add_authority(NOW)


def test_a_key_of_another_authority_issues_nothing(folder: IdentityFolder, tmp_path: Path) -> None:
    other = make_cell(tmp_path / "other").path / AUTHORITY_KEY
    (folder.path / AUTHORITY_KEY).write_bytes(other.read_bytes())
    before = folder.trusted()
    for step in (lambda: folder.issue(MANAGER, [], NOW), lambda: folder.drop_old_authorities(NOW)):
        with pytest.raises(TerminalError, match=r"authority[.]key is the key of no authority in .*authority[.]crt"):
            step()
    assert folder.trusted() == before
    assert not (folder.path / "shard_manager.crt").exists()


def test_a_certificate_that_its_authority_did_not_issue_is_not_used(folder: IdentityFolder, tmp_path: Path) -> None:
    """Of two cells of one name; the authority that issued it may be any in the file."""
    other = IdentityFolder(tmp_path / "other")
    other.create("north", NOW)
    other.issue(MANAGER, ["localhost"], NOW, to=tmp_path / "to")
    ProcessIdentity(tmp_path / "to", MANAGER, tls=True).require()
    (tmp_path / "to" / AUTHORITY).write_bytes(folder.trusted())
    with pytest.raises(TerminalError, match=r"no authority in .* has issued .*shard_manager[.]crt"):
        ProcessIdentity(tmp_path / "to", MANAGER, tls=True).require()
    (tmp_path / "to" / AUTHORITY).write_bytes(folder.trusted() + other.trusted())
    ProcessIdentity(tmp_path / "to", MANAGER, tls=True).require()


def _is_trusted(folder: IdentityFolder) -> bool:
    certificate = x509.load_pem_x509_certificate((folder.path / "shard_manager.crt").read_bytes())
    for authority in x509.load_pem_x509_certificates(folder.trusted()):
        with suppress(InvalidSignature):
            certificate.verify_directly_issued_by(authority)
            return True
    return False


def _pair(folder: IdentityFolder) -> tuple[bytes, bytes]:
    return (folder.path / "shard_manager.crt").read_bytes(), (folder.path / "shard_manager.key").read_bytes()


def test_a_process_without_an_identity_says_what_to_do(folder: IdentityFolder, tmp_path: Path) -> None:
    with pytest.raises(TerminalError, match="penstock up"):
        ProcessIdentity(tmp_path / "nowhere", MANAGER).require()
    with pytest.raises(TerminalError, match="set PENSTOCK_INTERNAL_TLS to true, or PENSTOCK_HOST"):
        ProcessIdentity(tmp_path / "nowhere", MANAGER).require()
    command = r"certificates issue task_manager --container c1[.]north --host NAME --to FOLDER"
    with pytest.raises(TerminalError, match=command):
        ProcessIdentity(folder.path, CONTAINER, tls=True).require()
    folder.issue(CONTAINER, ["localhost"], NOW - timedelta(days=3), days=1)
    with pytest.raises(TerminalError, match="expired"):
        ProcessIdentity(folder.path, CONTAINER, tls=True).require()
    folder.issue(CONTAINER, ["localhost"], NOW)
    ProcessIdentity(folder.path, CONTAINER, tls=True).require()


def test_a_certificate_of_another_process_is_not_used(folder: IdentityFolder) -> None:
    folder.issue(CONTAINER, ["localhost"], NOW)
    for end in ("crt", "key"):
        (folder.path / f"{CONTAINER.file_name}.{end}").rename(folder.path / f"shard_manager.{end}")
    with pytest.raises(TerminalError, match="this process is shard_manager"):
        ProcessIdentity(folder.path, MANAGER, tls=True).require()


def test_a_key_that_everybody_may_read_is_refused(folder: IdentityFolder) -> None:
    (folder.path / LOOPBACK_KEY).chmod(0o644)
    with pytest.raises(TerminalError, match="chmod 600"):
        ProcessIdentity(folder.path, MANAGER).require()


def test_a_new_secret_is_taken_while_processes_run(folder: IdentityFolder) -> None:
    """1. The caller signs with the new secret. 2. Who has not read it yet looks at once. 3. Two secrets later the first
    is refused."""
    caller, server = (ProcessIdentity(folder.path, each) for each in (CONTAINER, MANAGER))
    first, again, late = (caller.statement("GET", "/v1/specs") for _ in range(3))
    assert server.verified(first, "GET", "/v1/specs").caller == CONTAINER
    folder.renew_secret()
    second = ProcessIdentity(folder.path, CONTAINER).statement("GET", "/v1/specs")
    assert server.verified(second, "GET", "/v1/specs").caller == CONTAINER
    assert server.verified(again, "GET", "/v1/specs").caller == CONTAINER
    folder.renew_secret()
    with pytest.raises(Unauthenticated):
        ProcessIdentity(folder.path, MANAGER).verified(late, "GET", "/v1/specs")


def test_the_end_of_a_certificate_is_a_metric_of_its_process(folder: IdentityFolder) -> None:
    """1. Days that are left. 2. While the file cannot be read, it is that of the certificate in use; no error, and not
    zero, when there is none."""
    folder.issue(CONTAINER, ["localhost"], datetime.now(UTC), days=10)
    process = ProcessIdentity(folder.path, CONTAINER, tls=True)
    observe_certificate("task_manager/c1.north", process.seconds_left)
    assert _days_left() == pytest.approx(10, abs=0.01)
    (folder.path / f"{CONTAINER.file_name}.crt").write_bytes(b"damaged")
    assert _days_left() == pytest.approx(10, abs=0.01)
    observe_certificate("task_manager/c1.north", ProcessIdentity(folder.path, CONTAINER, tls=True).seconds_left)
    assert math.isnan(_days_left())


def test_the_files_are_loaded_again_only_when_they_change(
    folder: IdentityFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1. Asked several times, loaded once. 2. A new certificate is seen at once."""
    loads: list[bytes] = []
    end_of = process_module.end_of

    def counted(certificate: bytes) -> datetime:
        loads.append(certificate)
        return end_of(certificate)

    monkeypatch.setattr(process_module, "end_of", counted)
    folder.issue(CONTAINER, ["localhost"], NOW, days=10)
    process = ProcessIdentity(folder.path, CONTAINER, tls=True)
    ends = {round((process.seconds_left() or 0.0) / 86_400) for _ in range(3)}
    assert (ends, len(loads)) == ({10}, 1)
    folder.issue(CONTAINER, ["localhost"], NOW, days=20)
    ends = {round((process.seconds_left() or 0.0) / 86_400) for _ in range(3)}
    assert (ends, len(loads)) == ({20}, 2)


def _days_left() -> float:
    found = REGISTRY.get_sample_value("penstock_certificate_days_left", {"process": "task_manager/c1.north"})
    assert found is not None
    return found
