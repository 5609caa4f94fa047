"""What programs of others use of `penstock.client` stays as it is."""

from __future__ import annotations

import pytest

from penstock.client import Client
from tests.support.client.published import GOLDEN, published


def test_what_was_published_stays() -> None:
    """A line that differs breaks a program. A new name is added by `python -m tests.support.client.published`."""
    assert published() == GOLDEN.read_text().splitlines()


def test_a_changed_argument_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def get_job(self: Client, name: str) -> None: ...

    before = set(published())
    get_job.__module__ = Client.__module__
    monkeypatch.setattr(Client, "get_job", get_job)
    assert before - set(published()) == {"Client.get_job(self, job: 'str') -> 'jobs.JobView'"}
