"""DROP_SHARD and ADD_SHARD over HTTP, one call for each container. A failed call is no evidence about the container."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx
from pydantic import ValidationError

from penstock.control.clock import Clock
from penstock.control.logs import logger
from penstock.wire.cluster import ShardAnswers, ShardOrders, as_json
from penstock.wire.http import Identity, internal_client
from services.shard_manager.moves.moves import Verb

log = logger(__name__)
MARGIN_SECONDS = 3.0

OnAnswer = Callable[[frozenset[int]], None]
OnTimed = Callable[[Verb, str, float], None]


class Orders:
    """Sends orders from worker threads. `on_answer` gets the shards that are done, none if there was no answer.

    `on_timed` gets the seconds that a container took for an order, unless the container could not be reached or its
    answer was invalid. Worker threads call both.
    """

    def __init__(self, clock: Clock, on_timed: OnTimed, *, workers: int = 16, identity: Identity | None = None) -> None:
        self._clock = clock
        self._on_timed = on_timed
        self._client = internal_client(identity)
        self._pool = ThreadPoolExecutor(max_workers=workers, thread_name_prefix="orders")

    def send(self, verb: Verb, url: str, order: ShardOrders, on_answer: OnAnswer) -> None:
        """Queues an order. Returns at once."""
        self._pool.submit(self._send, verb, url, order, on_answer)

    def close(self) -> None:
        """Waits for the orders that were sent; queued orders are not sent."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._client.close()

    def _send(self, verb: Verb, url: str, order: ShardOrders, on_answer: OnAnswer) -> None:
        sent_at = self._clock.monotonic()
        try:
            done = frozenset(self._post(verb, url, order).tasks)
            self._on_timed(verb, order.container, self._clock.monotonic() - sent_at)
        except httpx.ReadTimeout as error:
            self._on_timed(verb, order.container, self._clock.monotonic() - sent_at)
            log.warning("order not answered in time", order=verb, container=order.container, error=repr(error))
            done = frozenset()
        except (httpx.HTTPError, httpx.InvalidURL, ValidationError) as error:
            log.warning("order not answered", order=verb, container=order.container, error=repr(error))
            done = frozenset()
        on_answer(done & order.shards.keys())

    def _post(self, verb: Verb, url: str, order: ShardOrders) -> ShardAnswers:
        timeout_seconds = order.deadline_seconds + MARGIN_SECONDS
        response = self._client.post(f"{url}/v1/shards/{verb}", json=as_json(order), timeout=timeout_seconds)
        response.raise_for_status()
        return ShardAnswers.model_validate_json(response.content)
