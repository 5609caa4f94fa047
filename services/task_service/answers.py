"""Encoded answers, made once for all that ask for the same. Safe from any thread."""

from __future__ import annotations

from collections import OrderedDict
from concurrent.futures import Future
from threading import Lock

from services.task_service.encoding import Asked, Encoded, encode
from services.task_service.templates import Templates

KEPT_ANSWERS = 64


class Answers:
    """The answers about the newest templates. The lock is held for moments only, never while an answer is encoded."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._of: Templates | None = None
        self._kept: OrderedDict[Asked, Future[Encoded]] = OrderedDict()

    def ready(self, templates: Templates, asked: Asked) -> Encoded | None:
        """The answer if it is there already."""
        with self._lock:
            answer = self._kept.get(asked) if self._of is templates else None
        return answer.result() if answer is not None and answer.done() and answer.exception() is None else None

    def encode(self, templates: Templates, asked: Asked) -> Encoded:
        """The answer. Of several callers that ask for the same, one makes it and the others wait for it."""
        with self._lock:
            if self._of is not templates:
                self._of, self._kept = templates, OrderedDict()
            answer = self._kept.get(asked)
            is_mine = answer is None
            if answer is None:
                answer = self._kept[asked] = Future()
                while len(self._kept) > KEPT_ANSWERS:
                    self._kept.popitem(last=False)
        if is_mine:
            try:
                answer.set_result(encode(templates, asked))
            except BaseException as error:
                answer.set_exception(error)
                raise
        return answer.result()
