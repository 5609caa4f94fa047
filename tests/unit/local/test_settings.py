"""What child processes of a stack get of the environment."""

from __future__ import annotations

import pytest

from penstock.local.settings import child_environment, server_environment


@pytest.mark.parametrize("own_kafka", [True, False])
def test_a_stack_with_a_kafka_of_its_own_forgets_how_another_is_reached(
    monkeypatch: pytest.MonkeyPatch, own_kafka: bool
) -> None:
    monkeypatch.setenv("PENSTOCK_KAFKA_SECURITY_PROTOCOL", "SASL_SSL")
    monkeypatch.setenv("PENSTOCK_KAFKA_CLUSTERS", "{}")
    monkeypatch.setenv("PENSTOCK_PORT", "1")
    env = child_environment({"PENSTOCK_KAFKA_BOOTSTRAP": "k:1"}, own_kafka=own_kafka)
    assert ("PENSTOCK_KAFKA_SECURITY_PROTOCOL" in env) == (not own_kafka)
    assert env["PENSTOCK_KAFKA_CLUSTERS"] == "{}", "further clusters are not in its place"
    assert (env["PENSTOCK_KAFKA_BOOTSTRAP"], env["PENSTOCK_PORT"]) == ("k:1", "1")
    assert [name for name in server_environment() if name.startswith("PENSTOCK_")] == []
