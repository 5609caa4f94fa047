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
_FRAME = re.compile(r"\s+(at |File |\.\.\. )|\s*\^+\s*$|Traceback ")


def last_words(log: str) -> str:
    """The last lines that name some trouble, else the error that the host itself logged (in JSON), else the last line;
    empty for an empty log. Lines of stacks are left out."""
    lines = log.splitlines()
    plain = [line.strip() for line in lines if line.strip() and not line.startswith("{") and not _FRAME.match(line)]
    own = [error for line in lines if line.startswith("{") and (error := _error_of(line))]
    said = [line for line in plain if _TROUBLE.search(line)] or own[-1:] or plain[-1:]
    return cut("; ".join(dict.fromkeys(said[-_MOST_LINES:])), _MOST_CHARACTERS)


def _error_of(line: str) -> str:
    try:
        record = json.loads(line)
    except ValueError:
        return ""
    return str(record.get("error", "")).strip() if isinstance(record, dict) else ""
