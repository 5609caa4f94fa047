"""Snapshots as bytes."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from structlog.testing import capture_logs

from penstock.tasks.spec import coming_specs, expand
from penstock.wire.cluster import Snapshot
from services.task_service.encoding import Asked, encode
from services.task_service.store.rows import Changes
from services.task_service.templates import Templates, everything, updated
from tests.support.store.jobs import make_config
from tests.unit.task_service.test_templates import BAD, changes, mixed, row


def read(*jobs: str) -> Templates:
    rows = tuple(row(job, number) for number, job in enumerate(jobs, 1))
    return everything(None, Changes(len(jobs), 16, rows, {"gone": 2}))


def test_the_full_snapshot_reads_back():
    encoded = encode(read("a", "b", "c"), Asked())
    snapshot = Snapshot.model_validate_json(encoded.body)
    assert (snapshot.full, snapshot.commit_number, snapshot.shard_count, snapshot.removed) == (True, 3, 16, ())
    assert [template.job for template in snapshot.templates] == ["a", "b", "c"]
    assert gzip.decompress(encoded.compressed) == encoded.body


def test_what_tasks_ran_before_travels_only_while_there_is_any():
    """A Task Manager of the release before knows no such field, and would refuse the whole snapshot."""
    for stored, travels in ((row("a", 1), False), (mixed(1), True)):
        body = encode(everything(None, changes(1, stored)), Asked()).body
        assert (b'"before"' in body) is travels
        (template,) = Snapshot.model_validate_json(body).templates
        assert (template.before is not None) is travels


@pytest.mark.parametrize("levels", [True, False])
def test_an_order_to_take_no_more_rows_travels_only_while_it_stands_and_its_level_to_those_who_know_it(levels: bool):
    """For the same reason. The level 0 is one."""
    for order in ({}, {"quiescing": True}, {"quiescing": True, "level_ms": 0}, {"quiescing": True, "level_ms": 5_000}):
        templates = everything(None, changes(1, row("a", 1)._replace(**order)))
        bodies = {known: encode(templates, Asked(levels=known)).body for known in (True, False)}
        assert {name: f'"{name}"'.encode() in bodies[levels] for name in ("quiescing", "level_ms")} == {
            "quiescing": "quiescing" in order,
            "level_ms": levels and "level_ms" in order,
        }
        (spec, *_) = expand(Snapshot.model_validate_json(bodies[levels]).templates[0])
        assert (spec.quiescing, spec.level_ms) == (
            order.get("quiescing", False),
            order.get("level_ms") if levels else None,
        )


def test_what_a_rescale_ends_in_travels_and_is_not_in_the_digest():
    """A plan may change without a commit, so that two Task Services may have read another one with the same row."""
    coming = {"revision": 2, "generation": 5, "restarts": 0, "config": make_config(task_count=3)}
    plain = row("a", 1, stopping=True)
    templates = everything(None, changes(1, plain._replace(coming=json.dumps(coming))))
    assert templates.digest == everything(None, changes(1, plain)).digest
    (template,) = Snapshot.model_validate_json(encode(templates, Asked()).body).templates
    assert expand(template) == ()
    assert [(spec.generation, spec.revision) for spec in coming_specs(template)] == [(5, 2)] * 3
    without = encode(everything(None, changes(1, plain)), Asked()).body
    assert b'"coming"' not in without


def plan(**config: Any) -> str:
    return json.dumps({"revision": 2, "generation": 5, "restarts": 0, "config": {**make_config(), **config}})


# A split of the key groups that leaves some to nobody.
UNEVEN = {"task_count": 3, "key_group_bounds": [2, 100]}


@pytest.mark.parametrize(
    ("coming", "reason"),
    [
        ("{}", "revision: Field required"),
        ("{", "plan: Invalid JSON: EOF while parsing an object at line 1 column 1"),
        (plan(priority="secret"), "config.priority: Input should be a valid integer, unable to parse string"),
        (plan(**UNEVEN), "key groups"),
    ],
)
def test_a_plan_that_is_broken_is_left_out_and_logged_in_a_line_at_the_first_commit_of_the_rescale(
    coming: str, reason: str
):
    """1. A job runs. 2. It is held, with a broken plan. 3. It is stopped, with the same plan."""
    running = everything(None, changes(1, row("a", 1)))
    with capture_logs() as told:
        held = updated(running, changes(2, row("a", 2)._replace(coming=coming, quiescing=True)))
        stopped = updated(held, changes(3, row("a", 3, stopping=True)._replace(coming=coming)))
    assert [each.by_job["a"].coming for each in (held, stopped)] == [None, None]
    assert not stopped.broken
    (line,) = told
    assert (line["job"], reason in line["error"], "\n" in line["error"]) == ("a", True, False), line


@pytest.mark.parametrize("coming", [{"generation": 5}, json.loads(plan(task_count=10**9)), json.loads(plan(**UNEVEN))])
def test_a_plan_that_another_release_cannot_read_takes_nothing_else_of_the_message_along(coming: dict[str, Any]):
    """As a Task Manager of an older release, for which a plan may be broken that is right for its Task Service."""
    sent = json.loads(encode(everything(None, changes(2, row("a", 1), row("b", 2, stopping=True))), Asked()).body)
    for each in sent["templates"]:
        each["coming"] = coming
    read = Snapshot.model_validate_json(json.dumps(sent)).templates
    assert [(each.job, each.coming) for each in read] == [("a", None), ("b", None)]


def test_a_delta_has_what_came_after():
    snapshot = Snapshot.model_validate_json(encode(read("a", "b", "c"), Asked(1)).body)
    assert not snapshot.full
    assert [template.job for template in snapshot.templates] == ["b", "c"]
    assert snapshot.removed == ("gone",)


def test_tags_tell_contents_apart():
    first, second = encode(read("a"), Asked()), encode(read("a", "b"), Asked())
    assert encode(read("a"), Asked()).etag == first.etag != second.etag


def test_digests_and_the_incarnation_travel_only_to_those_who_know_them():
    for knows in (True, False):
        head = json.loads(encode(read("a"), Asked(digests=knows)).body)
        assert {"store", "digest", "row_digests"} & head.keys() == (
            {"store", "digest", "row_digests"} if knows else set()
        )


def test_a_full_snapshot_names_the_jobs_that_cannot_be_read():
    known = everything(None, changes(2, row("good", 1), row("bad", 2, BAD)))
    snapshot = Snapshot.model_validate_json(encode(known, Asked()).body)
    assert [template.job for template in snapshot.templates] == ["good"]
    assert snapshot.unreadable == ("bad",)
