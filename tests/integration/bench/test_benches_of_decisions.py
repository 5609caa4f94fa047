"""Small forms of the benches that need neither Spark nor a stack."""

from __future__ import annotations

import pytest

from tests.bench import (
    autoscaling,
    autoscaling_plots,
    cli_start,
    fleet,
    job_metrics,
    job_pages,
    placement,
    reports,
    scaler,
    sync,
    upgrade,
)
from tests.support.bench.figures import unmeasured


def test_placement():
    figures = placement.measure(300, 10, growth=[(200, 8)])
    assert unmeasured(figures, may_be_zero={"moved_share", "floor_moves_share"}) == set()
    assert figures["worst_band"] <= 0.1 + 1e-9


def test_autoscaling():
    """A job that is stopped for most of a day, under every policy."""
    figures = autoscaling.measure(0, 1, seed=1, kinds=["stop"], sizes=[3.0])
    assert all(0 < error < 1 for error in figures.pop("model_error").values())
    assert 0 < figures.pop("downtime_error") < 1
    assert figures.keys() >= {"penstock", "static_peak", "hpa", "keda", "dhalion", "ds2", "flink_autoscaler"}
    for score in figures.values():
        assert unmeasured(score, may_be_zero={"actions", "downtime_minutes", "wrong_way_actions"}) == set()
    assert figures["static_peak"]["actions"] == 0
    assert figures["penstock"]["actions"] > 0


def test_without_matplotlib_the_plots_say_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(autoscaling_plots, "import_module", absent)
    with pytest.raises(SystemExit, match="uv pip install matplotlib"):
        autoscaling_plots.require()


def test_scaler():
    figures = scaler.measure(500)
    assert unmeasured(figures) == set()
    assert (figures["jobs"], figures["lagging"]) == (500, 50)


def test_upgrade():
    figures = upgrade.measure(tasks=200, containers=10, tasks_per_job=10)
    assert unmeasured(figures, may_be_zero={"violations", "take_in_s"}) == set()
    assert (figures["jobs"], figures["violations"]) == (20, 0)


def test_cli_start():
    with cli_start.serving() as url:
        figures = cli_start.measure(1, url)
    assert unmeasured(figures) == set()
    assert figures.keys() >= {"jobs_help_s", "list_s", "bare_s"}


def test_sync():
    """A release of all jobs in waves of the default budget, beside simple changes."""
    figures = sync.measure(100, release_rounds=3)
    assert unmeasured(figures) == set()
    assert figures["jobs"] == 100


def test_job_pages():
    """Among them a job with a task that crashes again and again."""
    figures = job_pages.measure(1000)
    assert unmeasured(figures) == set()
    assert (figures["jobs"], figures["crashing"]) == (1000, 1)


def test_job_metrics():
    """A day of minutes of a job takes less than one sample of each minute of each task."""
    figures = job_metrics.measure(jobs=20, hours=2, tasks=2)
    assert unmeasured(figures) == set()
    assert figures["bytes_per_job_day"] / 1440 < figures["bytes_per_sample"]


@pytest.mark.long
def test_fleet(monkeypatch: pytest.MonkeyPatch):
    """Real services, and a release to all jobs at once, each of one task: each wave of a larger one would take some
    ticks of 5 s. At rest each container says something every 2 s. Long, for its processes take fifteen CPU seconds."""
    monkeypatch.setenv("PENSTOCK_HEARTBEAT_SECONDS", "2")
    monkeypatch.setenv("PENSTOCK_STATE_SYNCER_PERIOD_SECONDS", "2")
    figures = fleet.measure(
        4, 6, 1, rest_seconds=3.0, release_limit=90.0, spread_seconds=0.2, healthy_seconds=0.5, blast_share=1.0
    )
    assert unmeasured(figures, may_be_zero={"failed_calls"}) == set()
    assert (figures["containers"], figures["tasks"]) == (4, 6)


def test_reports():
    """Changes write fewer rows than full reports do; all tasks leave a sample, all leases are renewed."""
    figures = reports.measure(containers=4, tasks=20)
    assert unmeasured(figures, may_be_zero={"cpu_s_per_min", "full_cpu_s_per_min"}) == set()
    assert (figures["sampled"], figures["renewed"]) == (80, 4)
    assert figures["rows_per_s"] < figures["full_rows_per_s"] / 4
