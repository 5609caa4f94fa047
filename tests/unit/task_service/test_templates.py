"""Templates in memory: full reads and deltas."""

from __future__ import annotations

import json

import pytest

from penstock.config.model import DesiredState
from penstock.tasks.spec import expand
from services.task_service.store.rows import Changes, StoredTemplate
from services.task_service.templates import everything, template_of, updated
from tests.support.store.jobs import make_config

GOOD = json.dumps(make_config())
BAD = json.dumps({**make_config(), "task_count": 9})  # more tasks than key groups


def row(job: str, number: int, config: str = GOOD, *, stopping: bool = False) -> StoredTemplate:
    return StoredTemplate(job, config, 1, 1, 0, stopping, number)


def changes(number: int, *rows: StoredTemplate, removed: dict[str, int] | None = None) -> Changes:
    return Changes(number, 16, rows, removed or {})


def test_a_job_that_is_being_deleted_is_served_and_has_no_tasks():
    template = template_of(row("a", 1, stopping=True))
    assert template.config.desired_state is DesiredState.STOPPED
    assert expand(template) == ()


def mixed(revision: int) -> StoredTemplate:
    """A row of revision 1 with a rollout of another one, or of its own."""
    before = {"config": make_config(), "revision": 1, "restarts": 0}
    rollout = json.dumps({"revision": revision, "upgraded": 1, "before": before})
    return row("a", 1, json.dumps(make_config(priority=2)))._replace(rollout=rollout)


def test_tasks_that_are_not_upgraded_run_what_they_ran():
    assert [spec.config.priority for spec in expand(template_of(mixed(1)))] == [2, 0]


def test_a_rollout_of_another_revision_is_over():
    template = template_of(mixed(9))
    assert (template.before, [spec.config.priority for spec in expand(template)]) == (None, [2, 2])


def test_a_full_read_keeps_what_did_not_change():
    first = everything(None, changes(2, row("a", 1), row("b", 2)))
    second = everything(first, changes(3, row("a", 1), row("b", 3)))
    assert second.by_job["a"] is first.by_job["a"]
    assert second.by_job["b"].commit_number == 3


def test_a_full_read_forgets_rows_that_are_gone():
    first = everything(None, changes(2, row("a", 1), row("b", 2)))
    assert everything(first, changes(2, row("a", 1))).by_job.keys() == {"a"}


def test_deltas_change_add_and_remove():
    first = everything(None, changes(2, row("a", 1), row("b", 2)))
    second = updated(first, changes(5, row("c", 4), row("a", 5), removed={"b": 3}))
    assert second.commit_number == 5
    assert [template.job for template in second.above(2)] == ["c", "a"]
    assert second.removed_above(2) == ("b",)
    assert second.removed_above(3) == ()
    assert second.by_job.keys() == {"a", "c"}


def test_those_above_a_commit_are_all_of_them_after_any_reads():
    """Templates keep the order of their commits, also where one is read again or does not validate any more."""
    templates = everything(None, changes(3, row("c", 1), row("a", 3), row("b", 2)))
    templates = updated(templates, changes(5, row("c", 5), row("b", 4)))
    templates = updated(templates, changes(7, row("d", 7), row("a", 6, BAD)))
    for after in range(8):
        wanted = {job for job, each in templates.by_job.items() if each.commit_number > after}
        assert {each.job for each in templates.above(after)} == wanted
    assert [each.commit_number for each in templates.above(0)] == [3, 4, 5, 7]


def test_a_job_that_was_made_again_is_no_longer_removed():
    first = everything(None, changes(3, row("a", 1), removed={"b": 3}))
    second = updated(first, changes(4, row("b", 4)))
    assert second.removed_above(0) == ()
    assert second.by_job.keys() == {"a", "b"}


@pytest.mark.parametrize("config", [BAD, "{}", '{"query": 1}'])
def test_a_broken_row_spoils_no_other(config):
    read = everything(None, changes(2, row("a", 1), row("b", 2, config)))
    assert read.by_job.keys() == {"a"}
    assert read.broken["b"].commit_number == 2


def test_a_job_whose_row_broke_keeps_its_last_good_template():
    first = everything(None, changes(1, row("a", 1)))
    broken = updated(first, changes(2, row("a", 2, BAD)))
    assert broken.by_job["a"] is first.by_job["a"]
    assert everything(broken, changes(2, row("a", 2, BAD))).by_job["a"] is first.by_job["a"]
    mended = updated(broken, changes(3, row("a", 3)))
    assert mended.broken == {}
    assert mended.by_job["a"].commit_number == 3
