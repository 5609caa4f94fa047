"""Ways to break the real code, each a promise of the design that is not kept. The simulation must notice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from penstock.control.loop import Leadership
from penstock.identity import rules
from penstock.spark import fence
from penstock.spark.host.lease import LeaseWatch
from penstock.tasks.redistribution import RedistributionRequest
from penstock.wire.cluster import ShardOrders
from services.shard_manager.leader import fail_over
from services.shard_manager.leader.liveness import lost
from services.shard_manager.leader.orders import OnAnswer, Orders
from services.shard_manager.moves.moves import Moves, Phase, Planned, Verb
from services.state_syncer.decide import facts, observe, quiet, rescale, rollout
from services.state_syncer.decide.observe import NO_CONTAINERS_APPLIED
from services.state_syncer.decide.progress import Step
from services.state_syncer.decide.whereabouts import ALL_RUN
from services.state_syncer.host_tasks.dispatcher import WantedHostTasks
from services.state_syncer.store import recorded as store
from services.task_manager import container as task_manager
from services.task_manager.membership.membership import Membership
from services.task_manager.specs import spec_cache
from services.task_manager.state import State
from services.task_service.api import SpecAnswers
from services.task_service.encoding import Asked
from services.task_service.templates import Templates
from tests.support.memory.store import MemoryStore

Mutation = Callable[[pytest.MonkeyPatch], None]


def no_fence(patch: pytest.MonkeyPatch) -> None:
    """Whoever holds a checkpoint's folder commits to it."""
    patch.setattr(fence, "require_newest", lambda *_: None)


def move_before_drop_is_answered(patch: pytest.MonkeyPatch) -> None:
    """The new owner is recorded while the old one is still being told."""
    start = Moves._start

    def hasty(self: Moves, move: Any, event: Any, now: float) -> list[Any]:
        instructions = start(self, move, event, now)
        if isinstance(event, Planned) and event.source is not None:
            self._put(replace(self._moves[event.shard], phase=Phase.DROPPED))
        return instructions

    patch.setattr(Moves, "_start", hasty)


def no_answer_is_a_yes(patch: pytest.MonkeyPatch) -> None:
    """A DROP that nobody answered counts as done."""
    send = Orders.send

    def believing(self: Orders, verb: Verb, url: str, order: ShardOrders, on_answer: OnAnswer) -> None:
        all_shards = frozenset(order.shards)
        send(self, verb, url, order, (lambda _: on_answer(all_shards)) if verb == "drop" else on_answer)

    patch.setattr(Orders, "send", believing)


def unknown_is_gone(patch: pytest.MonkeyPatch) -> None:
    """A container that did not report is taken to have stopped everything."""
    patch.setattr(observe, "_applied", lambda _: NO_CONTAINERS_APPLIED)


def silent_owner_counts_as_told(patch: pytest.MonkeyPatch) -> None:
    """Also a container that owns a shard of a job, and reports nothing, is taken to have stopped its tasks."""
    patch.setattr(observe.ClusterView, "owners_know", lambda *_: True)


def lost_task_counts_as_quiet(patch: pytest.MonkeyPatch) -> None:
    """A job is stopped for its rescale although a task of it was lost while it quiesced."""
    patch.setattr(quiet, "whereabouts", lambda *_: ALL_RUN)


def lost_task_is_awaited_without_end(patch: pytest.MonkeyPatch) -> None:
    """The other tasks of a job take no rows until one that was lost is back."""
    patch.setattr(facts, "LOST_SECONDS", float("inf"))


def everybody_leads(patch: pytest.MonkeyPatch) -> None:
    """A process that could not take the lease leads all the same, and no write looks at the leader epoch."""
    renew = Leadership.renew

    def always(self: Leadership) -> int | None:
        epoch = renew(self)
        self._epoch, self._good_until = epoch or 1, float("inf")
        return self._epoch

    patch.setattr(Leadership, "renew", always)
    patch.setattr(MemoryStore, "check_epoch", lambda *_: None)


def no_wait_after_an_election(patch: pytest.MonkeyPatch) -> None:
    """A new leader takes those for lost that it has not heard of itself."""

    def hasty(names: Any, heard_at: Mapping[str, float], *, listening_since: float, **options: Any) -> Any:
        return lost(names, heard_at, listening_since=float("-inf"), **options)

    patch.setattr(fail_over, "lost", hasty)


def tasks_outlive_the_lease(patch: pytest.MonkeyPatch) -> None:
    """Neither Task Managers nor hosts stop when the lease runs out."""
    patch.setattr(Membership, "has_lease", lambda self, _: self.was_granted())
    patch.setattr(LeaseWatch, "check", lambda _: False)


def drop_is_answered_before_the_stop(patch: pytest.MonkeyPatch) -> None:
    """A Task Manager says SUCCESS while the tasks are still stopping."""
    patch.setattr(task_manager.Container, "await_stopped", lambda _, __, dropped, ___: dropped)


