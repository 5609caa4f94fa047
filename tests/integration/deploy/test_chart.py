"""The Helm chart by helm itself, and by the schemas of Kubernetes (`make chart`, `make test-long`)."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
import yaml

from tests.support.deploy.chart import CHART, KUBERNETES, RENDERED, helm, render, rendered, tools

pytestmark = pytest.mark.long
_DEFINITIONS = "/api/_definitions.json#"


def test_helm_finds_nothing_wrong() -> None:
    said = helm("lint", "--strict", CHART)
    assert said.returncode == 0, said.stdout


def test_what_other_tests_read_is_what_helm_makes() -> None:
    assert RENDERED.read_text() == render()


def test_a_path_of_the_shared_claim_needs_a_claim() -> None:
    said = helm("template", "cell", CHART, "--set", "storage.claim=")
    assert said.returncode != 0
    assert "storage.claim: /data/checkpoints is below /data, so name the claim" in said.stderr


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ("storage.s3.region=eu", "taskManagers.env.PENSTOCK_HOST_ENVIRONMENT: leave it out"),
        ("storage.s3.endpoint=http://objects:9000", "taskManagers.env.PENSTOCK_SPARK_CONF: leave it out"),
    ],
)
def test_a_variable_is_not_set_twice(values: str, told: str) -> None:
    env = {"PENSTOCK_HOST_ENVIRONMENT": "[]", "PENSTOCK_SPARK_CONF": "{}"}
    given = ("--set-json", f"taskManagers.env={json.dumps(env)}")
    assert helm("template", "cell", CHART, *given).returncode == 0
    said = helm("template", "cell", CHART, *given, "--set", values)
    assert said.returncode != 0
    assert told in said.stderr


def test_the_server_of_tokens_is_reached_by_who_asks_kafka() -> None:
    values = "kafka.oauthTokenUrl=https://tokens/token,networkPolicy.oauth.port=8443"
    said = helm("template", "cell", CHART, "--set", values, "--show-only", "templates/network.yaml")
    policies = [each for each in yaml.safe_load_all(said.stdout) if each]
    names = {each["metadata"]["name"] for each in policies if "8443" in json.dumps(each["spec"]["egress"])}
    assert names == {"cell-job-service", "cell-task-manager"}


def test_each_object_fits_the_strict_schema_of_its_kind() -> None:
    """Those of Kubernetes. A ServiceMonitor is of the Prometheus Operator: what packages have of its schema lets
    unknown fields pass, so it is not checked here. All fitted the CRD of its release 0.93, by hand on 2026-11-28."""
    folder = tools() / "schemas" / f"v{KUBERNETES}.0-local-strict"
    definitions = json.loads((folder / "_definitions.json").read_text().replace(_DEFINITIONS, "#"))["$defs"]
    kinds: dict[str, jsonschema_rs.Validator] = {}
    for each in rendered():
        if each["kind"] == "ServiceMonitor":
            continue
        name = _schema_name(each)
        if name not in kinds:
            text = (folder / name).read_text().replace(_DEFINITIONS, "#")
            kinds[name] = jsonschema_rs.validator_for({**json.loads(text), "$defs": definitions})
        kinds[name].validate(each)
    assert len(kinds) == len({each["kind"] for each in rendered()} - {"ServiceMonitor"})
    nonsense = {**rendered()[0], "spec": {"podSelectors": {}}}
    assert not kinds[_schema_name(nonsense)].is_valid(nonsense)


def _schema_name(each: dict[str, Any]) -> str:
    group, _, version = each["apiVersion"].rpartition("/")
    return "-".join(filter(None, [each["kind"].lower(), group.partition(".")[0], version])) + ".json"
