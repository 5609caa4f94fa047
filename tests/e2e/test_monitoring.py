"""A real Prometheus scrapes every process of a stack: its rules, and the queries of the dashboards, give figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.grafana.build import DASHBOARDS
from penstock.control.process import wait_until
from tests.support.chaos.stack import ChaosStack
from tests.support.stack.prometheus import Prometheus, prometheus
from tests.support.stack.rows import RowJob

SERVICES = ("job_service", "state_syncer", "task_service", "shard_manager", "auto_scaler")


@pytest.mark.long
def test_prometheus_scrapes_the_stack(stack: ChaosStack, rows: RowJob, tmp_path: Path) -> None:
    """1. Every process is scraped without an error. 2. While a job runs all its tasks are counted as running, and
    nothing is behind. 3. No rule has an error, and no alert about the fleet fires. 4. Each query of each dashboard is
    answered. 5. Each loop has one leader, and its rounds are timed."""
    rows.send_and_wait()
    targets = {name: stack.plan.url(name).partition("://")[2] for name in (*SERVICES, *stack.containers)}
    with prometheus(tmp_path, targets) as found:
        wait_until(lambda: len(found.scraped()) == len(targets), 30, "all to be scraped")
        assert found.scraped() == dict.fromkeys(targets, "")
        running = 'penstock:fleet_tasks{state="running"} > 0 and ignoring(state) penstock:tasks_not_running:ratio == 0'
        wait_until(lambda: found.values(running), 60, "tasks to be counted")
        wait_until(lambda: found.values("penstock:jobs_lagging:ratio") == [0.0], 60, "jobs to be counted")
        assert found.values('penstock_convergence_age_seconds{quantile="0.5"}') == [0.0]
        assert found.values("sum(task_double_run_seconds)") == [0.0]
        _rules_have_no_error(found)
        for page in DASHBOARDS:
            for panel in page.panels:
                for query in panel.queries.values():
                    found.get("/query", query=query)
        leaders = found.get("/query", query="sum by (loop) (penstock_loop_leader) == 1")["result"]
        assert {each["metric"]["loop"] for each in leaders} >= {
            "state_syncer",
            "shard_manager",
            "auto_scaler",
            "job_service.expiry",
            "job_service.notifications",
        }
        assert min(found.values("penstock_loop_round_seconds_count")) > 0


def _rules_have_no_error(found: Prometheus) -> None:
    wait_until(lambda: all(rule["health"] == "ok" for rule in found.rules()), 30, "all rules to be evaluated")
    firing = {rule["name"] for rule in found.rules() if rule.get("state") == "firing"}
    assert firing <= {"PenstockAlertOpen"}
