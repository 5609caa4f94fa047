"""Snapshots to the tasks of shards."""

from __future__ import annotations

import gc
from weakref import ref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.tasks.shards import Sharding, shard_of
from penstock.wire.cluster import Identity, Snapshot
from services.task_manager.specs.spec_cache import SpecCache, stops_jobs, updated
from tests.support.task_manager.world import CAPACITY, SHARDS, all_shards, template

STATES = ("stopped", "running")
HERE = Identity(container="c", url="http://c", region="east", capacity=CAPACITY, labels={"disk": "ssd"})


def full(commit_number: int, *templates: object) -> Snapshot:
    return Snapshot(full=True, commit_number=commit_number, shard_count=SHARDS, templates=templates)


def delta(commit_number: int, *templates: object, removed: tuple[str, ...] = ()) -> Snapshot:
    fields = {"full": False, "commit_number": commit_number, "shard_count": SHARDS}
    return Snapshot(templates=templates, removed=removed, **fields)


def ids(specs: SpecCache) -> set[str]:
    return set(specs.desired(all_shards(), HERE))


def test_tasks_are_in_the_shard_of_their_md5() -> None:
    specs = updated(None, full(1, template("a", task_count=8), template("b")))
    found = {name: task.shard for name, task in specs.desired(all_shards(), HERE).items()}
    assert found == {name: shard_of(name, SHARDS) for name in found}
    assert len(found) == 10
    for shard in range(SHARDS):
        assert set(specs.tasks_of(shard)) == {name for name, of in found.items() if of == shard}


def test_only_owned_shards_are_wanted_and_under_their_epoch() -> None:
    specs = updated(None, full(1, template("a", task_count=8)))
    shard = shard_of("a/0", SHARDS)
    assert {task.epoch for task in specs.desired({shard: 7}, HERE).values()} == {7}
    assert "a/0" in specs.desired({shard: 7}, HERE)
    assert specs.desired({}, HERE) == {}


def test_deltas_change_remove_and_keep() -> None:
    specs = updated(None, full(1, template("a"), template("b"), template("c")))
    kept = specs.desired(all_shards(), HERE)["a/0"].spec
    later = updated(specs, delta(3, template("b", revision=3, task_count=1), removed=("c",)))
    assert ids(later) == {"a/0", "a/1", "b/0"}
    assert later.commit_number == 3
    assert later.desired(all_shards(), HERE)["a/0"].spec is kept


def test_a_delta_that_says_the_same_again_leaves_the_specs_as_they_are() -> None:
    """1. Asked for. 2. Committed again, unchanged. 3. Other arguments, equal in Python but not in JSON."""
    specs = updated(None, full(1, template("a", args={"n": 1})))
    kept = specs.desired(all_shards(), HERE)["a/0"].spec
    again = updated(specs, delta(2, template("a", args={"n": 1}).model_copy(update={"commit_number": 2})))
    assert again.desired(all_shards(), HERE)["a/0"].spec is kept
    other = updated(again, delta(3, template("a", args={"n": True}).model_copy(update={"commit_number": 3})))
    assert other.desired(all_shards(), HERE)["a/0"].spec.config.args == {"n": True}
    assert other.desired(all_shards(), HERE)["a/0"].spec is not kept


@given(st.lists(st.dictionaries(st.sampled_from("abcd"), st.integers(-1, 3), min_size=1), max_size=6), st.booleans())
def test_deltas_one_by_one_come_to_what_all_at_once_is(changes: list[dict[str, int]], reshard: bool) -> None:
    """Jobs come, go, stop and change their number of tasks: 0 is gone, below it is stopped."""
    specs, present = updated(None, full(0)), {}
    for number, counts in enumerate(changes, start=1):
        told = {
            job: template(job, revision=number, task_count=abs(count), desired_state=STATES[count > 0])
            for job, count in counts.items()
            if count
        }
        removed = tuple(counts.keys() - told.keys())
        present = {job: each for job, each in {**present, **told}.items() if job not in removed}
        sharding = Sharding(2 * SHARDS) if reshard and number == 3 else None
        specs = updated(specs, delta(number, *told.values(), removed=removed), sharding)
    assert specs == updated(None, full(len(changes), *present.values()), specs.sharding)
    assert ids(specs) <= {f"{job}/{index}" for job in present for index in range(3)}


