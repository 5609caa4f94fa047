"""The expiry of a layer. A layer has one for all its fields, so a write must not change that of other fields unseen.

Pure. Both refusals are here: a write that should stay but would end, and one that would end other fields earlier or let
them stay for ever.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from penstock.config.merge import leaves
from penstock.control.errors import Conflict
from penstock.control.texts import first_few
from penstock.model.jobs import StoredLayer
from penstock.wire.jobs import Expiring


@dataclass(frozen=True, slots=True)
class Expiry:
    """Seconds until the written layer is dropped; None: never. `whole_layer`: the writer knows that this is also the
    end of the fields that the write does not name."""

    seconds: int | None
    whole_layer: bool = False


def expiry_of(body: Expiring) -> Expiry | None:
    """None when the body omits the expiry (the layer's default applies); `seconds` None when it is null (never)."""
    if "expires_in_seconds" not in body.model_fields_set:
        return None
    return Expiry(body.expires_in_seconds, body.whole_layer)


def again(expires_at: datetime | None, set_at: datetime | None, now: datetime) -> Expiry:
    """The expiry of a layer that goes back to a version, which was to end at `expires_at` by a write at `set_at`. If
    it was never to end, it never ends. An end in the future is kept. If the end has passed, the layer lasts as long as
    that version was to last, from now on."""
    if expires_at is None or set_at is None:
        return Expiry(None)
    left = expires_at - now if expires_at > now else expires_at - set_at
    return Expiry(max(1, round(left.total_seconds())))


def staying(given: Expiry | None, present: StoredLayer | None) -> Expiry:
    """The expiry of a patch that stays by default, as a rescale does. Raises Conflict when the layer has an expiry and
    none is given: the caller must decide for all of the layer."""
    if given is None and present is not None and present.expires_at is not None:
        raise Conflict(
            f"the layer {present.layer} expires at {_clock(present.expires_at)}, and the rescale would expire with "
            "it: drop the layer, or give an expiry for the whole layer (`--for 2h --whole-layer`; expires_in_seconds, "
            "null: never, and whole_layer)",
            field="expires_in_seconds",
            rule="given_when_the_layer_expires",
        )
    return given or Expiry(None)


def require_whole_layer(
    given: Expiry | None, present: StoredLayer | None, patch: Mapping[str, Any], now: datetime
) -> None:
    """Raises Conflict when a patch would also end fields earlier that it does not name, or let them stay for ever. It
    may let them end later. `present`: None also for a layer that has expired."""
    if given is None or given.whole_layer or present is None or not present.config:
        return
    harm = _harm(given.seconds, present.expires_at, now)
    others = list(_not_named(present.config, patch)) if harm else []
    if others:
        raise Conflict(
            f"the layer {present.layer} also sets {first_few(others)}{harm}, or give the whole layer the expiry "
            "(`--whole-layer`; whole_layer true)",
            field="expires_in_seconds",
            rule="whole_layer",
        )


def _harm(seconds: int | None, ends_at: datetime | None, now: datetime) -> str:
    """What an expiry in so many seconds, None: never, would do to fields that end at `ends_at`; empty: nothing bad."""
    if ends_at is None and seconds is not None:
        return (
            ", which never expires. A layer has one expiry for all its fields, so that would end with this write. Let "
            "this write stay too (`--for never`; expires_in_seconds null)"
        )
    if ends_at is None or (seconds is not None and now + timedelta(seconds=seconds) >= ends_at):
        return ""
    change = "stay for ever" if seconds is None else "end with this write"
    return (
        f", which ends at {_clock(ends_at)}. A layer has one expiry for all its fields, so that would {change}. "
        "Give no expiry (no `--for`; expires_in_seconds absent) to let this write end with it"
    )


def _clock(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def _not_named(config: Mapping[str, Any], patch: Any) -> Iterator[str]:
    """The leaves of a layer that a patch leaves as they are."""
    for path, _ in leaves(config):
        if not _names(patch, path):
            yield ".".join(path)


def _names(patch: Any, path: tuple[str, ...]) -> bool:
    """A patch names a leaf by it, or by a value or null in place of a map that holds it."""
    for key in path:
        if not isinstance(patch, Mapping):
            return True
        if key not in patch:
            return False
        patch = patch[key]
    return True
