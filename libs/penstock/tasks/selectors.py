"""Selectors: which containers a job asks for, as one text. Pure.

A selector is the region, if the job names one, and then the labels as `label=value` in order of label, joined by commas
(`eu`, `disk=ssd`, `eu,disk=ssd`). No name has a comma or an equals sign, so equal texts ask for the same. A container
offers its region and its labels in the same notation. It meets a selector when it offers every part of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def selector(region: str | None, labels: Mapping[str, str]) -> str | None:
    """The selector of a region and labels; None if neither is asked for."""
    if not labels:
        return region
    return ",".join((*([] if region is None else [region]), *(f"{name}={labels[name]}" for name in sorted(labels))))


UNREADABLE = "container_labels=?"
"""The selector of a configuration whose labels are no map. No container meets it: no label has such a value."""


def selector_of(config: Mapping[str, Any]) -> str | None:
    """The selector of a stored configuration, which may be malformed."""
    labels = config.get("container_labels")
    if labels is not None and not isinstance(labels, Mapping):
        return UNREADABLE
    return selector(config.get("region"), labels or {})


def parts(asked: str) -> tuple[str | None, frozenset[str]]:
    """The region of a selector, None without one, and its labels."""
    regions = [part for part in asked.split(",") if "=" not in part]
    return (regions[0] if regions else None), frozenset(part for part in asked.split(",") if "=" in part)


def offered(region: str, labels: Mapping[str, str]) -> frozenset[str]:
    """What a container offers, as the parts of selectors."""
    return frozenset((region, *(f"{name}={value}" for name, value in labels.items())))


def meets(offer: frozenset[str], asked: str | None) -> bool:
    """Whether a container with this offer may run tasks with this selector."""
    return asked is None or offer.issuperset(asked.split(","))


def in_words(asked: str) -> str:
    """A selector for people: `region eu and labels disk=ssd, gpu=yes`."""
    region, labels = parts(asked)
    words = [] if region is None else [f"region {region}"]
    if labels:
        words.append(f"label{'s' if len(labels) > 1 else ''} {', '.join(sorted(labels))}")
    return " and ".join(words)
