"""Where the subject of an alert is shown. Pure."""

from __future__ import annotations

import re

from penstock.config.declare import NAME
from penstock.model.alert_rules import About, rule_of


def subject_path(kind: str, subject: str) -> str | None:
    """The page of the job, of the job of the task or layer (`job/...`), or of the container; None: it has no page."""
    rule = rule_of(kind)
    if rule is None or rule.about is About.CELL:
        return None
    name = subject.partition("/")[0]
    if re.fullmatch(NAME, name) is None:
        return None
    return f"/containers/{name}" if rule.about is About.CONTAINER else f"/jobs/{name}"
