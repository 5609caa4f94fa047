"""`Client`: all calls of the Job Service, and changes of a layer that overwrite nobody."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any, Literal, TypedDict, Unpack
from uuid import uuid4

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential_jitter

from penstock.config.patches import patch_between
from penstock.control.errors import RetryableError, VersionConflict
from penstock.wire.job_client import JobClient
from penstock.wire.jobs import LayerView, Written

_WRITE_ATTEMPTS = 3
_CONFLICTS = 5


class How(TypedDict, total=False):
    """Options of a change. `reason`: kept in the history. `expires_in_seconds`: None: never; absent, or "default": as
    the layer has it. `verify`: whether Spark is asked what is wrong with the job; absent: it is."""

    reason: str
    expires_in_seconds: int | Literal["default"] | None
    verify: bool


class Edited(dict[str, Any]):
    """The content of a layer, to be changed. `written`: the write, once the block has ended; None: nothing changed."""

    written: Written | None = None


class Client(JobClient):
    """A synchronous client of the Job Service; safe to share between threads. Use as a context manager, or `close` it.

    Reads are tried three times. `edit` and `change` try their write three times, with one idempotency key: it is done
    once. Methods raise the errors of `penstock.control.errors`.
    """

    @contextmanager
    def edit(self, job: str, layer: str, **how: Unpack[How]) -> Iterator[Edited]:
        """The layer's content; what the block has changed is written at its end, unless the block raises.

        Raises VersionConflict when somebody has written the layer since the block began: nothing was changed then.
        """
        before = self.get_layer(job, layer)
        content = Edited(deepcopy(before.config or {}))
        yield content
        content.written = self._store(before, content, how)

    def change(self, job: str, layer: str, change: Callable[[Edited], object], **how: Unpack[How]) -> Written | None:
        """Has `change` change the layer's content, again on the newest content whenever somebody else was faster.

        Returns the write; None when nothing changed. Raises VersionConflict after five of these conflicts.
        """
        for _ in range(_CONFLICTS - 1):
            try:
                return self._changed(job, layer, change, how)
            except VersionConflict:
                continue
        return self._changed(job, layer, change, how)

    def _changed(self, job: str, layer: str, change: Callable[[Edited], object], how: How) -> Written | None:
        with self.edit(job, layer, **how) as content:
            change(content)
        return content.written

    def _store(self, before: LayerView, content: Edited, how: How) -> Written | None:
        patch = patch_between(before.config or {}, content)
        if not patch:
            return None
        key = uuid4().hex
        for attempt in Retrying(
            retry=retry_if_exception_type(RetryableError),
            stop=stop_after_attempt(_WRITE_ATTEMPTS),
            wait=wait_exponential_jitter(multiplier=0.1, max=1.0, jitter=0.1),
            reraise=True,
        ):
            with attempt:
                written = self.patch_layer(
                    before.job, before.layer, patch, if_match=before.version, idempotency_key=key, **how
                )
        return written
