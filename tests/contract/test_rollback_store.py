"""The contracts of the rollback keeper: its store, and the batches that it has the Job Service write."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from penstock.control.errors import Fenced, Unavailable
from penstock.model.jobs import JobState
from penstock.tasks.rollout import LeafChange, Rejected
from penstock.wire.jobs import BatchAction, BatchWrite
from services.state_syncer.decide.effects import PlanWrite
from services.state_syncer.rollback.store import Mark, Rejection, RollbackStore
from tests.contract.sync_store_forms import FORMS, PostgresForm, make_form, state, write
from tests.support.job_service.service import job_service
from tests.support.memory.rollbacks import MemoryBatches, MemoryRollbackStore
from tests.support.memory.store import MemoryStore
from tests.support.store.jobs import make_layer
from tests.support.store.unreachable import unreachable_engine

VERSION = LeafChange(path=("package", "version"), old="0", new="2")
REJECTED = Rejected(revision=1, leaves=(VERSION,), wave=1, waves=2, task="j/0", error="no module")
GOOD = {"package": {"version": "1"}}


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> Any:
    """Two jobs, of which the package of `j` was rejected."""
    form = make_form(request)
    for job in ("i", "j"):
        form.layer(job, "base", make_layer(package={"version": "2"}))
        write(form, states=[state(JobState.ROLLING, job=job)])
    reject(form)
    return form


def reject(form: Any, rejected: Rejected = REJECTED) -> None:
    write(form, plans=[PlanWrite("j", None, rejected=rejected)])


def rollbacks(form: Any, *, away: bool = False) -> RollbackStore:
    if isinstance(form, PostgresForm):
        return RollbackStore(unreachable_engine() if away else form.engine)
    store = MemoryRollbackStore(form.memory)
    store.down = away
    return store


def found(form: Any, **done: Mark) -> list[Rejection]:
    return list(rollbacks(form).read(done, 10).found)


def test_a_rejected_package_is_found_with_the_layers_of_its_job_lowest_first(form: Any) -> None:
    form.layer("j", "rollback", GOOD)
    revision = form.layer("j", "oncall", {"priority": 1})
    (rejection,) = found(form)
    assert (rejection.job, rejection.mark.revision, rejection.rejected) == ("j", revision, REJECTED)
    assert [(each.layer, each.version) for each in rejection.layers] == [("base", 1), ("oncall", 1), ("rollback", 1)]
    assert rejection.layers[2].config == GOOD


def test_a_dropped_layer_keeps_its_version_and_nothing_else(form: Any) -> None:
    form.layer("j", "rollback", GOOD)
    form.layer("j", "rollback", None)
    (rejection,) = found(form)
    assert [(each.layer, each.config, each.version) for each in rejection.layers][1:] == [("rollback", None, 2)]


def test_what_is_done_is_named_but_not_found_until_there_is_anything_new(form: Any) -> None:
    (rejection,) = found(form)
    assert found(form, j=rejection.mark) == []
    assert set(rollbacks(form).read({"j": rejection.mark}, 10).jobs) == {"j"}
    reject(form, REJECTED.model_copy(update={"goes_back": False}))
    assert [each.job for each in found(form, j=rejection.mark)] == ["j"], "it was rejected for another reason"
    reject(form)
    assert found(form, j=rejection.mark) == []
    form.layer("j", "oncall", {"priority": 1})
    assert [each.job for each in found(form, j=rejection.mark)] == ["j"]


def test_no_more_are_found_than_asked_for(form: Any) -> None:
    write(form, plans=[PlanWrite("i", None, rejected=REJECTED)])
    jobs, some = rollbacks(form).read({}, 1)
    assert (set(jobs), [each.job for each in some]) == ({"i", "j"}, ["i"])


def test_a_job_that_is_being_deleted_is_left_alone(form: Any) -> None:
    form.delete("j")
    assert (found(form), set(rollbacks(form).read({}, 10).jobs)) == ([], set())


def test_a_forgotten_rejection_is_gone_with_its_alert(form: Any) -> None:
    (rejection,) = found(form)
    rollbacks(form).alert({"j": "it is not valid"}, {}, form.epoch)
    rollbacks(form).forget({"j": rejection.rejected}, form.epoch)
    assert (found(form), form.rejected("j")) == ([], None)
    assert (form.rolled_back(), form.rollback_refused()) == (set(), set())


def test_another_rejection_since_is_not_forgotten(form: Any) -> None:
    (rejection,) = found(form)
    reject(form, REJECTED.model_copy(update={"revision": 9}))
    rollbacks(form).alert({}, {"j": REJECTED}, form.epoch)
    rollbacks(form).forget({"j": rejection.rejected}, form.epoch)
    assert [each.rejected.revision for each in found(form)] == [9]
    assert form.rolled_back() == {"j"}


def test_a_package_is_told_as_rolled_back_once_the_layer_is_as_it_should_be(form: Any) -> None:
    rollbacks(form).alert({"i": "it is not valid", "j": "no room"}, {}, form.epoch)
    assert (form.rollback_refused(), form.rolled_back()) == ({"i", "j"}, set())
    rollbacks(form).alert({}, {"j": REJECTED}, form.epoch)
    assert (form.rollback_refused(), form.rolled_back()) == ({"i"}, {"j"})


def test_a_deposed_leader_writes_nothing(form: Any) -> None:
    (rejection,) = found(form)
    form.depose()
    with pytest.raises(Fenced):
        rollbacks(form).forget({"j": rejection.rejected}, form.epoch)
    with pytest.raises(Fenced):
        rollbacks(form).alert({"i": "it is not valid"}, {"j": REJECTED}, form.epoch)
    assert (len(found(form)), form.rolled_back(), form.rollback_refused()) == (1, set(), set())


def test_a_store_that_is_away_is_unavailable(form: Any) -> None:
    with pytest.raises(Unavailable):
        rollbacks(form, away=True).read({}, 10)


# ---- batches


@pytest.fixture(params=["job service", "memory"])
def batch(request: pytest.FixtureRequest) -> Iterator[Any]:
    """One write, and its result's status; job j has a base layer."""
    if request.param == "memory":
        store: MemoryStore = request.getfixturevalue("memory")
        store.write_layer("j", "base", make_layer())
        yield MemoryBatches(store).batch
        return
    with job_service(request.getfixturevalue("database_url")) as service, service.client() as client:
        client.put_job("j", make_layer())
        yield client.batch


