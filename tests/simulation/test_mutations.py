"""The simulation notices when the real code is broken: each mutation fails a seed that passes without it."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest

from tests.simulation import mutations, placement_mutations
from tests.simulation.faults import FORGERY, LOST_QUIESCING, QUIESCING, Mix
from tests.simulation.mutations import MUTATIONS, Mutation
from tests.simulation.placement_mutations import PLACEMENT_MUTATIONS
from tests.simulation.test_simulation import SEEDS
from tests.simulation.world import Result, Size, simulate


@dataclass(frozen=True)
class Case:
    """The seed that is tried first, in cells of a size: those of `test_simulation` unless faults of their own bring the
    mutation out. When it notices nothing, which a harmless change may do, others are tried."""

    seed: int
    size: Size = field(default_factory=Size)


def _under(*kinds: str, every: float, at: str | tuple[str, ...] = "", changes: tuple[str, ...] = ()) -> Size:
    return Size(mix=Mix(every, kinds, at), faults_seconds=240.0, changes=changes)


CASES: dict[Mutation, Case] = {
    mutations.no_fence: Case(4, _under("stop a machine", "habits", every=5.0, at="c")),
    mutations.move_before_drop_is_answered: Case(2),
    mutations.no_answer_is_a_yes: Case(4, _under("switch off", "weather", "stop", every=6.0, at="c")),
    mutations.unknown_is_gone: Case(
        16, _under("switch off", "cut a service", "stop", every=5.0, at="c", changes=("rescale", "delete"))
    ),
    mutations.silent_owner_counts_as_told: Case(
        0, _under("switch off", "cut a service", every=6.0, at="c", changes=("rescale", "delete"))
    ),
    mutations.lost_task_counts_as_quiet: Case(0, _under(QUIESCING, every=6.0, changes=("rescale",))),
    mutations.lost_task_is_awaited_without_end: Case(2, _under(LOST_QUIESCING, every=15.0, changes=("rescale",))),
    mutations.everybody_leads: Case(0),
    mutations.no_wait_after_an_election: Case(
        15, _under("kill", "store away", "store in trouble", every=4.0, at="shards")
    ),
    mutations.tasks_outlive_the_lease: Case(6, _under("cut", "cut a service", every=8.0, at="c")),
    mutations.drop_is_answered_before_the_stop: Case(2, _under("kill", "switch off", every=8.0, at="c")),
    mutations.commit_of_what_nobody_asked_for: Case(0),
    mutations.commit_before_the_generation_is_written: Case(
        1, _under("habits", "crash a host", "kill", every=6.0, at="c")
    ),
    mutations.start_from_old_specs: Case(21),
    mutations.tasks_keep_old_numbers: Case(0),
    mutations.all_tasks_in_one_wave: Case(0),
    mutations.next_wave_unseen: Case(2),
    mutations.silence_speaks_against_a_package: Case(
        7, _under("switch off", "cut a service", every=8.0, at="c", changes=("release",))
    ),
    mutations.releases_interleave: Case(0),
    mutations.late_host_task_runs: Case(7, _under("habits", "cut a service", every=5.0, at="c", changes=("rescale",))),
    mutations.forged_report: Case(0, _under(FORGERY, every=0.3, changes=("rescale", "delete"))),
    mutations.older_snapshot_accepted: Case(
        11, _under("cut", "cut a service", "stop", "store in trouble", every=3.0, at=("tasks", "c"))
    ),
    placement_mutations.capacity_is_ignored: Case(2),
    placement_mutations.the_budget_is_ignored: Case(3),
    placement_mutations.a_cordon_is_ignored: Case(1),
    placement_mutations.regions_are_ignored: Case(2),
    placement_mutations.labels_are_ignored: Case(7),
    placement_mutations.all_moves_at_once: Case(2),
}

SHORT = (
    mutations.no_fence,
    mutations.move_before_drop_is_answered,
    mutations.everybody_leads,
    mutations.commit_of_what_nobody_asked_for,
    mutations.next_wave_unseen,
    mutations.forged_report,
    placement_mutations.capacity_is_ignored,
    placement_mutations.the_budget_is_ignored,
)
"""One of each kind of promise; the long tests break them all."""

SEARCHED, SEARCHED_LONG = range(40), range(150)
"""Where another seed is looked for: once the recorded one notices nothing, and by the long tests."""


@pytest.mark.parametrize(
    "mutation",
    [
        pytest.param(each, marks=() if each in SHORT else pytest.mark.long)
        for each in (*MUTATIONS, *PLACEMENT_MUTATIONS)
    ],
    ids=lambda each: each.__name__,
)
def test_a_broken_promise_is_noticed(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    """1. Broken, the code fails a seed. 2. Whole, it passes it for as long: `test_seeds` has run some of them."""
    case = CASES[mutation]
    with monkeypatch.context() as patch:
        mutation(patch)
        noticing = _first_that_notices([case.seed, *SEARCHED], case.size)
    assert noticing is not None, f"none of {len(SEARCHED)} seeds notices anything"
    if noticing.seed != case.seed:
        gone = f"{mutation.__name__}: seed {case.seed} notices nothing any more; to be recorded: {noticing.seed}"
        warnings.warn(gone, stacklevel=1)
    if case.size != Size() or noticing.seed not in SEEDS:
        whole = simulate(noticing.seed, case.size, is_brief=True, ends_at=noticing.virtual_seconds)
        assert whole.complaints == ()


@pytest.mark.long
@pytest.mark.parametrize("mutation", [*MUTATIONS, *PLACEMENT_MUTATIONS], ids=lambda each: each.__name__)
def test_another_seed_notices_it_too(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[mutation]
    mutation(monkeypatch)
    others = (seed for seed in SEARCHED_LONG if seed != case.seed)
    assert _first_that_notices(others, case.size) is not None, "only the recorded seed notices anything"


def _first_that_notices(seeds: Iterable[int], size: Size) -> Result | None:
    results = (simulate(seed, size, is_brief=True) for seed in seeds)
    return next((result for result in results if not result.is_good), None)
