"""What the checkers of placement see of a small cell, drawn up by hand."""

from __future__ import annotations

import pytest

from penstock.tasks.dimensions import CPU, DISK, MEMORY, NETWORK
from penstock.tasks.loads import JobTasks, TaskLoad
from penstock.tasks.ownership import Member, Owner
from penstock.tasks.shards import Sharding
from services.shard_manager.placement import controller
from tests.simulation import rest
from tests.simulation.rest import not_at_rest
from tests.simulation.weighing import Knowledge
from tests.support.memory.store import MemoryStore

SHARDS = 4


def member(name: str) -> Member:
    return Member(name, "one", f"http://{name}", "local", 1.0, 2**30, 2**30)


def test_a_shard_weighs_what_its_tasks_use_and_an_unknown_task_what_the_others_of_its_job_do() -> None:
    told = tuple(TaskLoad("a", number, 1, {CPU: 0.1 * (1 + number)}) for number in range(3))
    job = JobTasks("a", 4, 1, False, {MEMORY: 5e8})
    known = Knowledge({"c0": member("c0")}, (job,), (*told, TaskLoad("a", 3, 2, {CPU: 9.0})), Sharding(1), {0: "c0"})
    assert known.loads[0] == pytest.approx({CPU: 0.8, MEMORY: 2e9, DISK: 4 * 64 * 2**20, NETWORK: 4 * 64 * 2**10})
    assert set(known.overfull({0: "c0"})) == {"c0"}


@pytest.mark.parametrize(("budget", "is_noticed"), [(2, True), (1, False)])
def test_a_tier_that_could_be_in_its_band_is_noticed(
    budget: int, is_noticed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of four equal shards are on one of two containers, and placement, which is broken, sees nothing to do."""
    memory = MemoryStore(lambda: 0.0, SHARDS)
    memory.members = {name: member(name) for name in ("c0", "c1")}
    memory.owners = {shard: Owner("c0", 1) for shard in range(SHARDS)}
    target_of = controller.target_of

    def contented(*asked: object) -> object:
        target = target_of(*asked)  # type: ignore[arg-type]
        return type(target)(**{**vars(target), "order": (), "finished": True})

    assert any("are to move" in what for what in not_at_rest(memory, 2))
    monkeypatch.setattr(rest, "target_of", contented)
    assert any("out of band" in what for what in not_at_rest(memory, budget)) is is_noticed
