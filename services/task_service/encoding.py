"""Snapshots as bytes, encoded once for thousands of equal requests. Pure."""

from __future__ import annotations

import gzip
import hashlib
from typing import NamedTuple

import orjson

from services.task_service.templates import Row, Templates, encoded

FAST = 1


class Asked(NamedTuple):
    """What a request for templates asks for: those above `after`, by default all; and which fields the caller knows."""

    after: int | None = None
    levels: bool = True
    digests: bool = True


class Encoded(NamedTuple):
    """A snapshot's JSON, the same compressed, and its weak entity tag."""

    body: bytes
    compressed: bytes
    etag: str


def encode(templates: Templates, asked: Asked) -> Encoded:
    """The delta above `asked.after`; the full snapshot when it is None."""
    jobs = [template.job for template in templates.above(-1 if asked.after is None else asked.after)]
    rows = [_row(templates, job, asked) for job in jobs]
    body = _head(templates, rows, asked)[:-1] + b',"templates":[' + b",".join(row.text for row in rows) + b"]}"
    digest = hashlib.sha256(body).hexdigest()[:16]
    return Encoded(body, gzip.compress(body, FAST, mtime=0), f'W/"{templates.commit_number}-{digest}"')


def _head(templates: Templates, rows: list[Row], asked: Asked) -> bytes:
    head = {
        "full": asked.after is None,
        "commit_number": templates.commit_number,
        "shard_count": templates.shard_count,
        "removed": () if asked.after is None else templates.removed_above(asked.after),
        "unreadable": templates.unreadable(),
    }
    if asked.digests:
        head |= {
            "store": templates.store,
            "digest": f"{templates.digest:032x}",
            "row_digests": [f"{row.digest:032x}" for row in rows],
        }
    return orjson.dumps(head)


def _row(templates: Templates, job: str, asked: Asked) -> Row:
    template = templates.by_job[job]
    is_other = template.level_ms is not None and not asked.levels
    return encoded(template, levels=False) if is_other else templates.rows[job]