def commit_of_what_nobody_asked_for(patch: pytest.MonkeyPatch) -> None:
    """The running configuration is another than the expected one."""
    expected = store.expected_config

    def other(layers: Any) -> Any:
        config = expected(layers)
        return {**config, "priority": 7} if isinstance(config, dict) else config

    patch.setattr(store, "expected_config", other)


def commit_before_the_generation_is_written(patch: pytest.MonkeyPatch) -> None:
    """A redistribution that was asked for counts as done."""
    changed = {**rescale.MOVES, (Step.REDISTRIBUTE, rescale.Fact.UNANSWERED): rescale.Move.SEAL}
    patch.setattr(rescale, "MOVES", changed)


def start_from_old_specs(patch: pytest.MonkeyPatch) -> None:
    """Who joins, and who gets a shard, runs what its disk says, however old that is."""
    patch.setattr(Membership, "may_start_from", lambda *_: True)
    patch.setattr(Membership, "too_early", lambda *_: frozenset())


def tasks_keep_old_numbers(patch: pytest.MonkeyPatch) -> None:
    """A Task Manager does not renumber what runs when the number of shards changes."""
    patch.setattr(State, "reshard", lambda *_: None)


def all_tasks_in_one_wave(patch: pytest.MonkeyPatch) -> None:
    """A package goes to all tasks of a job at once."""
    patch.setattr(rollout, "wave_ends", lambda task_count, _: (task_count,))


def next_wave_unseen(patch: pytest.MonkeyPatch) -> None:
    """A wave counts as healthy before anything was seen of it."""
    patch.setattr(rollout, "wave_fact", lambda *_: rollout.WaveFact.HEALTHY)


def silence_speaks_against_a_package(patch: pytest.MonkeyPatch) -> None:
    """A wave that nobody reports for too long is one that is not healthy."""
    fact = rollout.wave_fact

    def hasty(*seen: Any) -> Any:
        found = fact(*seen)
        return rollout.WaveFact.FAILING if found is rollout.WaveFact.LATE else found

    patch.setattr(rollout, "wave_fact", hasty)


def releases_interleave(patch: pytest.MonkeyPatch) -> None:
    """Tasks that are not upgraded run what the running row has, though that be a release that is going out."""
    record = rollout._rollout

    def careless(running: Any, *others: Any) -> Any:
        return record(replace(running, rollout=None), *others)

    patch.setattr(rollout, "_rollout", careless)


def late_host_task_runs(patch: pytest.MonkeyPatch) -> None:
    """A redistribution that nobody wants any more is carried out. Four guards prevent that, each on its own: nobody
    cancels it, no Task Manager refuses it, so no host is told, and the mark in the fence says nothing."""
    claimed, refusal = fence.claimed, task_manager.refusal

    def accepting(request: Any, *others: Any) -> Any:
        return None if isinstance(request, RedistributionRequest) else refusal(request, *others)

    def markless(current: Any, checkpoint: str, epoch: int | None, holder: str, mark: Any) -> Any:
        return claimed(current, checkpoint, epoch, holder, None if epoch is None else mark)

    patch.setattr(WantedHostTasks, "_cancel", lambda *_: None)
    patch.setattr(task_manager, "refusal", accepting)
    patch.setattr(fence, "claimed", markless)


def forged_report(patch: pytest.MonkeyPatch) -> None:
    """A container may report for another one."""
    patch.setattr(rules, "require_container", lambda *_: None)


def older_snapshot_accepted(patch: pytest.MonkeyPatch) -> None:
    """A Task Service that is behind answers with what it has, and a Task Manager believes it."""

    async def as_it_is(self: SpecAnswers, *_: Any) -> Templates:
        return self._known()

    def in_full(self: SpecAnswers, templates: Templates, asked: Asked) -> Any:
        is_behind = asked.after is not None and asked.after > templates.commit_number
        return encoded(self, templates, asked._replace(after=None) if is_behind else asked)

    encoded = SpecAnswers._encoded
    patch.setattr(SpecAnswers, "_at_least", as_it_is)
    patch.setattr(SpecAnswers, "_encoded", in_full)
    patch.setattr(spec_cache, "is_older", lambda *_: False)


MUTATIONS: tuple[Mutation, ...] = (
    no_fence,
    move_before_drop_is_answered,
    no_answer_is_a_yes,
    unknown_is_gone,
    silent_owner_counts_as_told,
    lost_task_counts_as_quiet,
    lost_task_is_awaited_without_end,
    everybody_leads,
    no_wait_after_an_election,
    tasks_outlive_the_lease,
    drop_is_answered_before_the_stop,
    commit_of_what_nobody_asked_for,
    commit_before_the_generation_is_written,
    start_from_old_specs,
    tasks_keep_old_numbers,
    all_tasks_in_one_wave,
    next_wave_unseen,
    silence_speaks_against_a_package,
    releases_interleave,
    older_snapshot_accepted,
    late_host_task_runs,
    forged_report,
)
