"""The Helm chart: what it makes, against what the code has. `make chart` renders it by helm itself."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema_rs
import pytest
import yaml

from penstock.identity.roles import Role
from penstock.identity.rules import OPEN, RULES
from penstock.local.services import FIRST_TASK_MANAGER_PORT, PORTS
from tests.support.deploy.chart import CHART, RENDERED, digest, rendered
from tests.support.deploy.settings import known, needed

_CHART_NAME, _CELL = "app.kubernetes.io/name", "app.kubernetes.io/instance"
_COMPONENT = "app.kubernetes.io/component"
_SERVICES = {*PORTS, "task_manager"}
# `penstock status` asks these, by the Job Service.
_ASKED_FOR_THE_STATUS = {"state_syncer", "task_service", "shard_manager", "auto_scaler"}
# Users' calls, with tokens, are in no table of roles.
_USERS_OF_THE_JOB_SERVICE = {"auto_scaler", "console", "state_syncer"}
Object = dict[str, Any]


@pytest.fixture(scope="module")
def objects() -> list[Object]:
    return rendered()


@pytest.fixture(scope="module")
def values() -> Object:
    return dict(yaml.safe_load((CHART / "values.yaml").read_text()))


@pytest.fixture(scope="module")
def schema() -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for(json.loads((CHART / "values.schema.json").read_text()))


def _of_kind(objects: list[Object], *kinds: str) -> Iterator[Object]:
    return (each for each in objects if each["kind"] in kinds)


def _pods(objects: list[Object]) -> Iterator[tuple[str, Object]]:
    """The service and the pod template of each object that makes pods."""
    for each in _of_kind(objects, "Deployment", "StatefulSet", "Job"):
        template = each["spec"]["template"]
        yield template["metadata"]["labels"][_COMPONENT].replace("-", "_"), template


def _variables(container: Object) -> dict[str, Object]:
    return {each["name"]: each for each in container["env"]}


def test_what_these_tests_read_is_made_of_the_chart_as_it_is() -> None:
    assert RENDERED.read_text().split("\n", 1)[0] == f"# Made by `make chart` of the chart {digest()}"


def test_the_values_fit_their_schema(values: Object, schema: jsonschema_rs.Validator) -> None:
    assert [error.message for error in schema.iter_errors(values)] == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("services.console.replicas", 0),
        ("services.console.env", {"PENSTOCK_HOST": "127.0.0.1"}),
        ("services.console.env", {"LOG_LEVEL": "INFO"}),
        ("taskManagers.resources.limits.cpu", "1500m"),
        ("taskManagers.resources.limits", {"cpu": "2"}),
        ("kafka.bootstrap", "kafka"),
        ("storage.packagesRoot", "s3a://packages"),
        ("secrets.database.password", "x"),
        ("schemaRegistry.url", "registry:8081"),
        ("schemaRegistry.url", "https://penstock:secret@registry"),
        ("schemaRegistry.username", "penstock"),
        ("schemaRegistry", {"url": "", "username": "penstock", "secret": "penstock-registry"}),
        ("storage.s3.endpoint", "objects:9000"),
        ("storage.s3.access_key_id", "x"),
        ("networkPolicy.postgres.port", 0),
        ("metrics.serviceMonitor.interval", 15),
    ],
)
def test_wrong_values_are_refused(path: str, value: object, values: Object, schema: jsonschema_rs.Validator) -> None:
    changed = copy.deepcopy(values)
    *above, last = path.split(".")
    part = changed
    for name in above:
        part = part[name]
    part[last] = value
    assert not schema.is_valid(changed)


def test_each_service_runs_its_module_with_settings_that_it_knows(objects: list[Object]) -> None:
    found = set()
    for service, pod in _pods(objects):
        if service == "migrate":
            continue
        [container] = pod["spec"]["containers"]
        variables = _variables(container)
        assert container["args"] == [f"services.{service}"]
        assert [each["containerPort"] for each in container["ports"]] == [PORTS.get(service, FIRST_TASK_MANAGER_PORT)]
        assert variables.keys() - _of_hosts(variables) <= known(service), service
        assert variables.keys() >= needed(service) | {"PENSTOCK_IDENTITY_DIR"}, service
        found.add(service)
    assert found == _SERVICES


def _of_hosts(variables: Mapping[str, Object]) -> set[str]:
    """Those that Penstock hands on to hosts, whatever they are."""
    return set(json.loads(variables.get("PENSTOCK_HOST_ENVIRONMENT", {"value": "[]"})["value"]))


def test_probes_are_calls_that_ask_for_no_certificate(objects: list[Object]) -> None:
    for service, pod in _pods(objects):
        for container in pod["spec"]["containers"]:
            probes = {kind: container[f"{kind}Probe"]["httpGet"] for kind in _probes_of(service)}
            assert all(("GET", probe["path"]) in OPEN and probe["scheme"] == "HTTPS" for probe in probes.values())
            assert {kind: probe["path"] for kind, probe in probes.items()} == _probes_of(service)


def _probes_of(service: str) -> Mapping[str, str]:
    """A process that is not ready is not restarted."""
    return {} if service == "migrate" else {"startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz"}


def test_pods_keep_the_restricted_standard_of_kubernetes(objects: list[Object]) -> None:
    for service, pod in _pods(objects):
        spec = pod["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert spec["automountServiceAccountToken"] is False, service
        for container in (*spec.get("initContainers", ()), *spec["containers"]):
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert "memory" in container["resources"]["limits"]


def test_each_process_gets_the_url_of_its_role_in_the_store_and_its_own_tokens(objects: list[Object]) -> None:
    secrets = {
        (service, name): variable["valueFrom"]["secretKeyRef"]["key"]
        for service, pod in _pods(objects)
        for name, variable in _variables(pod["spec"]["containers"][0]).items()
        if "secretKeyRef" in variable.get("valueFrom", {})
    }
    urls = {service: key for (service, name), key in secrets.items() if name == "PENSTOCK_DATABASE_URL"}
    of_services = dict.fromkeys(_SERVICES - {"console", "task_manager"}, "service")
    assert urls == {**of_services, "task_manager": "task_manager", "migrate": "owner"}
    assert {place: key for place, key in secrets.items() if place[1] != "PENSTOCK_DATABASE_URL"} == {
        ("auto_scaler", "PENSTOCK_SCALER_TOKEN"): "scaler",
        ("state_syncer", "PENSTOCK_STATE_SYNCER_TOKEN"): "state_syncer",
        ("console", "PENSTOCK_CONSOLE_KEY"): "key",
        ("task_manager", "PENSTOCK_CONNECTIONS"): "connections",
        ("task_manager", "AWS_ACCESS_KEY_ID"): "access_key_id",
        ("task_manager", "AWS_SECRET_ACCESS_KEY"): "secret_access_key",
    }
    assert not list(_of_kind(objects, "Secret"))


def test_the_files_of_a_secured_kafka_are_where_its_variables_say(objects: list[Object]) -> None:
    expected = {"SASL_PASSWORD_FILE": "/kafka/password", "SSL_CA": "/kafka/ca.crt", "SECURITY_PROTOCOL": "SASL_SSL"}
    expected |= {"SASL_MECHANISM": "SCRAM-SHA-512", "SASL_USERNAME": "penstock"}
    users = set()
    for service, pod in _pods(objects):
        [container] = pod["spec"]["containers"]
        variables = _variables(container)
        mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
        if "PENSTOCK_KAFKA_BOOTSTRAP" not in variables:
            assert "/kafka" not in mounts
            continue
        users.add(service)
        assert {name: variables[f"PENSTOCK_KAFKA_{name}"]["value"] for name in expected} == expected
        assert "/kafka" in mounts
        [files] = [each for each in pod["spec"]["volumes"] if each["name"] == "kafka"]
        assert files["secret"]["secretName"] == "penstock-kafka"
    assert users == {"job_service", "task_manager"}


def test_the_password_of_the_registry_is_a_file_of_task_managers_alone(objects: list[Object]) -> None:
    """The volume has this one key, whatever else is in the Secret; the account reads it by its group."""
    for service, pod in _pods(objects):
        [container] = pod["spec"]["containers"]
        volumes = {each["name"]: each for each in pod["spec"]["volumes"]}
        mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
        assert ("PENSTOCK_SCHEMA_REGISTRY_URL" in _variables(container)) is (service == "task_manager")
        assert ("/registry" in mounts) is (service == "task_manager")
        if service == "task_manager":
            file = _variables(container)["PENSTOCK_SCHEMA_REGISTRY_PASSWORD_FILE"]["value"]
            secret = volumes[mounts["/registry"]]["secret"]
            assert (secret["secretName"], secret["defaultMode"]) == ("penstock-registry", 0o440)
            assert [f"/registry/{item['path']}" for item in secret["items"]] == [file]


def test_the_network_lets_task_managers_alone_to_the_registry(objects: list[Object]) -> None:
    for policy in _of_kind(objects, "NetworkPolicy"):
        ports = [port["port"] for rule in policy["spec"]["egress"] for port in rule["ports"]]
        is_task_manager = policy["spec"]["podSelector"]["matchLabels"][_COMPONENT] == "task-manager"
        assert (8081 in ports) is is_task_manager


def test_a_task_manager_has_the_capacity_of_its_limits_and_its_own_identity(objects: list[Object]) -> None:
    [spec] = [pod["spec"] for service, pod in _pods(objects) if service == "task_manager"]
    [container], [before] = spec["containers"], spec["initContainers"]
    variables = _variables(container)
    for variable, resource in (("PENSTOCK_CPU_CORES", "limits.cpu"), ("PENSTOCK_MEMORY_BYTES", "limits.memory")):
        assert variables[variable]["valueFrom"]["resourceFieldRef"] == {"resource": resource, "divisor": "1"}
    assert "identities" not in {mount["name"] for mount in container["volumeMounts"]}
    assert {mount["name"] for mount in before["volumeMounts"]} == {"identities", "identity"}


def test_every_selector_finds_pods(objects: list[Object]) -> None:
    labels = [pod["metadata"]["labels"] for _, pod in _pods(objects)]
    selectors = [(each["metadata"]["name"], each["spec"]["selector"]) for each in _of_kind(objects, "Service")]
    for each in _of_kind(objects, "PodDisruptionBudget", "Deployment", "StatefulSet"):
        selectors.append((each["metadata"]["name"], each["spec"]["selector"]["matchLabels"]))
    for each in _of_kind(objects, "NetworkPolicy"):
        selectors.append((each["metadata"]["name"], each["spec"]["podSelector"]["matchLabels"]))
    for name, selector in selectors:
        assert any(selector.items() <= of_pod.items() for of_pod in labels), name
    budgets = {each["spec"]["selector"]["matchLabels"][_COMPONENT] for each in _of_kind(objects, "PodDisruptionBudget")}
    assert budgets == {service.replace("_", "-") for service in _SERVICES}


def test_addresses_are_those_of_services_of_the_chart(objects: list[Object]) -> None:
    made = {
        f"https://{each['metadata']['name']}:{each['spec']['ports'][0]['port']}"
        for each in _of_kind(objects, "Service")
    }
    for _, pod in _pods(objects):
        for name, variable in _variables(pod["spec"]["containers"][0]).items():
            if name.endswith("_SERVICE_URL") or name in ("PENSTOCK_SHARD_MANAGER_URL", "PENSTOCK_URL"):
                assert set(variable["value"].split(",")) <= made, name


def test_the_network_lets_through_who_may_call_what_and_nobody_else(objects: list[Object]) -> None:
    """The table of `penstock.identity.rules`, users of the Job Service, and what `penstock status` asks."""
    wanted = {
        service: {role for (of, *_), roles in RULES.items() if of == service for role in roles} for service in PORTS
    }
    wanted["task_manager"] = {role for role in Role if _orders_task_managers(role)}
    wanted["job_service"] = {Role(name) for name in _USERS_OF_THE_JOB_SERVICE}
    for service in _ASKED_FOR_THE_STATUS:
        wanted[service].add(Role.JOB_SERVICE)
    policies = {
        each["spec"]["podSelector"]["matchLabels"][_COMPONENT]: each for each in _of_kind(objects, "NetworkPolicy")
    }
    into = {name: _peers(policy["spec"]["ingress"], "from") for name, policy in policies.items()}
    assert {
        name.replace("-", "_"): {Role(each.replace("-", "_")) for each in found} for name, found in into.items()
    } == wanted
    for name, policy in policies.items():
        assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
        assert _peers(policy["spec"]["egress"], "to") == {other for other, callers in into.items() if name in callers}


def _orders_task_managers(role: Role) -> bool:
    """Whether it has a call of its own there. What any role may ask, `GET /v1/tasks`, opens no port."""
    return any(role in roles for (of, *_), roles in RULES.items() if of == "task_manager" and len(roles) == 1)


def _peers(rules: list[Object], way: str) -> set[str]:
    """The components of the cell that rules name."""
    selectors = [
        peer["podSelector"]["matchLabels"] for rule in rules for peer in rule.get(way, ()) if "podSelector" in peer
    ]
    return {selector[_COMPONENT] for selector in selectors if selector.get(_CHART_NAME) == "penstock"}


def test_metrics_are_scraped_from_every_process_by_the_name_in_its_certificate(objects: list[Object]) -> None:
    services = {each["metadata"]["labels"]["penstock/process"]: each for each in _of_kind(objects, "Service")}
    monitors = {
        each["spec"]["selector"]["matchLabels"]["penstock/process"]: each
        for each in _of_kind(objects, "ServiceMonitor")
    }
    assert monitors.keys() == services.keys()
    for name, monitor in monitors.items():
        [endpoint] = monitor["spec"]["endpoints"]
        assert endpoint["tlsConfig"]["serverName"] == services[name]["metadata"]["name"]
        assert endpoint["port"] == services[name]["spec"]["ports"][0]["name"]
