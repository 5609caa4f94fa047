"""`docker-compose.yml` tells each process what `penstock up` tells it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.local.services import (
    FIRST_TASK_MANAGER_PORT,
    ONLY_FOR,
    StackPlan,
    path_roots,
    process_specs,
    standard_ports,
)

_FILE = Path(__file__).parents[3] / "docker-compose.yml"
_OTHERWISE = {"PENSTOCK_PORT", "PENSTOCK_CONNECTIONS", "PENSTOCK_URL"}
"""Ports and the address for commands are the usual ones there, and connections are the operator's to add."""
_PLAN = StackPlan(Path("/data"), "postgresql://db/x", "kafka:9092", {}, standard_ports(2), {})


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    return dict(yaml.safe_load(_FILE.read_text()))


@pytest.fixture(scope="module")
def services(described: dict[str, Any]) -> dict[str, Any]:
    return dict(described["services"])


@pytest.fixture(scope="module")
def environments(services: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: service.get("environment", {}) for name, service in services.items()}


def test_each_process_has_the_settings_of_a_local_one(environments: dict[str, dict[str, Any]]) -> None:
    for spec in process_specs(_PLAN):
        assert spec.env.keys() - _OTHERWISE <= environments[spec.name].keys(), spec.name


def test_the_job_service_and_the_hosts_have_the_same_path_roots(environments: dict[str, dict[str, Any]]) -> None:
    for spec in process_specs(_PLAN):
        if spec.name == "console":
            continue
        assert json.loads(environments[spec.name]["PENSTOCK_PATH_ROOTS"]) == path_roots(_PLAN)


def test_the_console_has_no_access_to_the_store(environments: dict[str, dict[str, Any]]) -> None:
    assert environments["console"].keys() == {
        *("PENSTOCK_JOB_SERVICE_URL", "PENSTOCK_CONSOLE_KEY", "PENSTOCK_DATA_DIR", "PENSTOCK_IDENTITY_DIR")
    }


def test_each_token_is_its_services_own(environments: dict[str, dict[str, Any]]) -> None:
    for variable in ("PENSTOCK_SCALER_TOKEN", "PENSTOCK_STATE_SYNCER_TOKEN"):
        assert [name for name, env in environments.items() if variable in env] == [ONLY_FOR[variable]]


def test_each_process_whose_address_others_find_in_the_store_says_which_it_is(
    environments: dict[str, dict[str, Any]],
) -> None:
    """They listen on all addresses of their container. `penstock status` asks the leaders, by what their leases say."""
    ports = {"state_syncer": 7071, "shard_manager": 7073, "auto_scaler": 7074, "task_manager_1": 7100}
    for name, port in ports.items():
        assert environments[name]["PENSTOCK_PUBLIC_URL"] == f"https://{name}:{port}"


def test_each_process_runs_its_module_and_is_asked_whether_it_is_ready(services: dict[str, Any]) -> None:
    for spec in process_specs(_PLAN):
        service = services[spec.name]
        *_, module = spec.command
        assert service["command"] == [module]
        port = min(_PLAN.ports[spec.name], FIRST_TASK_MANAGER_PORT)
        url = f"https://127.0.0.1:{port}/readyz"
        assert service["healthcheck"]["test"] == ["CMD", "python", "-m", "penstock.wire.probe", url]


def test_each_container_has_limits_and_a_health_check(services: dict[str, Any]) -> None:
    """`migrate` and `identity` end by themselves."""
    for name, service in services.items():
        assert service["deploy"]["resources"]["limits"].keys() == {"cpus", "memory", "pids"}, name
        assert "healthcheck" in service or service["restart"] == "no", name


def test_no_container_of_penstock_has_rights_or_a_root_that_it_can_write(services: dict[str, Any]) -> None:
    for name, service in services.items():
        if service["image"].startswith("penstock"):
            assert service["read_only"] is True, name
            assert service["cap_drop"] == ["ALL"], name
            assert service["security_opt"] == ["no-new-privileges:true"], name
            assert "user" not in service, f"{name}: the image has its account"


def test_only_task_managers_have_the_image_with_java(services: dict[str, Any]) -> None:
    for name, service in services.items():
        if "build" in service:
            target = "task_manager" if name.startswith("task_manager") else "services"
            assert service["build"]["target"] == target
            assert service["image"] == {"services": "penstock", "task_manager": "penstock-task-manager"}[target]


def test_what_is_placed_on_a_container_fits_into_its_limits(services: dict[str, Any]) -> None:
    for name in ("task_manager_1", "task_manager_2"):
        limits, environment = services[name]["deploy"]["resources"]["limits"], services[name]["environment"]
        assert float(environment["PENSTOCK_CPU_CORES"]) == float(limits["cpus"])
        assert int(environment["PENSTOCK_MEMORY_BYTES"]) < int(limits["memory"].removesuffix("G")) * 2**30


def test_prometheus_scrapes_every_process_and_grafana_reads_it(services: dict[str, Any]) -> None:
    folder = _FILE.parent / "deploy" / "prometheus"
    [scraped] = yaml.safe_load((folder / "compose.yml").read_text())["scrape_configs"]
    targets = {target for group in scraped["static_configs"] for target in group["targets"]}
    ports = {spec.name: min(_PLAN.ports[spec.name], FIRST_TASK_MANAGER_PORT) for spec in process_specs(_PLAN)}
    assert targets == {f"{name}:{port}" for name, port in ports.items()}
    assert services["grafana"]["environment"]["PROMETHEUS_URL"] == "http://prometheus:9090"
    mounted = [volume.split(":") for name in ("prometheus", "grafana") for volume in services[name]["volumes"][:2]]
    assert all((_FILE.parent / source).exists() for source, *_ in mounted if source.startswith("."))


def test_each_volume_is_used_and_a_cache_by_one_container(described: dict[str, Any]) -> None:
    mounted = [
        (_source(volume), name) for name, it in described["services"].items() for volume in it.get("volumes", ())
    ]
    assert {source for source, _ in mounted if source[0] != "."} == described["volumes"].keys()
    for index in (1, 2):
        assert [name for source, name in mounted if source == f"cache_{index}"] == [f"task_manager_{index}"]


def _source(volume: str | dict[str, Any]) -> str:
    return volume.partition(":")[0] if isinstance(volume, str) else volume["source"]
