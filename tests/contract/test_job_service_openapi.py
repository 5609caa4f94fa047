"""The Job Service against its own OpenAPI document: whatever is sent, no 5xx, and answers as documented."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from sqlalchemy import text

from penstock.control.clock import SystemClock
from penstock.store import leases
from penstock.store.engine import transaction
from services.auto_scaler.api import build_app
from services.auto_scaler.decide.policy import Policy
from services.auto_scaler.replays import Replays
from services.auto_scaler.store.decisions import AUTO_SCALER
from services.auto_scaler.store.port import ScalingStore
from services.job_service.events import stream
from tests.support import identity
from tests.support.control.serving import serving
from tests.support.job_service.service import CONFIG, RunningJobService, job_service

if TYPE_CHECKING:
    from schemathesis import BaseSchema, Case

FEW, MANY = 1, pytest.param(10, marks=pytest.mark.long)
"""Examples of each call."""
BOUNDED = settings(
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
KNOWN = {"job": "etl", "container": "c0", "layer": "oncall", "savepoint": "nightly", "alert": 1, "silence": 1}


@pytest.fixture
def service(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningJobService]:
    """With a job that has everything that a job can have, so that answers are not empty. A stream of events ends."""
    monkeypatch.setattr(stream, "LONGEST_SECONDS", 0.05)
    with job_service(database_url) as running:
        replays = Replays(ScalingStore(running.engine), SystemClock().now, Policy())
        scaler = build_app(replays, ready=dict, identity=identity.identity("auto_scaler"))
        with serving(scaler) as url:
            _fill(running)
            with transaction(running.engine) as connection:
                leases.take(connection, AUTO_SCALER, "test", url=url, seconds=600.0)
            yield running


@pytest.fixture
def document(service: RunningJobService) -> BaseSchema:
    """Schemathesis is imported only where it is used: each process of `make test` would need 0.6 s for it."""
    found: BaseSchema = import_module("schemathesis").openapi.from_url(f"{service.url}/openapi.json")
    return found


@pytest.mark.long
@pytest.mark.parametrize("examples", [1, 10])
def test_any_call_is_answered_as_documented(document: BaseSchema, service: RunningJobService, examples: int) -> None:
    answers = _try_all(document, service, examples, known=False)
    assert answers.keys() == _labels(document)
    assert answers.total() >= examples * len(answers) / 2


@pytest.mark.parametrize("examples", [FEW, MANY])
@pytest.mark.parametrize(
    "mode",
    [pytest.param("POSITIVE", id="as asked"), pytest.param("NEGATIVE", id="not as asked", marks=pytest.mark.long)],
)
def test_any_call_about_a_known_job_is_answered_as_documented(
    document: BaseSchema, service: RunningJobService, mode: str, examples: int
) -> None:
    """The same with names that exist and with the version that the layer has, so that calls get far; and the same
    with what the document forbids."""
    calls = document.include(path_regex="^/v1/").exclude(method="DELETE", path="/v1/jobs/{job}")
    answers = _try_all(calls, service, examples, known=True, mode=mode)
    assert answers.keys() == _labels(calls)
    assert answers.total() >= examples * len(answers) / 2


def test_the_document_names_the_calls_of_the_design(document: BaseSchema) -> None:
    calls = {f"{found.ok().method.upper()} {found.ok().path}" for found in document.get_all_operations()}
    one_job = "/v1/jobs/{job}"
    assert calls >= {
        *(f"{method} {one_job}" for method in ("PUT", "GET", "DELETE")),
        *(f"{method} {one_job}/layers/{{layer}}" for method in ("GET", "PUT", "PATCH", "DELETE")),
        f"POST {one_job}/layers/{{layer}}/revert",
        *(
            f"GET {one_job}/{what}"
            for what in ("explain", "history", "tasks", "sync", "decisions", "metrics", "lineage")
        ),
        f"POST {one_job}/replays",
        *(f"POST {one_job}/{what}" for what in ("plans", "rebalance", "release", "rescale", "restart", "restore")),
        f"GET {one_job}/rebalance",
        f"POST {one_job}/tasks/{{index}}/move",
        f"GET {one_job}/tasks/{{index}}/log",
        "GET /v1/fleet/metrics",
        f"DELETE {one_job}/restore",
        f"GET {one_job}/rollout",
        *(f"POST {one_job}/rollout/{what}" for what in ("pause", "resume", "abort")),
        *(f"GET /v1/{what}" for what in ("jobs", "containers", "shards", "alerts", "fields", "layers", "tokens")),
        *(f"GET /v1/{what}" for what in ("leaders", "history", "silences", "caller", "fleet", "changes", "events")),
        *(f"POST /v1/{what}" for what in ("batches", "layers", "tokens", "silences")),
        "GET /v1/containers/{container}",
        *(f"POST /v1/containers/{{container}}/{verb}" for verb in ("cordon", "drain", "uncordon")),
        "DELETE /v1/tokens/{name}",
        "POST /v1/tokens/{name}/rotate",
        "DELETE /v1/containers/{container}",
        *(f"{method} /v1/layers/{{layer}}" for method in ("PUT", "DELETE")),
        *(f"{method} /v1/alerts/{{alert}}/acknowledgement" for method in ("POST", "DELETE")),
        "DELETE /v1/silences/{silence}",
        *(f"{method} {one_job}/{what}" for what in ("savepoints", "profiles") for method in ("POST", "GET")),
        f"GET {one_job}/profiles/{{profile}}",
        *(f"{method} {one_job}/savepoints/{{savepoint}}" for method in ("GET", "DELETE")),
    }


def _labels(document: BaseSchema) -> set[str]:
    return {found.ok().label for found in document.get_all_operations()}


def _try_all(
    document: BaseSchema, service: RunningJobService, examples: int, *, known: bool, mode: str = "POSITIVE"
) -> Counter[str]:
    """Sends what hypothesis makes of every call of the document; how many answers of each call were checked."""
    generation, checks = import_module("schemathesis.generation").GenerationMode[mode], _checks()
    headers = {"Authorization": f"Bearer {service.admin}"}
    answers: Counter[str] = Counter()

    for found in document.get_all_operations():

        @settings(BOUNDED, max_examples=examples)
        @given(case=found.ok().as_strategy(generation_mode=generation))
        def try_one(case: Any) -> None:
            if known:
                _make_known(case, service)
            case.call_and_validate(headers=headers, checks=checks)
            answers[case.operation.label] += 1

        try_one()
    return answers


def _checks() -> list[Any]:
    documented = import_module("schemathesis.specs.openapi.checks")
    names = ("status_code_conformance", "content_type_conformance", "response_schema_conformance")
    anywhere = import_module("schemathesis.checks").not_a_server_error
    return [anywhere, *(getattr(documented, name) for name in names)]


def _make_known(case: Case, service: RunningJobService) -> None:
    for name in KNOWN.keys() & case.path_parameters.keys():
        case.path_parameters[name] = KNOWN[name]
    if "layer" in case.path_parameters and case.headers.get("If-Match"):
        with service.client() as client:
            case.headers["If-Match"] = f'"{client.get_layer(KNOWN["job"], KNOWN["layer"]).version}"'


def _fill(service: RunningJobService) -> None:
    with service.client() as client:
        client.put_job("etl", CONFIG)
        client.put_layer("etl", "oncall", {"priority": 1}, if_match=0)
    with transaction(service.engine) as connection:
        connection.execute(
            text(
                """
                INSERT INTO running (job, config, revision, generation, restarts, commit_number, leader_epoch)
                    VALUES ('etl', '{"task_count": 1}', 1, 1, 0, 1, 1);
                INSERT INTO sync_state (job, state, revision, plan, step) VALUES ('etl', 'rescaling', 2,
                    '{"steps": ["stop", "seal"], "step": "seal"}', 1);
                INSERT INTO containers (name, incarnation, url, region, cpu_cores, memory_bytes, disk_bytes, state)
                    VALUES ('c0', 'i', 'http://c0', 'here', 2, 1, 1, 'live');
                UPDATE containers SET placement = '{"at": "2026-01-02T03:04:05+00:00", "load": {"cpu_cores": 0.5},
                    "usable": {"cpu_cores": 1.8}, "deviation": {"cpu_cores": 0.0}}';
                INSERT INTO assignment (shard, container, epoch) SELECT n, 'c0', 1 FROM generate_series(0, 1023) AS n;
                INSERT INTO tasks (job, index, container, state, revision, generation, restarts, epoch, progress)
                    VALUES ('etl', 0, 'c0', 'running', 1, 1, 0, 1, '{"batch_id": 1,
                        "key_group_rates": {"first": 0, "records_per_second": [9, 5, 5, 1, 1, 1, 1, 1],
                            "seconds": 600}}');
                INSERT INTO reports (container, incarnation, commit_number, version) VALUES ('c0', 'i', 1, 1);
                INSERT INTO task_crashes (job, index, crashed_at, newest_at, revision, error)
                    VALUES ('etl', 0, ARRAY[now()], now(), 1, 'ValueError: 3 is no delay');
                INSERT INTO task_loads (job, index, generation, load) VALUES ('etl', 0, 1, '{"cpu_cores": 0.5}');
                INSERT INTO task_metrics (job, index, minute, backlog_records) VALUES ('etl', 0, now(), 5);
                INSERT INTO decisions (job, symptom, action, inputs, outcome, leader_epoch)
                    VALUES ('etl', 'lag', 'none', '{}', 'kept', 1);
                INSERT INTO savepoints (job, name, state, generation, revision, config, tasks, bytes, author)
                    VALUES ('etl', 'nightly', 'ready', 1, 1, '{"task_count": 1}',
                        '[{"index": 0, "batch": 1, "taken_from": null, "why": null}]', 10, 'me');
                INSERT INTO generations (job, generation, unused_since) VALUES ('etl', 1, now()), ('etl', 2, NULL);
                INSERT INTO alerts (kind, subject, message) VALUES ('lag', 'etl', 'it lags');
                INSERT INTO silences (kind, subject, subject_like, author, reason, expires_at)
                    VALUES ('job_lagging', 'a*', 'a%', 'ann', 'release', now() + interval '1 day');
                INSERT INTO leases (name, holder, epoch, url, expires_at)
                    VALUES ('a', 'h', 1, 'http://a', now()), ('b', 'h', 1, 'http://b', '-infinity');
                """
            )
        )
