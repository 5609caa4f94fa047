"""What each alert means and what to do about it, read from the page of alerts (`services/ALERTS.md`). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from markupsafe import Markup, escape

_ROW = re.compile(
    r'^\| (?:<a id="\w+"></a>)?`(?P<kind>[a-z_]+)` \| (?P<subject>.*?) \| (?P<meaning>.*) \| (?P<action>.*) \|$'
)
_CODE = re.compile(r"`([^`]+)`")
_BOLD = re.compile(r"\*\*([^*]+)\*\*")
_LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")


@dataclass(frozen=True, slots=True)
class Runbook:
    """A row of the page: about what, what it means, what to do."""

    subject: Markup
    meaning: Markup
    action: Markup


def runbooks(text: str) -> Mapping[str, list[Runbook]]:
    """By kind of alert, the rows of the page; a kind may have several, one for each subject."""
    found: dict[str, list[Runbook]] = {}
    for kind, runbook in _rows(text):
        found.setdefault(kind, []).append(runbook)
    return found


def _rows(text: str) -> Iterator[tuple[str, Runbook]]:
    for line in text.splitlines():
        match = _ROW.match(line)
        if match is not None:
            yield match["kind"], Runbook(as_html(match["subject"]), as_html(match["meaning"]), as_html(match["action"]))


def as_html(text: str) -> Markup:
    """Code, bold and the words of links of a cell of a table."""
    safe = str(escape(_LINK.sub(r"\1", text)))
    return Markup(_BOLD.sub(r"<strong>\1</strong>", _CODE.sub(r"<code>\1</code>", safe)))
