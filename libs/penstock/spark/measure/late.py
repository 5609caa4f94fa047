"""How many late rows a task drops, from the counts that progress records bring, to the reason of an alert. Pure."""

from __future__ import annotations

from penstock.config.model import JobConfig
from penstock.model.alert_rules import MALFORMED_WINDOW_SECONDS
from penstock.model.alerts import AlertKind
from penstock.spark.measure.malformed import Count, Counts, Seen, recent

_ALL_INPUTS = ""


def count(at: float, rows: int) -> Count:
    """The late rows that the query has dropped since its start, at a time in seconds."""
    return Count(at, {_ALL_INPUTS: Seen(rows)})


def reason(counts: Counts, config: JobConfig, least: int) -> dict[str, str]:
    """The alert, if at least `least` late rows were dropped in the window of malformed records. None for a job that
    declares that it drops late rows."""
    dropped = recent(counts).get(_ALL_INPUTS, Seen()).records
    if dropped < least or config.completeness == "drop_late":
        return {}
    rows = "row was" if dropped == 1 else "rows were"
    found = {
        f"{kind}.{name}.watermark_delay is {source.watermark_delay}"
        for kind, sources in (("inputs", config.inputs), ("streams", config.streams))
        for name, source in sources.items()
        if source.watermark_delay is not None
    }
    delays = f" ({', '.join(sorted(found))})" if found else ""
    return {
        AlertKind.LATE_ROWS.value: (
            f"{dropped} late {rows} dropped in {MALFORMED_WINDOW_SECONDS / 60:.0f} minutes, or more: an aggregation "
            f"counts the rows of a batch and key as one. They came after the watermark, and no result has them{delays}"
        )
    }
