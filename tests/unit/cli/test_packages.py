"""`penstock packages delete` against Job Services of this release and of the one before."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from penstock.cli import packages as commands
from penstock.control.errors import Conflict, NotFound
from penstock.spark import packages
from penstock.store.engine import STATEMENT_SECONDS
from penstock.wire.job_client import JobClient


class OfTheReleaseBefore:
    """It does not know the call. `users` have the package."""

    def __init__(self, users: list[str]) -> None:
        self.users = users

    def delete_package(self, name: str, version: str) -> None:
        raise NotFound("404 Not Found")

    def list_jobs(self, *, package: str) -> list[SimpleNamespace]:
        assert package == "rules/1"
        return [SimpleNamespace(job=job) for job in self.users]


def test_of_a_job_service_of_the_release_before_the_users_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rules.py").write_text("")
    root = tmp_path / "packages"
    monkeypatch.setattr(commands.CliSettings, "packages", lambda _: root)
    path, _ = packages.pack(tmp_path, "rules", "1", root)
    service = OfTheReleaseBefore(["etl"])
    monkeypatch.setattr(commands, "client", lambda: service)
    with pytest.raises(Conflict, match="rules 1 is a package of etl"):
        commands.delete("rules", "1")
    assert path.exists()
    service.users = []
    commands.delete("rules", "1")
    assert not path.exists()


def test_the_client_waits_as_long_as_the_store_may_look() -> None:
    given: dict[str, Any] = {}

    class Told(JobClient):
        def send(self, method: str, path: str, **options: Any) -> httpx.Response:
            given.update(options)
            return httpx.Response(204)

    with Told("http://127.0.0.1:1") as client:
        client.delete_package("rules", "1")
    assert given["timeout"] > STATEMENT_SECONDS
