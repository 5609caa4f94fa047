"""Which containers a job asks for, as one text, its selector: its region if it names one, then its labels as
`label=value` in order of label, joined by commas (`eu`, `disk=ssd`, `eu,disk=ssd`). Pure.

No name has a comma or an equals sign, so a text means one thing. A container offers its region and its labels, written
alike, and meets a selector that asks for nothing else. A region by itself is a selector, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def selector(region: str | None, labels: Mapping[str, str]) -> str | None:
    """What asks for a region and for labels; None for what may be anywhere."""
    if not labels:
        return region
    return ",".join((*([] if region is None else [region]), *(f"{name}={labels[name]}" for name in sorted(labels))))


def selector_of(config: Mapping[str, Any]) -> str | None:
    """Of a job's configuration, as JSON; one from before there were labels has none."""
    return selector(config.get("region"), config.get("container_labels") or {})


def parts(asked: str) -> tuple[str | None, frozenset[str]]:
    """The region that a selector names, and its labels."""
    regions = [part for part in asked.split(",") if "=" not in part]
    return (regions[0] if regions else None), frozenset(part for part in asked.split(",") if "=" in part)


def offered(region: str, labels: Mapping[str, str]) -> frozenset[str]:
    """What a container offers."""
    return frozenset((region, *(f"{name}={value}" for name, value in labels.items())))


def meets(offer: frozenset[str], asked: str | None) -> bool:
    """Whether a container that offers this may run what has this selector."""
    return asked is None or offer.issuperset(asked.split(","))


def in_words(asked: str) -> str:
    """A selector for people: `region eu and labels disk=ssd, gpu=yes`."""
    region, labels = parts(asked)
    words = [] if region is None else [f"region {region}"]
    if labels:
        words.append(f"label{'s' if len(labels) > 1 else ''} {', '.join(sorted(labels))}")
    return " and ".join(words)
