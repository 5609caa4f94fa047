"""Each page shows what the Job Service says."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from sqlalchemy import text

from penstock.control.process import wait_until
from penstock.store.engine import transaction
from tests.support.console.fleet import NAMES, fill
from tests.support.console.service import User
from tests.support.job_service.service import RunningJobService, as_new
from tests.support.job_service.stored import execute


@pytest.fixture(scope="module")
def reader(standing: RunningJobService, console_url: str) -> Iterator[User]:
    """Somebody who reads the pages of one fleet, which stays as it is for all tests with this fixture."""
    service = as_new(standing)
    fill(service)
    with User(console_url) as found:
        found.sign_in(service.admin)
        yield found


def text_of(html: str) -> str:
    """What a reader sees, in one line."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


def test_the_fleet_has_its_figures_alerts_changes_and_jobs(reader: User) -> None:
    wait_until(lambda: "10 jobs" in text_of(reader.get("/")), 20, "the count")
    page = reader.get("/")
    assert all(f'href="/jobs/{name}"' in page for name in NAMES)
    seen = text_of(page)
    assert "job lagging clicks-hourly" in seen
    assert "the dashboard of the morning meeting needs it" in seen
    assert "Jobs lagging" in seen
    assert "Tasks not running" in seen
    assert page.count("<polyline") >= 5
    assert re.search('class="tile shade-[0-9]+" href="/containers/container-02" title="container-02: 19 % full', page)
    assert re.search(r"crashing payments-enrich task 2: crashes again and again", seen)
    assert "crashing, held or starting: 2 of 9 that should run" in seen
    assert re.findall(r'container-(\d+)" title="[^"]+" aria-label="[^"]+"><b aria-hidden="true">✖</b>', page) == ["09"]


def test_jobs_are_filtered_and_sorted(reader: User) -> None:
    def jobs(query: str) -> list[str]:
        page = reader.get(f"/?{query}")
        return re.findall(r'<th scope="row"><a hx-boost="false" href="/jobs/([\w-]+)"', page)

    wait_until(lambda: len(jobs("sort=owner")) == 10, 20, "the count")
    assert jobs("prefix=clicks") == ["clicks-hourly", "clicks-sessions"]
    assert jobs("owner=orders&sort=lag") == ["orders-clean", "orders-joined"]
    assert jobs("state=stopped") == ["parked-report"]
    assert jobs("health=crashing") == ["payments-enrich"]
    assert jobs("sort=backlog")[0] == "clicks-hourly"
    assert len(jobs("sort=backlog")) == 10
    assert jobs("sort=backlog&reverse=1")[-3:] == ["brand-new", "parked-report", "payments-enrich"], "unknown"
    assert jobs("sort=job&reverse=1")[0] == "search-index"
    assert jobs("lag=2m") == ["clicks-hourly"]
    assert "1 job matches, as counted" in text_of(reader.get("/?lag=2m"))
    assert jobs("topic=nothing") == []
    assert "No job matches" in reader.get("/?topic=nothing")
    answer = reader.http.get("/?state=nonsense&prefix=a")
    assert answer.status_code == 422
    assert "state: choose one of" in answer.text


def test_a_job_that_is_not_healthy_has_its_causes_with_what_to_do(reader: User) -> None:
    seen = text_of(reader.get("/jobs/payments-enrich"))
    assert "Why the query, or the package of the job, fails certain task 2: ValueError" in seen
    assert "penstock history payments-enrich" in seen
    assert 'id="why"' not in reader.get("/jobs/orders-clean")


