"""What the files of deployment say of each process: its words, its environment, its health check."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from penstock.local.services import FIRST_TASK_MANAGER_PORT, PORTS
from tests.support.deploy import chart, units

_ROOT = Path(__file__).parents[3]
_PYTHON = ("python", "-m")
SECRETS = {"POSTGRES_PASSWORD": "some", "PENSTOCK_CONSOLE_KEY": "k" * 32}
"""What an operator writes into `.env`."""
_VARIABLE = re.compile(r"\$\{(\w+)(?::[-?][^}]*)?\}")


@dataclass(frozen=True, slots=True)
class Process:
    """One process. `service`: its module's name. `hosts`: by which others reach it, the first is its own.

    `folders`: what it may write, besides `/tmp`.
    """

    service: str
    hosts: tuple[str, ...]
    words: tuple[str, ...]
    environment: Mapping[str, str]
    health: tuple[str, ...]
    folders: frozenset[str]

    @property
    def is_task_manager(self) -> bool:
        """Whether its image has Java and Spark."""
        return self.service == "task_manager"


def compose() -> tuple[Process, ...]:
    """The processes of `docker-compose.yml`, with one Task Manager of two."""
    return tuple(each for name in (*PORTS, "task_manager_1") for each in [_composed(name)])


def composed(name: str) -> dict[str, Any]:
    """A service of `docker-compose.yml`, with `.env` filled in."""
    services = yaml.load((_ROOT / "docker-compose.yml").read_text(), yaml.CSafeLoader)["services"]
    return dict(_filled(services[name]))


def command_of(name: str) -> tuple[tuple[str, ...], dict[str, str]]:
    """The words and the environment of a service of `docker-compose.yml` that ends by itself."""
    found = composed(name)
    return (*found.get("entrypoint", _PYTHON), *found["command"]), {**image_environment(), **found["environment"]}


def _composed(name: str) -> Process:
    found = composed(name)
    mounted = [each for each in found["volumes"] if isinstance(each, str)]
    return Process(
        "task_manager" if name.startswith("task_manager") else name,
        (name,),
        (*_PYTHON, *found["command"]),
        {**image_environment(), **found["environment"]},
        tuple(found["healthcheck"]["test"][1:]),
        frozenset(each.partition(":")[2] for each in mounted),
    )


def _filled(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _filled(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_filled(each) for each in value]
    if isinstance(value, str):
        return _VARIABLE.sub(lambda found: SECRETS.get(found[1], ""), value).replace("$$", "$")
    return value


def image_environment() -> dict[str, str]:
    """What the Dockerfile sets for both images; PATH as the image has it."""
    [line] = [each for each in (_ROOT / "deploy" / "Dockerfile").read_text().splitlines() if each.startswith("ENV ")]
    found = dict(each.split("=", 1) for each in line.removeprefix("ENV ").split())
    return {**found, "PATH": found["PATH"].replace("$PATH", "/usr/local/bin:/usr/bin:/bin")}


def helm() -> tuple[Process, ...]:
    """The processes of the chart: of each service that is led, the first."""
    made = [each for each in chart.rendered() if each["kind"] in ("Deployment", "StatefulSet")]
    return tuple(each for found in made for each in _of_chart(found))


def _of_chart(found: Mapping[str, Any]) -> Iterator[Process]:
    name, spec = found["metadata"]["name"], found["spec"]["template"]["spec"]
    if name.endswith("-1"):
        return
    [container] = spec["containers"]
    service = container["args"][0].removeprefix("services.")
    pod = f"{name}-0"
    hosts = (f"{pod}.{name}", name) if service == "task_manager" else (name,)
    given = {each["name"]: _value(each, pod) for each in container["env"]}
    probe = container["readinessProbe"]["httpGet"]
    url = f"{probe['scheme'].lower()}://127.0.0.1:{container['ports'][0]['containerPort']}{probe['path']}"
    yield Process(
        service,
        hosts,
        (*_PYTHON, *container["args"]),
        {**image_environment(), **{key: _expanded(value, given) for key, value in given.items()}},
        (*_PYTHON, "penstock.wire.probe", url),
        frozenset(each["mountPath"] for each in container["volumeMounts"] if "readOnly" not in each) - {"/tmp"},
    )


def _value(variable: Mapping[str, Any], pod: str) -> str:
    """Its value; what a Secret or the limits would give is the test's to say."""
    source = variable.get("valueFrom", {})
    if "fieldRef" in source:
        return pod
    if "resourceFieldRef" in source:
        return {"limits.cpu": "2", "limits.memory": str(8 * 2**30)}[source["resourceFieldRef"]["resource"]]
    if "secretKeyRef" in source:
        return {"PENSTOCK_CONNECTIONS": "{}", "PENSTOCK_CONSOLE_KEY": "k" * 32}.get(variable["name"], "")
    return str(variable["value"])


def _expanded(value: str, given: Mapping[str, str]) -> str:
    return re.sub(r"\$\((\w+)\)", lambda found: given[found[1]], value)


def systemd() -> tuple[Process, ...]:
    """The processes of the units: all services on the machine m1, a Task Manager on m2."""
    return tuple(_of_unit(service) for service in (*PORTS, "task_manager"))


def _of_unit(service: str) -> Process:
    said = units.words(service)
    port = PORTS.get(service, FIRST_TASK_MANAGER_PORT)
    folders = [f"/var/lib/{said['StateDirectory'][0]}", *(each.removeprefix("-") for each in said["ReadWritePaths"])]
    return Process(
        service,
        ("m2" if service == "task_manager" else "m1",),
        tuple(said["ExecStart"][0].split()),
        units.environment(service),
        ("/opt/penstock/.venv/bin/python", "-m", "penstock.wire.probe", f"https://127.0.0.1:{port}/readyz"),
        frozenset(folders),
    )
