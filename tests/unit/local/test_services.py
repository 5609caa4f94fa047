"""Which processes there are and what each is told; and how long a broken one is left alone."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock.control.errors import Conflict
from penstock.local.ports import free_port
from penstock.local.services import (
    MOST_TASK_MANAGERS,
    StackPlan,
    kafka_port,
    process_specs,
    standard_ports,
    task_manager_name,
)
from penstock.local.stack import LocalStack
from penstock.local.supervisor import pause_seconds

SERVICES = ("job_service", "state_syncer", "task_service", "shard_manager", "auto_scaler", "console")
MANAGERS = ("task_manager_1", "task_manager_2")


def make_plan(**changes: Any) -> StackPlan:
    facts: dict[str, Any] = {
        "data_dir": Path("/data"),
        "database_url": "postgresql://127.0.0.1/penstock",
        "kafka_bootstrap": "127.0.0.1:19092",
        "connections": {"default": "postgresql://127.0.0.1/outputs"},
        "ports": standard_ports(2),
        "environment": {"PATH": "/bin", "PENSTOCK_PORT": "1", "PENSTOCK_LOG_LEVEL": "DEBUG"},
    }
    return StackPlan(**facts | changes)


@pytest.mark.parametrize(
    ("quick_ends", "seconds"), [(0, 0.25), (1, 0.5), (2, 1.0), (3, 2.0), (4, 4.0), (5, 8.0), (6, 10.0), (10_000, 10.0)]
)
def test_a_process_that_ends_quickly_waits_twice_as_long_each_time(quick_ends: int, seconds: float) -> None:
    assert pause_seconds(quick_ends) == seconds


def test_the_ports_are_those_of_the_design() -> None:
    ports = (7070, 7071, 7072, 7073, 7074, 7077)
    expected = dict(zip(SERVICES, ports, strict=True)) | {"task_manager_1": 7100, "task_manager_2": 7101}
    assert standard_ports(2) == expected
    assert standard_ports(2, console=False) == {name: port for name, port in expected.items() if name != "console"}


def test_another_base_moves_all_ports_and_kafka_comes_near() -> None:
    usual, moved = standard_ports(MOST_TASK_MANAGERS), standard_ports(MOST_TASK_MANAGERS, 8070)
    assert {name: port + 1000 for name, port in usual.items()} == moved
    assert (kafka_port(), kafka_port(8070)) == (19092, 8090)
    every = [*usual.values(), kafka_port(), *moved.values(), kafka_port(8070)]
    assert len(every) == len(set(every))


def test_a_stack_beside_another_one_on_its_ports_is_refused_before_anything_starts(tmp_path: Path) -> None:
    base = free_port()
    with socket.create_server(("127.0.0.1", base)), pytest.raises(Conflict, match="--port-base 8070 --data-dir"):
        LocalStack(tmp_path / "data", port_base=base).start()
    assert not (tmp_path / "data").exists()


def test_services_start_first_then_task_managers() -> None:
    specs = process_specs(make_plan())
    assert tuple(spec.name for spec in specs) == SERVICES + MANAGERS
    modules = {spec.name: spec.command for spec in specs}
    assert modules["state_syncer"] == (sys.executable, "-m", "services.state_syncer")
    assert modules["task_manager_1"] == modules["task_manager_2"] == (sys.executable, "-m", "services.task_manager")


def test_each_process_has_its_own_port_and_readiness() -> None:
    plan = make_plan(ports={name: 9000 + number for number, name in enumerate(standard_ports(2))})
    for spec in process_specs(plan):
        assert spec.env["PENSTOCK_PORT"] == str(plan.ports[spec.name])
        assert spec.ready_url == f"http://127.0.0.1:{plan.ports[spec.name]}/readyz"
        assert spec.env["PENSTOCK_JOB_SERVICE_URL"] == "http://127.0.0.1:9000"
        if spec.name != "console":
            assert spec.env["PENSTOCK_URL"] == "http://127.0.0.1:9000"
            assert spec.env["PENSTOCK_TASK_SERVICE_URL"] == plan.url("task_service")
            assert spec.env["PENSTOCK_SHARD_MANAGER_URL"] == plan.url("shard_manager")


def test_the_console_is_told_of_the_job_service_and_of_no_other_server() -> None:
    given = {"PENSTOCK_CONSOLE_KEY": "k", "PATH": "/bin"} | dict.fromkeys(
        ("PENSTOCK_DATABASE_URL", "PENSTOCK_DATABASE_LISTEN_URL", "PENSTOCK_SPARK_CONF", "PENSTOCK_SECRETS_ROOT"), "x"
    )
    envs = {spec.name: spec.env for spec in process_specs(make_plan(environment=given))}
    assert envs["console"].keys() == {*("PENSTOCK_JOB_SERVICE_URL", "PENSTOCK_PORT", "PENSTOCK_CONSOLE_KEY", "PATH")}
    assert [name for name, env in envs.items() if "PENSTOCK_CONSOLE_KEY" in env] == ["console"]


def test_all_others_are_told_of_the_same_servers_and_folders_and_keep_the_rest_of_the_environment() -> None:
    for spec in process_specs(make_plan(ports=standard_ports(2, console=False))):
        assert spec.env["PENSTOCK_DATABASE_URL"] == "postgresql://127.0.0.1/penstock"
        asks = spec.name == "job_service" or spec.name.startswith("task_manager")
        assert spec.env.get("PENSTOCK_KAFKA_BOOTSTRAP") == ("127.0.0.1:19092" if asks else None)
        assert spec.env["PENSTOCK_CHECKPOINT_ROOT"] == "/data/checkpoints"
        assert spec.env["PENSTOCK_PACKAGES_ROOT"] == "/data/packages"
        assert (spec.env["PATH"], spec.env["PENSTOCK_LOG_LEVEL"]) == ("/bin", "DEBUG")


def test_secrets_go_to_the_one_service_that_needs_them() -> None:
    secret = {"PENSTOCK_SCALER_TOKEN": "s", "PENSTOCK_STATE_SYNCER_TOKEN": "y", "PENSTOCK_SECRETS_ROOT": "/secrets"}
    secret |= {"PENSTOCK_NOTIFY_TARGETS": "[]"}
    envs = {spec.name: spec.env for spec in process_specs(make_plan(environment=secret))}
    assert [name for name, env in envs.items() if "PENSTOCK_SCALER_TOKEN" in env] == ["auto_scaler"]
    assert [name for name, env in envs.items() if "PENSTOCK_STATE_SYNCER_TOKEN" in env] == ["state_syncer"]
    assert [name for name, env in envs.items() if "PENSTOCK_NOTIFY_TARGETS" in env] == ["job_service"]
    for name, env in envs.items():
        assert ("PENSTOCK_SECRETS_ROOT" in env) == (name in MANAGERS)
        found = json.loads(env.get("PENSTOCK_CONNECTIONS", "{}"))
        assert found == ({"default": "postgresql://127.0.0.1/outputs"} if name in MANAGERS else {})


def test_paths_of_jobs_are_below_folders_of_the_stack_and_what_the_user_adds() -> None:
    (roots,) = {
        spec.env["PENSTOCK_PATH_ROOTS"]
        for spec in process_specs(make_plan(environment={"PENSTOCK_PATH_ROOTS": '["/t"]'}))
        if spec.name != "console"
    }
    assert json.loads(roots) == ["/data/outputs", "/data/demo", "/t"]


def test_only_task_managers_are_containers() -> None:
    containers = {spec.name: spec.env.get("PENSTOCK_CONTAINER") for spec in process_specs(make_plan())}
    assert containers == dict.fromkeys(SERVICES) | {name: name for name in MANAGERS}
    assert task_manager_name(1) == "task_manager_1"
