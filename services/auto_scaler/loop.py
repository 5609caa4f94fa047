"""One round: read, decide for every job, record, act. The thin shell around `decide`.

A decision that acts is stored as `pending`, with its inputs, before the Job Service is called, and resolved after.
A decision that does nothing is stored only if it says something else than the newest stored decision of the job. So the
table shows changes, not minutes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from pydantic import ValidationError

from penstock.config.model import JobConfig
from penstock.control.errors import Fenced, RetryableError, StatementTimedOut, Unavailable, UserError, VersionConflict
from penstock.control.logs import logger
from penstock.wire.job_client import JobClient
from penstock.wire.service_client import Noted
from services.auto_scaler import metrics
from services.auto_scaler.alerts import JobDecision, alerts_of
from services.auto_scaler.decide.decision import REASON, DecisionInputs, classify_symptom, needs_past, needs_recent
from services.auto_scaler.decide.explain import as_stored, reason_of
from services.auto_scaler.decide.guards import count_fleet
from services.auto_scaler.decide.model import Action, Fleet, ScalerState, Situation, Symptom
from services.auto_scaler.decide.policy import Mode, Policy
from services.auto_scaler.decide.symptoms import detect
from services.auto_scaler.due import DueJobs
from services.auto_scaler.evidence import LastDecision, ScaledJob, measured_since, scaler_state, with_past, with_recent
from services.auto_scaler.precedence import precedence
from services.auto_scaler.store.decisions import PENDING, UNAVAILABLE, NewDecision
from services.auto_scaler.store.evidence import SCALER_LAYER
from services.auto_scaler.store.port import Cluster, ScalingStore

log = logger(__name__)

WRITTEN = "written"
NOTHING = "nothing to do"
ADVISED = "advised"
CONFLICT = "conflict"
REFUSED = "refused"


class Seen(NamedTuple):
    """A job with its symptom and what was read of all jobs at once."""

    job: ScaledJob
    symptom: Symptom
    case: Situation


class Decided(NamedTuple):
    """A decision about a job with its inputs."""

    job: ScaledJob
    made: JobDecision

    @property
    def acts(self) -> bool:
        return self.made.decision.change is not None and self.made.inputs.policy.mode is Mode.ACT


class AutoScaler:
    """Rounds of the Auto Scaler."""

    def __init__(self, store: ScalingStore, jobs: JobClient, now: Callable[[], datetime], policy: Policy) -> None:
        self._store = store
        self._jobs = jobs
        self._now = now
        self._policy = policy
        self._due = DueJobs(policy.history_every_minutes)
        self._rounds = 0

    def round(self, leader_epoch: int) -> None:
        """Decides about every job that has tasks. Raises Fenced, Unavailable."""
        with metrics.ROUND_SECONDS.time():
            now = self._now()
            cluster = self._store.read(now)
            seen = [one for job in cluster.jobs if (one := self._try_to_see(job, cluster, now)) is not None]
            self._rounds += 1
            seen.sort(key=lambda one: precedence(one.job.job, one.symptom, self._rounds))
            fleet = count_fleet((one.symptom, one.case) for one in seen)
            decided, failed = self._decide_all(seen, fleet)
            self._record_quiet_ones(decided, leader_epoch)
            self._raise_alerts(decided, failed, fleet, leader_epoch)
            for new in decided:
                if new.acts:
                    self._act(new, leader_epoch)
        self._due.keep_only({one.job.job for one in seen})
        _show(seen)

    def _try_to_see(self, job: ScaledJob, cluster: Cluster, now: datetime) -> Seen | None:
        try:
            config = JobConfig.model_validate(job.config)
        except ValidationError as error:
            # Another release may have written it. The round leaves this job alone and goes on with the others.
            log.warning("running configuration not understood", job=job.job, error=str(error))
            return None
        symptoms = detect(cluster.samples.get(job.job, ()), config.task_count)
        state = scaler_state(job, cluster.container_memory_bytes)
        return Seen(
            job, classify_symptom(symptoms, config, self._policy), Situation(symptoms, config, state, self._policy, now)
        )

    def _decide_all(self, seen: Sequence[Seen], fleet: Fleet) -> tuple[list[Decided], set[str]]:
        """The decisions, and the jobs about which none could be made.

        A healthy job is due every few minutes: until then its last decision stands.
        """
        decided: list[Decided] = []
        failed: set[str] = set()
        actions = 0
        for one in seen:
            is_due = self._due.take(one.job.job, one.case.now)
            if one.symptom is Symptom.NONE and not is_due and _was_healthy(one.job):
                continue
            so_far = fleet.model_copy(update={"actions": actions})
            new = self._try_to_decide(one, so_far, is_due)
            if new is None:
                failed.add(one.job.job)
            else:
                actions += new.acts
                decided.append(new)
        return decided, failed

    def _try_to_decide(self, one: Seen, fleet: Fleet, is_due: bool) -> Decided | None:
        """None when it failed for this job: the others go on. Raises Fenced, Unavailable."""
        try:
            return self._decide(one, fleet, is_due)
        except (Fenced, Unavailable):
            raise
        except StatementTimedOut as error:
            log.error("job not decided, a read timed out in the store", job=one.job.job, error=error.detail)
        except Exception:  # a bug that one job meets must not end the decisions about all others
            log.exception("job not decided", job=one.job.job)
        return None

    def _decide(self, one: Seen, fleet: Fleet, is_due: bool) -> Decided:
        case = one.case._replace(state=one.case.state.model_copy(update={"fleet": fleet}))
        inputs = DecisionInputs(**case._replace(state=self._read_more(one.job, case, is_due))._asdict())
        return Decided(one.job, JobDecision(one.job.job, inputs, inputs.decide()))

    def _read_more(self, job: ScaledJob, case: Situation, is_due: bool) -> ScalerState:
        """The state with what is read only of jobs of which it matters now."""
        is_past_needed, is_recent_needed = is_due and needs_past(case), needs_recent(case)
        if not (is_past_needed or is_recent_needed):
            return case.state
        minutes = self._store.recent(job.job, measured_since(job, case.now, case.policy))
        state = with_recent(case.state, minutes, job, case.tasks, case.policy)
        if is_recent_needed:
            dealing = self._store.dealing(job.job, case.config, case.now, created_at=job.created_at, policy=case.policy)
            return state.model_copy(update=dealing._asdict())
        slo_seconds = case.config.slo.max_lag_seconds
        past = self._store.past(
            job.job,
            case.now,
            created_at=job.created_at,
            task_count=case.tasks,
            slo_seconds=slo_seconds,
            policy=case.policy,
        )
        return with_past(state, past, case.now, case.policy)

    def _record_quiet_ones(self, decided: Sequence[Decided], leader_epoch: int) -> None:
        """Stores the decisions that change nothing but say something else than the newest stored one."""
        quiet = [_new_decision(one, _quiet_outcome(one)) for one in decided if not one.acts and _is_news(one)]
        if quiet:
            self._store.record(quiet, leader_epoch)
        for new in quiet:
            _log_decision(new)

    def _raise_alerts(self, decided: Sequence[Decided], failed: set[str], fleet: Fleet, leader_epoch: int) -> None:
        """The alert of a job about which nothing could be decided stays."""
        found = alerts_of([one.made for one in decided], fleet, self._policy)
        self._store.replace_alerts(found.raised, found.keep | failed, leader_epoch)

    def _act(self, one: Decided, leader_epoch: int) -> None:
        new = _new_decision(one, PENDING)
        (decision_id,) = self._store.record([new], leader_epoch)
        outcome, revision = self._write(one, decision_id)
        self._store.record_outcome(decision_id, outcome)
        _log_decision(new._replace(outcome=outcome), decision=decision_id, revision=revision)

    def _write(self, one: Decided, decision_id: int) -> tuple[str, int | None]:
        """What became of the change, and its revision. After a conflict the next round decides anew."""
        try:
            return WRITTEN, self._ask(one, decision_id)
        except VersionConflict:
            return CONFLICT, None
        except UserError as error:
            return f"{REFUSED}: {error.detail}", None
        except RetryableError as error:
            log.warning("change not written", job=one.job.job, error=error.detail)
            return UNAVAILABLE, None

    def _ask(self, one: Decided, decision_id: int) -> int | None:
        """The revision of the write; None for a move, which is no write to a layer."""
        job, decision = one.job, one.made.decision
        change = decision.change or {}
        noted = Noted(
            reason=f"decision {decision_id}: {decision.action}: {decision.reason}",
            idempotency_key=f"scaling-decision-{decision_id}",
        )
        if decision.action is Action.MOVE_TASK:
            self._jobs.move_task(job.job, change["index"], container=change["container"], **noted)
            return None
        return self._jobs.patch_layer(
            job.job, SCALER_LAYER, change, if_match=job.layer_version, expires_in_seconds=None, **noted
        ).revision


def _was_healthy(job: ScaledJob) -> bool:
    return job.last is not None and job.last.symptom == Symptom.NONE


def _quiet_outcome(one: Decided) -> str:
    return NOTHING if one.made.decision.change is None else ADVISED


def _is_news(one: Decided) -> bool:
    decision = one.made.decision
    said = LastDecision(
        decision.symptom.value, decision.action.value, _quiet_outcome(one), decision.change, reason_of(decision)
    )
    return one.job.last is None or not one.job.last.says(said)


def _new_decision(one: Decided, outcome: str) -> NewDecision:
    decision = one.made.decision
    return NewDecision(
        job=one.job.job,
        at=one.made.inputs.now,
        symptom=decision.symptom.value,
        action=decision.action.value,
        inputs=as_stored(one.made.inputs, decision),
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


def _show(seen: Sequence[Seen]) -> None:
    counted = Counter(one.symptom for one in seen)
    for symptom in Symptom:
        metrics.JOBS.labels(symptom.value).set(counted.get(symptom, 0))
