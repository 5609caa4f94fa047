"""Which alerts a round leads to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from penstock.model.alerts import AlertKind
from penstock.model.cell import CELL
from services.auto_scaler.decide.decision import DecisionInputs
from services.auto_scaler.decide.explain import sentences
from services.auto_scaler.decide.guards import why_frozen
from services.auto_scaler.decide.model import Fleet, ScalingDecision, Symptom
from services.auto_scaler.decide.policy import Policy

Raised = dict[tuple[AlertKind, str], tuple[str, dict[str, Any]]]
_MAY_GO_ON = (Symptom.LAG, Symptom.UNKNOWN)


class JobDecision(NamedTuple):
    """A decision about a job, with its inputs."""

    job: str
    inputs: DecisionInputs
    decision: ScalingDecision


class Alerts(NamedTuple):
    """`keep`: the jobs whose alert stays open though it is not raised again, since they may lag still."""

    raised: Raised
    keep: frozenset[str]


def alerts_of(decided: Iterable[JobDecision], fleet: Fleet, policy: Policy) -> Alerts:
    """An alert for each untriaged problem, with what was known as its evidence, and one for the circuit breaker."""
    raised: Raised = {}
    keep = set()
    for one in decided:
        if one.decision.untriaged:
            evidence = {"why": sentences(one.inputs, one.decision)}
            raised[AlertKind.LAG_UNTRIAGED, one.job] = (f"{one.job}: {one.decision.reason}", evidence)
        elif one.decision.symptom in _MAY_GO_ON:
            keep.add(one.job)
    frozen = why_frozen(fleet, policy)
    if frozen is not None:
        raised[AlertKind.SCALING_FROZEN, CELL] = (frozen, fleet.model_dump(mode="json"))
    return Alerts(raised, frozenset(keep))
