"""The answer of `GET /v1/status`: the parts of a cell, one line each."""

from __future__ import annotations

from penstock.wire.jobs import JsonObject, View


class StatusLine(View):
    """A part of the cell. `part`: such as `loop state_syncer`. `advice`: what to do about it; a part
    that is `ok` may have some too, such as for a lost container."""

    part: str
    ok: bool
    summary: str
    advice: str | None
    details: JsonObject


class StatusView(View):
    """`ok`: whether all parts are well."""

    ok: bool
    parts: list[StatusLine]
