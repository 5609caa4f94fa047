"""The systemd units say what the processes know, and give them few rights."""

from __future__ import annotations

import pytest

from penstock.local.services import ONLY_FOR, PORTS
from tests.support.deploy.settings import known, needed
from tests.support.deploy.units import FOLDER, environment, unit_of, words

_SERVICES = [*PORTS, "task_manager"]
_NOT_OF_PENSTOCK = {"PYTHONDONTWRITEBYTECODE"}


def test_there_is_a_unit_for_each_service() -> None:
    assert sorted(FOLDER.glob("*.service")) == sorted(map(unit_of, _SERVICES))


@pytest.mark.parametrize("service", _SERVICES)
def test_a_unit_runs_its_service_with_settings_that_it_knows(service: str) -> None:
    said, found = words(service), environment(service)
    assert said["ExecStart"] == [f"/opt/penstock/.venv/bin/python -m services.{service}"]
    everybodys = {line.partition("=")[0] for line in (FOLDER / "environment" / "cell.env").read_text().splitlines()}
    assert found.keys() - everybodys <= known(service) | _NOT_OF_PENSTOCK
    assert found.keys() >= needed(service) | {"PENSTOCK_HOST", "PENSTOCK_IDENTITY_DIR", "PENSTOCK_DATA_DIR"}


@pytest.mark.parametrize("service", _SERVICES)
def test_a_unit_writes_to_its_own_state_alone(service: str) -> None:
    said = words(service)
    for name, value in (("NoNewPrivileges", "yes"), ("ProtectSystem", "strict"), ("CapabilityBoundingSet", "")):
        assert said[name] == [value]
    assert environment(service)["PENSTOCK_DATA_DIR"] == f"/var/lib/{said['StateDirectory'][0]}"
    assert said["EnvironmentFile"] == [f"/etc/penstock/{service}.env", "/etc/penstock/cell.env"]


def test_the_code_of_jobs_has_an_account_of_its_own() -> None:
    accounts = {service: words(service)["User"] for service in _SERVICES}
    assert accounts.pop("task_manager") == ["penstock-tasks"]
    assert set(map(tuple, accounts.values())) == {("penstock",)}


def test_each_token_is_its_services_own() -> None:
    for variable in ("PENSTOCK_SCALER_TOKEN", "PENSTOCK_STATE_SYNCER_TOKEN", "PENSTOCK_CONSOLE_KEY"):
        assert [each for each in _SERVICES if variable in environment(each)] == [ONLY_FOR[variable]]


def test_each_process_has_the_url_of_its_role_in_the_store() -> None:
    urls = {each: environment(each).get("PENSTOCK_DATABASE_URL", "") for each in _SERVICES}
    assert urls.pop("task_manager").startswith("postgresql://penstock_task_manager:")
    assert urls.pop("console") == ""
    assert all(url.startswith("postgresql://penstock_service:") for url in urls.values())
