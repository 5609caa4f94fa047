"""The host tasks of the plans of rescales: what is asked for, and what a round sees of them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from penstock.config.classify import classify
from penstock.config.model import ChangeKind, JobConfig
from penstock.tasks.host_task import REDISTRIBUTE
from penstock.tasks.redistribution import CopyRequest, Layout, RedistributionRequest, SealRequest
from penstock.tasks.selectors import selector_of
from penstock.tasks.sinks import has_transactions, outputs_of
from penstock.tasks.spec import key_group_ranges
from services.state_syncer.decide.progress import QUIESCED_STEPS, Plan, PlanRow, Step
from services.state_syncer.decide.view import Config, JobView, Running
from services.state_syncer.host_tasks.next_attempt import Candidates, HostTaskStep, LiveContainer, pick
from services.state_syncer.host_tasks.outcomes import Attempt, AttemptKey, Failed, Outcome


class PlanTasks:
    """Gives each plan's host task: its outcome, next container and request.

    The plans of rescales and the live containers are of one moment. `state_bytes`: the reported size of the jobs'
    state, where it is known.
    """

    def __init__(
        self,
        plans: Mapping[str, PlanRow],
        containers: Mapping[str, LiveContainer],
        outcome: Callable[[AttemptKey], Outcome],
        state_bytes: Mapping[str, int],
    ) -> None:
        under_way = {job: row for job, row in plans.items() if not row.deleting}
        asked = (AttemptKey(job, REDISTRIBUTE, None, row.container) for job, row in under_way.items())
        self._candidates = Candidates(containers, asked)
        self._outcome = outcome
        self._state_bytes = state_bytes

    def observe(self, view: JobView) -> JobView:
        """The view with the observed progress of its plan's step."""
        progress = view.progress
        if progress is None or view.deleting:
            return view
        plan = progress.plan
        task = task_of(view.job, plan, view.failures)
        candidate = pick(task, self._candidates)
        if candidate is not None and not plan.has_attempt and plan.step in (Step.COPY, Step.AWAIT_STOPPED):
            # Each observation counts, so that plans that begin together are spread.
            self._candidates.add(REDISTRIBUTE, candidate)
        seen = replace(
            progress,
            outcome=self._outcome(task.key),
            candidate=candidate,
            container_lives=plan.container in self._candidates.places,
            has_state=self._state_bytes.get(view.job) != 0,
            has_transactions=view.running is not None and has_transactions(view.running.config),
        )
        return replace(view, progress=seen)

    def attempts(self, asked: Iterable[tuple[JobView, Plan]]) -> Iterator[Attempt]:
        """What to ask for the plans' steps: nothing while tasks stop, or no container is chosen."""
        for view, plan in asked:
            is_idle = plan.step in (*QUIESCED_STEPS, Step.AWAIT_STOPPED) or not plan.has_attempt
            if is_idle or view.running is None or plan.container is None:
                continue
            place = self._candidates.places.get(plan.container)
            key, url = key_of(view.job, plan, view.failures), "" if place is None else place.url
            try:
                request = request_of(view.job, plan, view.running, self._state_bytes.get(view.job))
                yield Attempt(key, url, request)
            except ValueError as error:
                yield Attempt(key, url, Failed(f"the request cannot be made: {error}"))


def key_of(job: str, plan: Plan, failures: int) -> AttemptKey:
    """The key of a plan's present attempt, after so many failures. Steps are named after the kinds of their host
    tasks."""
    return AttemptKey(job, plan.step.value, plan.generation, plan.container, failures, plan.losses)


def task_of(job: str, plan: Plan, failures: int) -> HostTaskStep:
    """The host task of a plan's step. A failed redistribution ends its plan, so no attempt came before."""
    key = key_of(job, plan, failures)
    return HostTaskStep(key, selector=selector_of(plan.config), avoid=plan.container, ran_on=plan.ran_on)


def request_of(
    job: str, plan: Plan, running: Running, state_bytes: int | None = None
) -> CopyRequest | RedistributionRequest | SealRequest:
    """The request to the plan's container. `state_bytes`: the size of the state as the job's tasks reported it.

    Raises ValueError (pydantic's, too) when a configuration cannot be read.
    """
    source = ran = layout(running.generation, running.config)
    if plan.step is Step.SEAL:
        other = None if outputs_of(plan.config) == outputs_of(running.config) else JobConfig.model_validate(plan.config)
        return SealRequest(job=job, layout=source, target=other)
    if plan.generation is None:
        raise ValueError(f"the plan of {job} has taken no generation")
    restore = plan.restore
    if plan.step is Step.COPY:
        target = layout(plan.generation, _target_config(running, plan))
        return CopyRequest(job=job, source=source, target=target, state_bytes=state_bytes)
    if restore is not None:
        source = layout(restore.generation, restore.config).model_copy(update={"savepoint": restore.savepoint})
    return RedistributionRequest(
        job=job,
        source=source,
        target=layout(plan.generation, _target_config(running, plan) if restore is None else plan.config),
        stopped_at=running.commit_number if restore is None else None,
        seals=None if restore is None else ran,
        state_bytes=state_bytes,
    )


def _target_config(running: Running, plan: Plan) -> Config:
    """The running configuration with the rescaled fields of the plan. The commit brings the rest of the write.

    A side output comes or goes as a whole: with some of its fields only it would be none.
    """
    config: Config = running.config
    for change in classify(running.config, plan.config).only(ChangeKind.RESCALE).fields:
        path, value = change.path, change.new
        if path[0] == "side_outputs":
            path, value = path[:2], (plan.config.get("side_outputs") or {}).get(path[1])
        config = _replaced(config, path, value)
    return config


def layout(generation: int, config: Config) -> Layout:
    """A generation's layout. Raises ValueError (pydantic's) when the configuration cannot be read."""
    checked = JobConfig.model_validate(config)
    return Layout(generation=generation, config=checked, ranges=key_group_ranges(checked))


def _replaced(config: Mapping[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """None is left out: a key of a map that is gone, or the default of a field. A map that is new to this version may
    be absent."""
    first, *rest = path
    if rest:
        return {**config, first: _replaced(config.get(first, {}), tuple(rest), value)}
    others = {name: other for name, other in config.items() if name != first}
    return others if value is None else {**others, first: value}