def one(batch: Any, action: BatchAction, if_match: int, *, job: str = "j", **config: Any) -> Any:
    write = BatchWrite(action=action, job=job, layer="rollback", config=config, if_match=if_match, reason="why")
    (result,) = batch([write])
    return result.status, None if result.written is None else result.written.version


def test_a_layer_is_put_and_dropped_at_its_version(batch: Any) -> None:
    assert one(batch, BatchAction.PUT, 0, **GOOD) == (200, 1)
    assert one(batch, BatchAction.PUT, 0, **GOOD) == (409, None)
    assert one(batch, BatchAction.DROP, 0) == (409, None)
    assert one(batch, BatchAction.DROP, 1) == (200, 2)


def test_what_cannot_be_written_is_refused_alone(batch: Any) -> None:
    assert one(batch, BatchAction.PUT, 0, job="nobody", **GOOD) == (404, None)
    assert one(batch, BatchAction.PUT, 0, package={"version": ""}) == (422, None)
    assert one(batch, BatchAction.PUT, 0, task_count=3) == (422, None)


def test_a_rejected_package_that_cannot_be_read_does_not_hide_the_others(form: Any) -> None:
    """It takes no place among those that are read."""
    write(form, plans=[PlanWrite("i", None, rejected=REJECTED)])
    form.spoil_rejected("i")
    read = rollbacks(form).read({}, 1)
    assert ([each.job for each in read.found], set(read.jobs)) == (["j"], {"i", "j"})
