"""What a host that could not start said at its end, from its log. Pure."""

from __future__ import annotations

import json
import re

from penstock.control.texts import cut

TAIL_BYTES = 16_384
"""So much of the end of a log is read."""
_MOST_LINES, _MOST_CHARACTERS = 3, 240
_TROUBLE = re.compile(
    r"error|exception|fatal|unrecogni[sz]ed|invalid|cannot|could not|unable|denied|no such|no space|not enough", re.I
)
_NO_TROUBLE = re.compile(r"\s+(at |File |\.\.\. )|\s*\^+\s*$|Traceback |\S+ \S+ (INFO|WARN) ")
_OWN = re.compile(r"\d{4}-\d\d-\d\dT\S+ \[\w+ *\] ")
_ERROR = re.compile(r"\berror=(['\"]?)(.*?)\1(?= \w+=|$)")


def last_words(log: str) -> str:
    """The last lines that name some trouble, else the error that the host itself logged, else the last line; empty for
    an empty log. Lines of stacks, and what Spark only warns of, are left out."""
    lines = [line for line in log.splitlines() if line.strip()]
    own = [line for line in lines if _is_own(line)]
    plain = [line.strip() for line in lines if not _is_own(line) and not _NO_TROUBLE.match(line)]
    errors = [error for line in own if (error := _error_of(line))]
    said = [line for line in plain if _TROUBLE.search(line)] or errors[-1:] or plain[-1:]
    return cut("; ".join(dict.fromkeys(said[-_MOST_LINES:])), _MOST_CHARACTERS)


def _is_own(line: str) -> bool:
    """Whether the host logged it: as JSON, or for people."""
    return line.startswith("{") or _OWN.match(line) is not None


def _error_of(line: str) -> str:
    if not line.startswith("{"):
        found = _ERROR.search(line)
        return "" if found is None else found.group(2)
    try:
        record = json.loads(line)
    except ValueError:
        return ""
    return str(record.get("error", "")).strip() if isinstance(record, dict) else ""
