"""What the files of deployment say of each process: its words, its environment, its health check."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
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
SECURED = {
    **SECRETS,
    "PENSTOCK_FILES": "/etc/penstock/files",
    "PENSTOCK_KAFKA_BOOTSTRAP": "kafka-1:9093",
    "PENSTOCK_KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
    "PENSTOCK_KAFKA_SASL_MECHANISM": "SCRAM-SHA-512",
    "PENSTOCK_KAFKA_SASL_USERNAME": "penstock",
    "PENSTOCK_KAFKA_SASL_PASSWORD_FILE": "/files/password",
    "PENSTOCK_KAFKA_SSL_CA": "/files/ca.crt",
    "PENSTOCK_SCHEMA_REGISTRY_URL": "https://registry:8081",
    "PENSTOCK_SCHEMA_REGISTRY_USERNAME": "penstock",
    "PENSTOCK_SCHEMA_REGISTRY_PASSWORD_FILE": "/files/registry",
    "PENSTOCK_CHECKPOINT_ROOT": "s3a://penstock/checkpoints",
    "PENSTOCK_PATH_ROOTS": '["s3a://penstock/tables"]',
    "AWS_ACCESS_KEY_ID": "key",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_REGION": "eu-central-1",
}
"""The same with a secured Kafka, a registry and S3."""
_OF_FILES = frozenset(
    f"PENSTOCK_{name}"
    for name in (
        "KAFKA_SASL_PASSWORD_FILE",
        "KAFKA_SSL_CA",
        "KAFKA_SSL_CERTIFICATE",
        "KAFKA_SSL_KEY",
        "SCHEMA_REGISTRY_PASSWORD_FILE",
    )
)
_OVERRIDES = ("files", "s3")
_VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")


@dataclass(frozen=True, slots=True)
class Process:
    """One process. `service`: its module's name. `hosts`: by which others reach it, the first is its own.

    `folders`: what it may write, besides `/tmp`. `alive`: what asks whether it has to be started again, if anything.
    """

    service: str
    hosts: tuple[str, ...]
    words: tuple[str, ...]
    environment: Mapping[str, str]
    health: tuple[str, ...]
    folders: frozenset[str]
    alive: tuple[str, ...] = ()

    @property
    def files(self) -> dict[str, str]:
        """The variables that name files with secrets and certificates, and the paths."""
        return {name: path for name, path in self.environment.items() if name in _OF_FILES and path}

    @property
    def is_task_manager(self) -> bool:
        """Whether its image has Java and Spark."""
        return self.service == "task_manager"


def compose() -> tuple[Process, ...]:
    """The processes of `docker-compose.yml`, with one Task Manager of two."""
    return tuple(_composed(name, composed(name)) for name in (*PORTS, "task_manager_1"))


def compose_secured() -> tuple[Process, ...]:
    """The same with the files of `deploy/compose` on top."""
    return tuple(_composed(name, overridden(name)) for name in (*PORTS, "task_manager_1"))


def composed(name: str, given: Mapping[str, str] = SECRETS) -> dict[str, Any]:
    """A service of `docker-compose.yml`, with `.env` filled in."""
    return _service(_ROOT / "docker-compose.yml", name, given)


def overridden(name: str, given: Mapping[str, str] = SECURED) -> dict[str, Any]:
    """A service as Compose merges it with all files of `deploy/compose`."""
    found = composed(name, given)
    for each in _OVERRIDES:
        found = _merged(found, _service(_ROOT / "deploy" / "compose" / f"{each}.yml", name, given))
    return found


def command_of(name: str) -> tuple[tuple[str, ...], dict[str, str]]:
    """The words and the environment of a service of `docker-compose.yml` that ends by itself."""
    found = composed(name)
    return (*found.get("entrypoint", _PYTHON), *found["command"]), {**image_environment(), **found["environment"]}


def _service(file: Path, name: str, given: Mapping[str, str]) -> dict[str, Any]:
    services = yaml.load(file.read_text(), yaml.CSafeLoader)["services"]
    return dict(_filled(services.get(name, {}), given))


def _merged(lower: Any, upper: Any) -> Any:
    """As Compose does: maps are joined, lists follow each other, else the upper value counts."""
    if isinstance(lower, dict) and isinstance(upper, dict):
        return {key: _merged(lower.get(key), upper.get(key)) for key in {**lower, **upper}}
    if isinstance(lower, list) and isinstance(upper, list):
        return [*lower, *upper]
    return lower if upper is None else upper


def _composed(name: str, found: Mapping[str, Any]) -> Process:
    mounted = [each for each in found.get("volumes", ()) if isinstance(each, str) and not each.endswith(":ro")]
    return Process(
        "task_manager" if name.startswith("task_manager") else name,
        (name,),
        (*_PYTHON, *found["command"]),
        {**image_environment(), **found["environment"]},
        tuple(found["healthcheck"]["test"][1:]),
        frozenset(each.partition(":")[2] for each in mounted),
    )


def _filled(value: Any, given: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _filled(each, given) for key, each in value.items()}
    if isinstance(value, list):
        return [_filled(each, given) for each in value]
    if isinstance(value, str):
        return _VARIABLE.sub(lambda found: _of_variable(found, given), value).replace("$$", "$")
    return value


def _of_variable(found: re.Match[str], given: Mapping[str, str]) -> str:
    """With `:?` Compose stops where it is not set, with `:-` it takes what follows."""
    name, way, words = found.groups()
    if way == "?":
        return given[name]
    return given.get(name) or (words if way == "-" else "")


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
    ready, alive = (_probe(container, name) for name in ("readinessProbe", "livenessProbe"))
    yield Process(
        service,
        hosts,
        (*_PYTHON, *container["args"]),
        {**image_environment(), **{key: _expanded(value, given) for key, value in given.items()}},
        ready,
        frozenset(each["mountPath"] for each in container["volumeMounts"] if "readOnly" not in each) - {"/tmp"},
        alive,
    )


def _probe(container: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """What asks as the kubelet does."""
    asked = container[name]["httpGet"]
    url = f"{asked['scheme'].lower()}://127.0.0.1:{container['ports'][0]['containerPort']}{asked['path']}"
    return (*_PYTHON, "penstock.wire.probe", url)


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
    return tuple(_of_unit(service, ()) for service in (*PORTS, "task_manager"))


def systemd_secured() -> tuple[Process, ...]:
    """The same with the drop-ins of `options`."""
    return tuple(_of_unit(service, units.OPTIONS.get(service, ())) for service in (*PORTS, "task_manager"))


def _of_unit(service: str, options: Sequence[str]) -> Process:
    said = units.words(service)
    port = PORTS.get(service, FIRST_TASK_MANAGER_PORT)
    folders = [f"/var/lib/{said['StateDirectory'][0]}", *(each.removeprefix("-") for each in said["ReadWritePaths"])]
    return Process(
        service,
        ("m2" if service == "task_manager" else "m1",),
        tuple(said["ExecStart"][0].split()),
        units.environment(service, options),
        ("/opt/penstock/.venv/bin/python", "-m", "penstock.wire.probe", f"https://127.0.0.1:{port}/readyz"),
        frozenset(folders),
    )
