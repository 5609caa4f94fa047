"""Snapshots as bytes, encoded once for thousands of equal requests. Pure."""

from __future__ import annotations

import gzip
import hashlib
from collections import OrderedDict
from typing import NamedTuple

import orjson

from penstock.tasks.spec import TaskTemplate
from services.task_service.templates import Templates

FAST = 1
KEPT_ANSWERS = 32


class Encoded(NamedTuple):
    """A snapshot's JSON, the same compressed, and its weak entity tag."""

    body: bytes
    compressed: bytes
    etag: str


class Encoder:
    """Remembers each template's JSON and the last answers. Not thread-safe."""

    def __init__(self) -> None:
        self._templates: dict[tuple[str, bool], tuple[TaskTemplate, bytes]] = {}
        self._answers: OrderedDict[tuple[int | None, bool], tuple[Templates, Encoded]] = OrderedDict()

    def encode(self, templates: Templates, after: int | None, *, levels: bool = True) -> Encoded:
        """The delta above `after`; the full snapshot when `after` is None. `levels`: who asks knows `level_ms`; without
        it tasks take no more rows, as a Task Manager of the release before is told."""
        asked = (after, levels)
        known = self._answers.pop(asked, None)
        if known is None or known[0] is not templates:
            known = (templates, self._encode(templates, after, levels))
        self._answers[asked] = known
        while len(self._answers) > KEPT_ANSWERS:
            self._answers.popitem(last=False)
        return known[1]

    def _encode(self, templates: Templates, after: int | None, levels: bool) -> Encoded:
        listed = templates.above(-1 if after is None else after)
        removed = () if after is None else templates.removed_above(after)
        head = orjson.dumps(
            {
                "full": after is None,
                "commit_number": templates.commit_number,
                "shard_count": templates.shard_count,
                "removed": removed,
                "unreadable": templates.unreadable(),
            }
        )
        body = (
            head[:-1] + b',"templates":[' + b",".join(self._template(template, levels) for template in listed) + b"]}"
        )
        digest = hashlib.sha256(body).hexdigest()[:16]
        return Encoded(body, gzip.compress(body, FAST, mtime=0), f'W/"{templates.commit_number}-{digest}"')

    def _template(self, template: TaskTemplate, levels: bool) -> bytes:
        asked = (template.job, levels and template.level_ms is not None)
        known = self._templates.get(asked)
        if known is None or known[0] is not template:
            # A Task Manager of the release before refuses fields that it does not know.
            known = (template, template.model_dump_json(exclude=_absent(template, levels)).encode())
            self._templates[asked] = known
            self._forget_older(template, (template.job, not asked[1]))
        return known[1]

    def _forget_older(self, template: TaskTemplate, other: tuple[str, bool]) -> None:
        if other in self._templates and self._templates[other][0] is not template:
            del self._templates[other]


def _absent(template: TaskTemplate, levels: bool) -> set[str]:
    absent = {name for name in ("before", "quiescing") if not getattr(template, name)}
    return absent if levels and template.level_ms is not None else absent | {"level_ms"}