def test_a_job_has_the_jobs_and_topics_around_it(reader: User) -> None:
    """As boxes that are links, and as a table."""
    page = reader.get("/jobs/orders-joined/lineage")
    boxes = re.findall(r'<a class="node[^"]*" href="/jobs/([\w-]+)" aria-label="([^"]*)"', page)
    assert [job for job, _ in boxes] == [
        "orders-clean",
        "payments-enrich",
        "orders-joined",
        "fraud-scores",
        "inventory-sync",
        "search-index",
    ]
    assert dict(boxes)["payments-enrich"].startswith("payments-enrich, 1 upstream: crashing, lag ")
    seen = text_of(page)
    assert "payments-raw" in seen
    assert "postgres:default/inventory" in seen
    assert "/search/index/of/all/orders/by/day" in seen
    assert page.count('class="arrow') == 14
    near = reader.get("/jobs/orders-joined/lineage?depth=1")
    assert "search-index" not in near
    assert 'aria-current="true">1 job away' in near


def test_a_job_has_its_stages_figures_charts_and_tasks(reader: User) -> None:
    page = reader.get("/jobs/clicks-hourly")
    seen = text_of(page)
    assert "written revision 12, oncall by" in seen
    assert "4" in seen
    assert "SLO 90 s" in seen
    assert page.count("<polyline") >= 5
    assert "container-03" in seen
    assert "What to do:" in seen
    for span in ("15%20min", "6%20h", "24%20h", "7%20d"):
        assert f'?span={span}" aria-current="true"' in reader.get(f"/jobs/clicks-hourly?span={span}")


def test_the_error_of_a_task_is_escaped(reader: User) -> None:
    page = reader.get("/jobs/payments-enrich")
    assert "invalid literal for int()" in page
    assert "int(): 'n/a'" not in page


def test_the_configuration_shows_layers_with_who_and_why(reader: User) -> None:
    page = reader.get("/jobs/clicks-hourly/configuration")
    assert re.search(
        r"<code>slo.<wbr>max_<wbr>lag_<wbr>seconds</code>.*?<s [^>]*>120.*?class=\"counts\">\s*90", page, re.S
    )
    assert "the dashboard of the morning meeting needs it" in page
    assert "fields have their defaults" in page
    assert "<code>isolation</code>" in reader.get("/jobs/clicks-hourly/configuration?all=1")


def test_history_decisions_and_savepoints(reader: User) -> None:
    history = text_of(reader.get("/jobs/clicks-hourly/history"))
    assert "slo.max_lag_seconds 90" in history
    assert "“the dashboard of the morning meeting needs it”" in history
    decisions = text_of(reader.get("/jobs/clicks-hourly/decisions"))
    assert "horizontal because of lag" in decisions
    assert "task_count 4 → 6" in decisions
    assert "horizontal without a symptom" in decisions
    assert "4860" in decisions
    savepoints = text_of(reader.get("/jobs/clicks-hourly/savepoints"))
    assert "before-release ready" in savepoints
    assert "nightly asked container-01 copies the checkpoints; without a warm Spark host" in savepoints
    assert "the last attempt failed: no space left on device" in savepoints
    assert "There is no savepoint" in reader.get("/jobs/fraud-scores/savepoints")


@pytest.mark.parametrize("tab", ["", "/savepoints"])
def test_the_generations_of_a_job_are_a_table(reader: User, tab: str) -> None:
    page = text_of(reader.get(f"/jobs/clicks-hourly{tab}"))
    assert re.search(r"Generation Use Note 2 unused since \S+ min ago 3 in use", page)


def test_a_job_that_never_ran_has_pages_too(reader: User) -> None:
    for tab in ("", "/configuration", "/history", "/decisions", "/savepoints", "/change"):
        assert "brand-new" in reader.get(f"/jobs/brand-new{tab}")


def test_containers_are_a_heat_map_by_dimension(reader: User) -> None:
    page = reader.get("/containers")
    assert "container-03: 29 % full, live" not in page
    assert "container-03: 29 % full, open" in page
    assert 'class="tile shade-9 is-lost"' in page
    assert "container-03: 21 % full, open" in reader.get("/containers?dimension=memory_bytes")
    assert "container-03: load unknown, open" in reader.get("/containers?dimension=disk_bytes")
    assert "its tasks fail far more than elsewhere" in reader.get("/containers/container-09")


