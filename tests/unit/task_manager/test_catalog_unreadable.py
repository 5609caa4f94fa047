"""A job whose row cannot be read exists: what a container knows of it stays in force."""

from __future__ import annotations

from penstock.config.model import JobConfig
from penstock.tasks.spec import TaskTemplate
from penstock.wire.cluster import Snapshot
from services.task_manager.catalog import updated
from tests.support.jobs import make_config


def template(job: str, number: int) -> TaskTemplate:
    config = JobConfig.model_validate(make_config())
    return TaskTemplate(job=job, commit_number=number, revision=1, generation=1, restarts=0, config=config)


def full(number: int, *templates: TaskTemplate, unreadable: tuple[str, ...] = ()) -> Snapshot:
    return Snapshot(full=True, commit_number=number, shard_count=16, templates=templates, unreadable=unreadable)


def test_an_unreadable_job_is_kept_and_a_missing_one_is_forgotten():
    known = updated(None, full(2, template("broken", 1), template("gone", 2)))
    fresh = updated(known, full(3, unreadable=("broken", "never-seen")))
    assert set(fresh.templates) == {"broken"}
    assert fresh.templates["broken"] is known.templates["broken"]


def test_a_readable_row_replaces_what_was_kept():
    known = updated(None, full(2, template("job", 1)))
    kept = updated(known, full(3, unreadable=("job",)))
    assert updated(kept, full(4, template("job", 4))).templates["job"].commit_number == 4
