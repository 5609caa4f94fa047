"""One round: read, decide for every job, record, act. The thin shell around `algorithm.decide`.

A decision that acts is stored as `pending`, with its inputs, before the Job Service is called, and resolved after.
A decision that does nothing is stored only if the job's symptom, action or outcome differs from the newest stored
decision. So the table shows changes, not minutes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

from pydantic import ValidationError

from penstock.config.model import JobConfig
from penstock.control.errors import RetryableError, UserError, VersionConflict
from penstock.control.logs import logger
from penstock.wire.job_client import JobClient
from services.auto_scaler import metrics
from services.auto_scaler.algorithm import (
    REASON,
    Action,
    DecisionInputs,
    Policy,
    ScalingDecision,
    Symptom,
    as_stored,
    can_shrink,
    classify_symptom,
)
from services.auto_scaler.evidence import LastDecision, ScaledJob, scaler_state
from services.auto_scaler.store.decisions import PENDING, NewDecision
from services.auto_scaler.store.evidence import SCALER_LAYER
from services.auto_scaler.store.port import Cluster, ScalingStore
from services.auto_scaler.symptoms import detect

log = logger(__name__)

WRITTEN = "written"
NOTHING = "nothing to do"
NOT_AVAILABLE = "not available"
CONFLICT = "conflict"
REFUSED = "refused"
UNAVAILABLE = "job service unavailable"


class Decided(NamedTuple):
    """A decision about a job with its inputs."""

    job: ScaledJob
    inputs: DecisionInputs
    decision: ScalingDecision


class AutoScaler:
    """Rounds of the Auto Scaler."""

    def __init__(self, store: ScalingStore, jobs: JobClient, now: Callable[[], datetime], policy: Policy) -> None:
        self._store = store
        self._jobs = jobs
        self._now = now
        self._policy = policy

    def round(self, leader_epoch: int) -> None:
        """Decides about every job that has tasks. Raises Fenced, Unavailable."""
        with metrics.ROUND_SECONDS.time():
            now = self._now()
            cluster = self._store.read(now)
            decided = [one for job in cluster.jobs if (one := self._try_to_decide(job, cluster, now)) is not None]
            self._record_quiet_ones(decided, leader_epoch)
            for one in decided:
                if one.decision.change is not None:
                    self._act(one, leader_epoch)
        _show(decided)

    def _try_to_decide(self, job: ScaledJob, cluster: Cluster, now: datetime) -> Decided | None:
        try:
            return self._decide(job, cluster, now)
        except ValidationError as error:
            # Another release may have written it. The round leaves this job alone and goes on with the others.
            log.warning("running configuration not understood", job=job.job, error=str(error))
            return None

    def _decide(self, job: ScaledJob, cluster: Cluster, now: datetime) -> Decided:
        config = JobConfig.model_validate(job.config)
        symptoms = detect(cluster.samples.get(job.job, ()), config.task_count)
        state = scaler_state(job, cluster.container_memory_bytes)
        if classify_symptom(symptoms, config) is Symptom.NONE and can_shrink(config, state):
            day = self._store.day(job.job, now, config.slo.max_lag_seconds)
            state = state.model_copy(update={"day": day})
        inputs = DecisionInputs(symptoms=symptoms, config=config, state=state, policy=self._policy, now=now)
        return Decided(job, inputs, inputs.decide())

    def _record_quiet_ones(self, decided: list[Decided], leader_epoch: int) -> None:
        """Stores the decisions that change nothing but differ from the newest stored one."""
        quiet = [(one, _quiet_outcome(one.decision)) for one in decided if one.decision.change is None]
        news = [_new_decision(one, outcome) for one, outcome in quiet if _is_news(one, outcome)]
        if news:
            self._store.record(news, leader_epoch)
        for new in news:
            _log_decision(new)

    def _act(self, one: Decided, leader_epoch: int) -> None:
        new = _new_decision(one, PENDING)
        (decision_id,) = self._store.record([new], leader_epoch)
        outcome, revision = self._write(one, decision_id)
        self._store.record_outcome(decision_id, outcome)
        _log_decision(new._replace(outcome=outcome), decision=decision_id, revision=revision)

    def _write(self, one: Decided, decision_id: int) -> tuple[str, int | None]:
        """What became of the change, and its revision. After a conflict the next round decides anew."""
        job, decision = one.job, one.decision
        try:
            written = self._jobs.patch_layer(
                job.job,
                SCALER_LAYER,
                decision.change or {},
                if_match=job.layer_version,
                reason=f"{decision.action}: {decision.reason}",
                expires_in_seconds=None,
                idempotency_key=f"scaling-decision-{decision_id}",
            )
        except VersionConflict:
            return CONFLICT, None
        except UserError as error:
            return f"{REFUSED}: {error.detail}", None
        except RetryableError as error:
            log.warning("change not written", job=job.job, error=error.detail)
            return UNAVAILABLE, None
        return WRITTEN, written.revision


def _quiet_outcome(decision: ScalingDecision) -> str:
    return NOTHING if decision.action is Action.NONE else NOT_AVAILABLE


def _is_news(one: Decided, outcome: str) -> bool:
    decision = one.decision
    return one.job.last != LastDecision(decision.symptom.value, decision.action.value, outcome)


def _new_decision(one: Decided, outcome: str) -> NewDecision:
    decision = one.decision
    return NewDecision(
        job=one.job.job,
        at=one.inputs.now,
        symptom=decision.symptom.value,
        action=decision.action.value,
        inputs=as_stored(one.inputs, decision),
        change=decision.change,
        outcome=outcome,
    )


def _log_decision(new: NewDecision, **fields: Any) -> None:
    metrics.DECISIONS.labels(new.action, new.outcome.partition(":")[0]).inc()
    log.info(
        "scaling decided",
        job=new.job,
        symptom=new.symptom,
        action=new.action,
        outcome=new.outcome,
        reason=new.inputs[REASON],
        **fields,
    )


def _show(decided: list[Decided]) -> None:
    counted = Counter(one.decision.symptom for one in decided)
    for symptom in Symptom:
        metrics.JOBS.labels(symptom.value).set(counted.get(symptom, 0))