def test_a_container_has_its_tasks_the_worst_first(reader: User) -> None:
    """With their jobs, states and errors; a container without tasks says so."""
    page = reader.get("/containers/container-02")
    rows = re.findall(r'<tr><th scope="row"><a href="/jobs/([\w-]+)">([\w/-]+)</a></th>(.*?)</tr>', page, re.S)
    assert [(job, task) for job, task, _ in rows][:2] == [
        ("payments-enrich", "payments-enrich/2"),
        ("clicks-hourly", "clicks-hourly/2"),
    ]
    assert len(rows) == 8
    assert "crashed" in rows[0][2]
    assert "ValueError: invalid literal for int()" in page
    assert "running" in rows[1][2]
    assert "It reports no task" in reader.get("/containers/container-07")


def test_alerts_have_their_runbooks(reader: User) -> None:
    page = reader.get("/alerts")
    assert page.count('<h2 id="give-a-package-that-works">') == 1, "what rows of runbooks lead to"
    assert "<code>penstock rescale JOB 8</code> to more" in page
    assert "page, raised 12 min ago" in text_of(page)
    assert "ticket, raised 40 min ago" in text_of(page)
    assert "payments-enrich" in page
    assert "payments-enrich" not in reader.get("/alerts?kind=job_lagging").split("<h2")[1]


def test_an_empty_cell_says_so(user: User) -> None:
    page = text_of(user.get("/"))
    assert "There is no job yet" in page
    assert "No alert is open" in page
    assert "No container has registered" in text_of(user.get("/containers"))


def test_a_restore_is_told_as_one(service: RunningJobService, user: User) -> None:
    """On the pages of the job that show how far it is."""
    fill(service)
    with transaction(service.engine) as connection:
        connection.execute(text(_RESTORES))
    for tab in ("", "/savepoints"):
        assert "restoring not converged" in text_of(user.get(f"/jobs/orders-joined{tab}"))
    seen = text_of(user.get("/jobs/orders-joined"))
    assert re.search(
        r"written revision 1\d\d by bob .* planned restore of savepoint v1 committed still runs revision", seen
    )
    assert "stop → await stopped → commit" in seen


_RESTORES = """
    UPDATE jobs SET revision = revision + 100 WHERE name = 'orders-joined';
    INSERT INTO history (job, revision, action, author, at)
        SELECT name, revision, 'restore', 'bob', now() FROM jobs WHERE name = 'orders-joined';
    UPDATE sync_state SET state = 'rescaling', revision = revision + 100, step = 1, change_kind = 'rescale', plan =
        '{"kind": "rescale", "steps": ["stop", "await_stopped", "commit"], "step": "await_stopped",
            "restore": {"number": 1, "savepoint": {"job": "orders-joined", "name": "v1"}}}'
    WHERE job = 'orders-joined'
"""


def test_a_long_list_has_pages(service: RunningJobService, user: User) -> None:
    fill(service, further=60)
    first = user.get("/")
    target = re.search(r'href="(/\?after=[^"]+)" rel="next"', first)
    assert target is not None
    second = user.get(target[1].replace("&amp;", "&").partition("#")[0])
    assert 'href="/jobs/team-000060"' in second
    assert 'href="/jobs/team-000060"' not in first
    assert "First page" in second


@pytest.mark.parametrize(
    "path", ["/jobs/nothing", "/jobs/nothing/change", "/containers/nothing", "/jobs/A", "/nothing"]
)
def test_what_is_not_there_is_a_page_of_its_own(user: User, path: str) -> None:
    assert "There is nothing here" in user.get(path, 404)


def test_a_job_that_is_ill_without_a_cause_or_an_alert_says_where_to_look(
    service: RunningJobService, user: User
) -> None:
    fill(service)
    page = "/jobs/clicks-hourly"
    assert "No cause is known" not in user.get(page)
    execute(service, "DELETE FROM alerts WHERE subject = 'clicks-hourly'")
    assert "No cause is known: read the errors of the tasks below, and penstock logs" in text_of(user.get(page))
    assert "No cause is known" not in user.get("/jobs/orders-clean")
