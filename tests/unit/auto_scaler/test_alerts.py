"""Which alerts a round raises, and which it leaves open."""

from __future__ import annotations

from typing import Any

from penstock.model.alerts import AlertKind
from services.auto_scaler.alerts import JobDecision, alerts_of
from services.auto_scaler.decide.decision import DecisionInputs
from services.auto_scaler.decide.model import Action, Fleet
from services.auto_scaler.decide.policy import Policy
from tests.support.auto_scaler import change, job, load, rate, situation, state, symptoms

WELL = Fleet(jobs=100, lagging=1, unmeasured=0)


def made(name: str, lag: float | None, **known: Any) -> JobDecision:
    inputs = DecisionInputs(**situation(symptoms(lag), job(2), state(**known))._asdict())
    return JobDecision(name, inputs, inputs.decide())


def test_an_untriaged_problem_raises_an_alert_with_what_was_known() -> None:
    stuck = made("stuck", 100.0, rate=rate(), load=load(100.0, 9000.0, 0.0))
    found = alerts_of([stuck], WELL, Policy())
    ((key, (message, evidence)),) = found.raised.items()
    assert key == (AlertKind.LAG_UNTRIAGED, "stuck")
    assert message.startswith("stuck: lag of 100 s is over the SLO of 90 s; by the estimate 2 tasks should be enough")
    assert "Estimate: a busy task does 100 rows/s, measured in 60 busy minutes." in evidence["why"]


def test_an_alert_stays_open_until_the_lag_is_gone_also_when_something_is_done() -> None:
    waits = made("waits", 100.0, converged=False)
    silent = made("silent", None)
    grows = made("grows", 100.0)
    well = made("well", 0.0)
    undone = made("undone", 100.0, last_change=change(Action.UNDO, 4, 2))
    found = alerts_of([waits, silent, grows, well, undone], WELL, Policy())
    assert found.keep == {"waits", "silent", "grows"}
    assert list(found.raised) == [(AlertKind.LAG_UNTRIAGED, "undone")]


def test_the_circuit_breaker_raises_one_alert_for_the_cell() -> None:
    frozen = Fleet(jobs=100, lagging=31, unmeasured=0)
    found = alerts_of([made("j", 100.0, fleet=frozen)], frozen, Policy())
    assert list(found.raised) == [(AlertKind.SCALING_FROZEN, "cell")]
    assert found.keep == {"j"}
