"""Postgres and Kafka of a running stack are killed: both come back by themselves, and writes succeed again."""

from __future__ import annotations

import psutil

from penstock.control.errors import PenstockError
from penstock.control.process import wait_until
from penstock.local import topics
from tests.support.chaos.stack import ChaosStack

WAIT_S = 60.0


def test_killed_servers_are_started_again_under_a_running_stack(stack: ChaosStack) -> None:
    """1. Postgres is killed; the Job Service writes again. 2. Kafka is killed; a topic can be made."""
    client = stack.client()
    for name, server in (("postgres", stack._postgres_server), ("kafka", stack._kafka_server)):
        assert server is not None
        before = server.pid
        assert before is not None
        psutil.Process(before).kill()
        wait_until(lambda of=server, was=before: of.pid not in (None, was), WAIT_S, name)  # type: ignore[misc]

    def writes() -> bool:
        try:
            client.create_token("after-the-kill", "reader")
        except PenstockError:
            return False
        return True

    def makes_a_topic() -> bool:
        try:
            topics.create_topics(stack.plan.kafka_bootstrap, {"after-the-kill": 1})
        except PenstockError:
            return False
        return True

    wait_until(writes, WAIT_S, "a write")
    client.revoke_token("after-the-kill")
    wait_until(makes_a_topic, WAIT_S, "a topic")
