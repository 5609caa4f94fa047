"""What a stack shows of its secrets: to other accounts, in command lines, and to the hosts that run jobs' code."""

from __future__ import annotations

import stat

import psutil
import pytest

from penstock.control.errors import InvalidConfig
from penstock.local.services import HOST_MODULE
from penstock.local.stack import LocalStack
from penstock.store.roles import TASK_MANAGER
from tests.support.stack.rows import RowJob

TOKENS = ("admin.token", "scaler.token", "state-syncer.token")


def test_files_with_secrets_are_for_their_owner(stack: LocalStack):
    assert not stat.S_IMODE(stack.data_dir.stat().st_mode) & 0o066
    managers = stack.data_dir / "containers"
    closed = [stack.data_dir / name for name in ("containers", "identity", "kafka", "logs", "postgres")]
    assert {path: stat.S_IMODE(path.stat().st_mode) for path in closed} == dict.fromkeys(closed, 0o700)
    private = [stack.data_dir / name for name in (*TOKENS, "stack.json")]
    private += [*managers.rglob("specs.db*"), *managers.rglob("lives.json"), *managers.rglob("hosts/*.log")]
    private += [*(stack.data_dir / "logs").glob("*.log")]
    assert len(private) > 10
    assert {path: stat.S_IMODE(path.stat().st_mode) for path in private} == dict.fromkeys(private, 0o600)


def test_no_command_line_and_no_host_has_a_secret(stack: LocalStack, rows: RowJob):
    """1. A job runs. 2. No process of the stack has a token in its command line. 3. Its hosts, their JVMs and workers
    have no token, no URL of a database. 4. Task Managers use the store by their role."""
    rows.send_and_wait()
    secrets = [(stack.data_dir / name).read_text() for name in TOKENS]
    processes = psutil.Process().children(recursive=True)
    texts = {process.pid: said for process in processes if (said := _said(process)) is not None}
    assert not [line for line, _ in texts.values() if any(secret in line for secret in secrets)]
    hosts = [process for process in processes if process.pid in texts and HOST_MODULE in texts[process.pid][0]]
    assert hosts
    below = {each.pid for host in hosts for each in (host, *host.children(recursive=True))}
    assert len(below) > len(hosts)
    for pid in below & texts.keys():
        text = " ".join(f"{name}={value}" for name, value in texts[pid][1].items())
        assert not [secret for secret in (*secrets, "postgresql") if secret in text], texts[pid][0]
    managers = [env for line, env in texts.values() if "services.task_manager" in line]
    assert managers
    assert all(f"//{TASK_MANAGER}@" in env["PENSTOCK_DATABASE_URL"] for env in managers)
    assert not [name for env in managers for name in env if name.endswith("_TOKEN")]


def _said(process: psutil.Process) -> tuple[str, dict[str, str]] | None:
    """Command line and environment; None of a process that has ended meanwhile."""
    try:
        return " ".join(process.cmdline()), process.environ()
    except psutil.NoSuchProcess:
        return None


def test_the_admin_token_is_no_table(stack: LocalStack, rows: RowJob):
    """As it was stolen once: by a plain SQL job whose table is the file with the token."""
    table = {"path": str(stack.data_dir / "admin.token"), "format": "csv", "table_schema": "token STRING"}
    with stack.client() as client, pytest.raises(InvalidConfig) as refused:
        client.put_job("thief", {**rows.config(), "tables": {"stolen": table}})
    assert (refused.value.field, refused.value.rule) == ("tables.stolen.path", "below_path_roots")