def test_a_full_snapshot_forgets_what_it_lacks_and_keeps_what_it_repeats() -> None:
    specs = updated(None, full(1, template("a"), template("b")))
    kept = specs.desired(all_shards(), HERE)["a/0"].spec
    later = updated(specs, full(2, template("a")))
    assert ids(later) == {"a/0", "a/1"}
    assert later.desired(all_shards(), HERE)["a/0"].spec is kept


def test_nothing_is_kept_of_jobs_that_are_gone() -> None:
    specs = updated(None, full(1, template("a"), template("b")))
    held = {name: ref(task.spec) for name, task in specs.desired(all_shards(), HERE).items()}
    specs = updated(specs, delta(2, removed=("a",)))
    gc.collect()
    assert ids(specs) == {name for name, made in held.items() if made() is not None} == {"b/0", "b/1"}


def test_stopped_jobs_have_no_tasks() -> None:
    assert ids(updated(None, full(1, template("a", desired_state="stopped")))) == set()


def test_an_older_snapshot_changes_nothing() -> None:
    specs = updated(None, full(5, template("a")))
    assert updated(specs, full(4)) is specs


def test_a_delta_needs_a_full_snapshot() -> None:
    with pytest.raises(ValueError, match="full snapshot"):
        updated(None, delta(1))


@pytest.mark.parametrize(
    ("snapshot", "stops"),
    [
        (delta(2, template("a", revision=2, desired_state="stopped")), True),
        (delta(2, removed=("a",)), True),
        (delta(2, template("a", revision=2, task_count=1)), False),
        (delta(2, template("b", revision=2, desired_state="stopped")), False),
        (delta(2), False),
    ],
)
def test_a_job_that_had_tasks_and_has_none_is_stopped(snapshot: Snapshot, stops: bool) -> None:
    specs = updated(None, full(1, template("a"), template("b", desired_state="stopped")))
    assert stops_jobs(specs, updated(specs, snapshot)) is stops
    assert not stops_jobs(None, specs)


@pytest.mark.parametrize(
    ("region", "labels", "refusal"),
    [
        (None, {}, None),
        ("east", {}, None),
        ("east", {"disk": "ssd"}, None),
        ("west", {}, "no: container c has region east and label disk=ssd, the job asks for region west"),
        (None, {"disk": "hdd"}, "no: container c has region east and label disk=ssd, the job asks for label disk=hdd"),
    ],
)
def test_tasks_that_ask_for_other_containers_are_refused(
    region: str | None, labels: dict[str, str], refusal: str | None
) -> None:
    selectors = ("east", "west", "east,disk=ssd", "disk=hdd")
    asking = template("a", region=region, container_labels=labels)
    specs = updated(None, full(1, asking), Sharding(SHARDS, selectors))
    assert {task.refusal for task in specs.desired(all_shards(), HERE).values()} == {refusal}


def test_an_unreadable_job_stays_and_a_missing_one_is_forgotten() -> None:
    """A job whose row does not validate is not in the snapshot's templates; what the container knows stays in force."""
    known = updated(None, full(2, template("broken"), template("gone", revision=2)))
    fresh = updated(known, full(3).model_copy(update={"unreadable": ("broken", "never-seen")}))
    assert set(fresh.jobs) == {"broken"}
    assert fresh.jobs["broken"].template is known.jobs["broken"].template


def test_a_readable_row_replaces_what_was_kept() -> None:
    known = updated(None, full(2, template("a")))
    kept = updated(known, full(3).model_copy(update={"unreadable": ("a",)}))
    assert updated(kept, full(4, template("a", revision=4))).jobs["a"].template.commit_number == 4
