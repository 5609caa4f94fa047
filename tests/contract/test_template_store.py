"""The contract of `TemplateStore`: what the running table has above a commit, and alerts of rows that are broken."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Engine

from penstock.control.errors import Unavailable
from penstock.model.alerts import AlertKind
from penstock.store.alerts import open_subjects
from penstock.store.engine import transaction
from services.task_service.store.port import TemplateStore
from tests.contract.conftest import SHARDS
from tests.contract.task_service_forms import MemoryForm as MemoryCell
from tests.support.memory.specs import MemoryTemplateStore
from tests.support.memory.store import MemoryStore
from tests.support.store.running import commit_job, commit_order, forget_job
from tests.support.store.unreachable import unreachable_engine


class PostgresForm:
    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.store: TemplateStore = TemplateStore(engine)
        self.away: TemplateStore = TemplateStore(unreachable_engine())

    def commit(self, job: str) -> int:
        return commit_job(self.engine, job)

    def order(self, job: str, **order: Any) -> int:
        return commit_order(self.engine, job, **order)

    def forget(self, job: str) -> None:
        forget_job(self.engine, job)

    def alerts(self) -> set[str]:
        with transaction(self.engine) as connection:
            return open_subjects(connection, AlertKind.BROKEN_RUNNING_ROW)


class MemoryForm:
    def __init__(self, memory: MemoryStore) -> None:
        self._cell = MemoryCell(memory)
        self.memory = MemoryTemplateStore(memory)
        self.store: TemplateStore = self.memory
        away = MemoryTemplateStore(memory)
        away.down = True
        self.away: TemplateStore = away
        self.commit, self.order, self.forget = self._cell.commit, self._cell.order, self._cell.forget

    def alerts(self) -> set[str]:
        return set(self.memory.alerts)


@pytest.fixture(params=["postgres", "memory"])
def form(request: pytest.FixtureRequest) -> Any:
    if request.param == "postgres":
        return PostgresForm(request.getfixturevalue("engine"))
    return MemoryForm(request.getfixturevalue("memory"))


def test_what_was_committed_above_a_number(form: Any) -> None:
    """1. Nothing yet. 2. Two jobs. 3. One of them is forgotten."""
    assert form.store.read()[:4] == (0, SHARDS, (), {})
    assert form.store.read().incarnation
    first, second = form.commit("a"), form.commit("b")
    assert first < second
    found = form.store.read()
    assert (found.commit_number, [row.job for row in found.stored]) == (second, ["a", "b"])
    assert [row.job for row in form.store.read(first).stored] == ["b"]
    form.forget("a")
    later = form.store.read(second)
    assert (later.stored, later.removed) == ((), {"a": later.commit_number})
    assert later.commit_number > second
    assert form.store.read(later.commit_number).removed == {}


def test_an_order_to_take_no_more_rows_ends_with_the_next_commit(form: Any) -> None:
    """1. None. 2. At once. 3. Saying the watermark. 4. From a watermark on. 5. It is over."""
    form.commit("a")
    seen = []
    for order in ({}, {"quiescing": True}, *({"quiescing": True, "level_ms": level} for level in (0, 5_000)), {}):
        number = form.order("a", **order)
        (row,) = form.store.read(number - 1).stored
        seen.append((row.quiescing, row.level_ms))
    assert seen == [(False, None), (True, None), (True, 0), (True, 5_000), (False, None)]


def test_alerts_follow_what_is_broken(form: Any) -> None:
    form.store.alert({"a": "no query", "b": "no topic"}, ())
    form.store.alert({"a": "no query at all"}, ["b"])
    assert form.alerts() == {"a"}


def test_a_store_that_is_away_is_unavailable(form: Any) -> None:
    for call in (form.away.read, lambda: form.away.alert({"a": "x"}, ())):
        with pytest.raises(Unavailable):
            call()
