"""`docker-compose.yml` tells each process what `penstock up` tells it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.local.services import ONLY_FOR, StackPlan, path_roots, process_specs, standard_ports

_FILE = Path(__file__).parents[3] / "docker-compose.yml"
_OTHERWISE = {"PENSTOCK_PORT", "PENSTOCK_CONNECTIONS", "PENSTOCK_URL"}
"""Ports and the address for commands are the usual ones there, and connections are the operator's to add."""
_PLAN = StackPlan(Path("/data"), "postgresql://db/x", "kafka:9092", {}, standard_ports(2), {})


@pytest.fixture(scope="module")
def environments() -> dict[str, dict[str, Any]]:
    services = yaml.safe_load(_FILE.read_text())["services"]
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
