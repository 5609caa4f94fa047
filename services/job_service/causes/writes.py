"""Who wrote what to a job, when, and how to go back. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import timedelta
from typing import Any, NamedTuple

from penstock.config.tree import row_for
from penstock.control.texts import cut
from penstock.model.jobs import Action
from penstock.wire.jobs import HistoryEntry
from services.job_service.causes.facts import OF_OPERATORS, Facts

_CODE = (
    "query",
    "package",
    "args",
    "tables",
    "secrets",
    "spark_settings",
    "inputs",
    "streams",
    "output",
    "side_outputs",
    "isolation",
)
WRITES = frozenset([Action.PUT, Action.PATCH, Action.DROP, Action.EXPIRE, Action.REVERT, Action.RESTORE])

_UNITS = ((86_400, "day"), (3600, "hour"), (60, "minute"))


class Changed(NamedTuple):
    """A leaf that a write changed; None: the layer does not set it."""

    field: str
    old: Any
    new: Any

    @property
    def words(self) -> str:
        """From what to what."""
        return f"{self.field}: {_short(self.old)} to {_short(self.new)}"


def _short(value: Any) -> str:
    return "unset" if value is None else cut(str(value), 60)


def changed_leaves(old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> list[Changed]:
    """The leaves in which two contents of a layer differ, by name."""
    before, after = dict(_leaves(old or {})), dict(_leaves(new or {}))
    paths = sorted(before.keys() | after.keys())
    return [Changed(path, before.get(path), after.get(path)) for path in paths if before.get(path) != after.get(path)]


def _leaves(content: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in content.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def way_back(entry: HistoryEntry) -> str:
    """How to have what was before a write. The first version of a layer has none before it: the layer is dropped."""
    drop = "`penstock override JOB --drop`" if entry.layer == "oncall" else _drop(entry)
    if not entry.old:
        return f"go back: {drop}"
    back = f"go back: `penstock revert JOB {entry.layer} {max(1, (entry.version or 1) - 1)} --reason ...`"
    if entry.action == Action.EXPIRE:
        return f"{back}; for good, change the layers below"
    return f"{back}, or {drop}" if entry.new and entry.layer in OF_OPERATORS else back


def _drop(entry: HistoryEntry) -> str:
    return f"`penstock layers drop JOB {entry.layer} --reason ...`"


def newest_of_code(facts: Facts, failed: Collection[int]) -> tuple[HistoryEntry, list[Changed]] | None:
    """The newest write that the job runs and that changed its code, with what it changed there; None where the
    tasks that fail have crashed since before it."""
    crashed_at = min((at for each in facts.crashes if each.index in failed for at in each.crashed_at), default=None)
    for entry in facts.changes:
        if entry.action not in WRITES or entry.layer is None or not runs(facts, entry):
            continue
        changed = [each for each in changed_leaves(entry.old, entry.new) if is_code(each)]
        shown = [effective(facts, each) for each in changed if not is_hidden(facts, each)]
        if shown:
            return None if crashed_at is not None and crashed_at < entry.at else (entry, shown)
    return None


def is_code(changed: Changed) -> bool:
    """Whether a field says what the tasks do, with which code and on which inputs and outputs."""
    return changed.field.split(".")[0] in _CODE


def version_of(facts: Facts, entry: HistoryEntry) -> str:
    """`oncall, version 3, written by ann 1 minute ago (oops)`."""
    ago = _ago(facts.moment.now - entry.at)
    return f"{entry.layer}, version {entry.version}, written by {entry.author} {ago}{_why(entry)}"


def _ago(age: timedelta) -> str:
    seconds = max(0, int(age.total_seconds()))
    size, unit = next(((size, unit) for size, unit in _UNITS if seconds >= size), (1, "second"))
    number = seconds // size
    return f"{number} {unit}{'' if number == 1 else 's'} ago"


def write_in_words(entry: HistoryEntry, changed: list[Changed]) -> str:
    if entry.layer is None:
        return f"{entry.action} {when_and_whose(entry)}"
    fields = ", ".join(each.words for each in changed[:3]) or "nothing"
    return f"{entry.action} of the layer {entry.layer}, version {entry.version}, {when_and_whose(entry)}: {fields}"


def when_and_whose(entry: HistoryEntry) -> str:
    return f"at {entry.at:%Y-%m-%d %H:%M:%S} UTC by {entry.author}{_why(entry)}"


def _why(entry: HistoryEntry) -> str:
    return f" ({entry.reason})" if entry.reason else ""


def runs(facts: Facts, entry: HistoryEntry) -> bool:
    return facts.job.running_revision is None or entry.revision <= facts.job.running_revision


def is_hidden(facts: Facts, changed: Changed) -> bool:
    """Whether a higher layer hides what the write set."""
    leaf = facts.setting(changed.field)
    return changed.new is not None and leaf is not None and leaf.value != changed.new


def changed_by(facts: Facts, entry: HistoryEntry) -> list[Changed]:
    """What a write changed, for people. Before a job was created there were no values, not even defaults."""
    leaves = changed_leaves(entry.old, entry.new)
    return leaves if entry.action == Action.CREATE else [effective(facts, each) for each in leaves]


def effective(facts: Facts, changed: Changed) -> Changed:
    """The change with what the layers below, or the default, give where this layer sets nothing."""
    leaf, row = facts.setting(changed.field), row_for(tuple(changed.field.split(".")))
    default = None if row is None or row.required else row.default
    below = leaf.hides[0].value if leaf is not None and leaf.hides else default
    old = below if changed.old is None else changed.old
    new = (default if leaf is None else leaf.value) if changed.new is None else changed.new
    return changed._replace(old=old, new=new)
