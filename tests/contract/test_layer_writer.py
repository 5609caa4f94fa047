"""What the Auto Scaler needs of `JobClient`: compare-and-swap on its layer, and the same key is the same write."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from penstock.control.errors import InvalidConfig, NotFound, Unavailable, UserError, VersionConflict
from penstock.wire.job_client import JobClient
from tests.support.job_service.service import RunningJobService, job_service
from tests.support.store.jobs import make_layer
from tests.support.store.unreachable import NOWHERE

BIG = {"resources": {"memory_bytes": 2**30}}


class JobServiceForm:
    def __init__(self, service: RunningJobService) -> None:
        with service.client() as admin:
            admin.put_job("j", make_layer())
            self.token = admin.create_token("scaler", "scaler")
        self.service = service

    def writer(self, *, away: bool = False) -> JobClient:
        return JobClient(NOWHERE, self.token) if away else self.service.client(self.token)

    def layer(self) -> Any:
        with self.service.client() as admin:
            view = admin.get_layer("j", "scaler")
            return view.config, view.version


@pytest.fixture
def form(database_url: str) -> Iterator[JobServiceForm]:
    with job_service(database_url) as service:
        yield JobServiceForm(service)


def patch(writer: JobClient, change: Any, version: int, *, job: str = "j", key: str = "1") -> int:
    given = {"reason": "lag", "expires_in_seconds": None, "idempotency_key": key}
    return writer.patch_layer(job, "scaler", change, if_match=version, **given).revision


def test_patches_are_merged_and_their_revisions_grow(form: JobServiceForm) -> None:
    """1. The layer was never written: version 0. 2. Another field joins the first. 3. None drops a key."""
    writer = form.writer()
    first = patch(writer, {"task_count": 4}, 0, key="1")
    second = patch(writer, BIG, 1, key="2")
    assert form.layer() == ({"task_count": 4, **BIG}, 2)
    third = patch(writer, {"task_count": None}, 2, key="3")
    assert form.layer() == (BIG, 3)
    assert first < second < third


def test_a_layer_that_has_moved_on_is_a_conflict(form: JobServiceForm) -> None:
    writer = form.writer()
    patch(writer, {"task_count": 4}, 0)
    with pytest.raises(VersionConflict) as conflict:
        patch(writer, {"task_count": 8}, 0, key="2")
    assert conflict.value.current_version == 1
    assert form.layer() == ({"task_count": 4}, 1)


def test_the_same_key_is_the_same_write(form: JobServiceForm) -> None:
    writer = form.writer()
    revision = patch(writer, {"task_count": 4}, 0)
    assert patch(writer, {"task_count": 4}, 0) == revision
    assert form.layer() == ({"task_count": 4}, 1)
    with pytest.raises(UserError):
        patch(writer, {"task_count": 8}, 1)
    assert form.layer() == ({"task_count": 4}, 1)


REFUSED = {
    "no such field": {"no_such_field": 1},
    "breaks a limit": {"task_count": 99},
    "not the scaler's": {"query": {"sql": "SELECT 1"}},
}


@pytest.mark.parametrize("change", REFUSED.values(), ids=REFUSED.keys())
def test_a_change_that_is_refused_changes_nothing(form: JobServiceForm, change: Any) -> None:
    writer = form.writer()
    patch(writer, {"task_count": 4}, 0)
    with pytest.raises(InvalidConfig):
        patch(writer, change, 1, key="2")
    assert form.layer() == ({"task_count": 4}, 1)
    assert patch(writer, {"task_count": 8}, 1, key="2") > 0, "a refused write does not use its key up"


def test_a_job_that_is_not_there_is_not_found(form: JobServiceForm) -> None:
    with pytest.raises(NotFound):
        patch(form.writer(), {"task_count": 4}, 0, job="other")


def test_a_service_that_is_away_is_unavailable(form: JobServiceForm) -> None:
    with pytest.raises(Unavailable):
        patch(form.writer(away=True), {"task_count": 4}, 0)
    patch(form.writer(), {"task_count": 4}, 0)
    assert form.layer() == ({"task_count": 4}, 1)
