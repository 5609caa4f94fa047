"""The simulation notices when the real code is broken: each mutation fails some of a few seeds that pass without it."""

from __future__ import annotations

import pytest

from tests.simulation import mutations, placement_mutations
from tests.simulation.faults import Mix
from tests.simulation.mutations import MUTATIONS, Mutation
from tests.simulation.placement_mutations import PLACEMENT_MUTATIONS
from tests.simulation.world import Size, simulate

_ANY = Mix()
_COME_AND_GO = Mix(8.0, ("kill", "switch off"), "c")
_CUT_OFF = Mix(8.0, ("cut", "cut a service"), "c")

CASES: dict[Mutation, tuple[Mix, tuple[int, ...]]] = {
    mutations.no_fence: (Mix(5.0, ("stop a machine", "habits"), "c"), (6,)),
    mutations.move_before_drop_is_answered: (_ANY, (2, 6)),
    mutations.no_answer_is_a_yes: (Mix(6.0, ("switch off", "weather", "stop"), "c"), (43, 0)),
    mutations.unknown_is_gone: (Mix(5.0, ("switch off", "stop"), "tasks"), (15,)),
    mutations.everybody_leads: (_ANY, (0, 1, 2)),
    mutations.no_wait_after_an_election: (Mix(4.0, ("kill", "store away", "store in trouble"), "shards"), (11,)),
    mutations.tasks_outlive_the_lease: (_CUT_OFF, (4,)),
    mutations.drop_is_answered_before_the_stop: (_COME_AND_GO, (2, 3)),
    mutations.commit_of_what_nobody_asked_for: (_ANY, (0,)),
    mutations.commit_before_the_generation_is_written: (Mix(6.0, ("habits", "crash a host", "kill"), "c"), (0, 6)),
    mutations.all_tasks_in_one_wave: (_ANY, (0, 1, 2)),
    mutations.next_wave_unseen: (_ANY, (0, 1, 2)),
    mutations.releases_interleave: (_ANY, (0, 1, 2)),
    mutations.start_from_old_specs: (Mix(5.0, ("switch off",), ("c", "tasks")), (32,)),
    mutations.tasks_keep_old_numbers: (Mix(6.0, ("switch off", "kill", "crash a host"), "c"), (3,)),
    placement_mutations.capacity_is_ignored: (_ANY, (2, 1)),
    placement_mutations.the_budget_is_ignored: (_ANY, (1, 4)),
    placement_mutations.a_cordon_is_ignored: (_ANY, (1, 4)),
    placement_mutations.regions_are_ignored: (_ANY, (2, 3)),
    placement_mutations.labels_are_ignored: (_ANY, (4, 6)),
    placement_mutations.all_moves_at_once: (_ANY, (1, 2)),
}
"""Faults that bring out each mutation, and seeds that did when they were looked for: those are tried first."""

MOST_SEEDS = 150


CHANGES: dict[Mutation, tuple[str, ...]] = {mutations.unknown_is_gone: ("rescale",)}
"""What users do, where only some of it brings the mutation out."""


LONG = (
    mutations.start_from_old_specs,
    mutations.no_wait_after_an_election,
    mutations.commit_before_the_generation_is_written,
    mutations.all_tasks_in_one_wave,
    mutations.releases_interleave,
    mutations.tasks_keep_old_numbers,
    placement_mutations.a_cordon_is_ignored,
    placement_mutations.labels_are_ignored,
    placement_mutations.all_moves_at_once,
)
"""One that few seeds bring out, and those that are of a kind with another."""


@pytest.mark.parametrize(
    "mutation",
    [
        pytest.param(each, marks=[pytest.mark.long] if each in LONG else [], id=each.__name__)
        for each in (*MUTATIONS, *PLACEMENT_MUTATIONS)
    ],
)
def test_a_broken_promise_is_noticed(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    """1. Broken, the code fails some seed. 2. Whole, it passes the same."""
    mix, likely = CASES[mutation]
    faults_seconds = 120.0 if mutation in PLACEMENT_MUTATIONS else 240.0
    size = Size(mix=mix, faults_seconds=faults_seconds, changes=CHANGES.get(mutation, ()))
    mutation(monkeypatch)
    seeds = (*likely, *(seed for seed in range(MOST_SEEDS) if seed not in likely))
    noticed = next((seed for seed in seeds if not simulate(seed, size).is_good), None)
    monkeypatch.undo()
    assert noticed is not None, "the simulation noticed nothing"
    assert simulate(noticed, size).complaints == ()
