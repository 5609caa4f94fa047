"""What each alert means and what to do about it, read from the page of alerts (`services/ALERTS.md`). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass

from markupsafe import Markup, escape

_ROW = re.compile(
    r'^\| (?:<a id="\w+"></a>)?`(?P<kind>[a-z_]+)` \| (?P<subject>.*?) \| (?P<meaning>.*) \| (?P<action>.*) \|$'
)
_CODE = re.compile(r"`([^`]+)`")
_BOLD = re.compile(r"\*\*([^*]+)\*\*")
_LINK = re.compile(r"\[([^\]]+)\]\(([^)]*)\)")
_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
_FENCE = "```"
PAGE = "/alerts"
"""The page of the console that shows the sections."""


@dataclass(frozen=True, slots=True)
class Runbook:
    """A row of the page: about what, what it means, what to do."""

    subject: Markup
    meaning: Markup
    action: Markup


@dataclass(frozen=True, slots=True)
class Section:
    """What rows lead to: steps that several kinds of alerts share."""

    anchor: str
    title: str
    parts: tuple[Markup, ...]


def runbooks(text: str) -> Mapping[str, list[Runbook]]:
    """By kind of alert, the rows of the page; a kind may have several, one for each subject."""
    anchors = {section.anchor for section in sections(text)}
    found: dict[str, list[Runbook]] = {}
    for kind, cells in _rows(text):
        found.setdefault(kind, []).append(Runbook(*(as_html(cell, anchors) for cell in cells)))
    return found


def sections(text: str) -> list[Section]:
    """The sections that rows of the page have links to, in their order."""
    wanted = {target for _, cells in _rows(text) for cell in cells for _, target in _LINK.findall(cell)}
    _, *found = _HEADING.split(text)
    titles = {_anchor(title): (title, body) for title, body in zip(found[::2], found[1::2], strict=True)}
    return [
        Section(anchor, title, tuple(_parts(body)))
        for anchor, (title, body) in titles.items()
        if f"#{anchor}" in wanted
    ]


def _anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9-]", "", title.lower().replace(" ", "-"))


def _parts(body: str) -> Iterator[Markup]:
    """Paragraphs, and blocks of commands as they are."""
    for number, part in enumerate(body.split(_FENCE)):
        if number % 2:
            yield Markup("<pre>{}</pre>").format(part.partition("\n")[2])
        else:
            yield from (
                Markup("<p>{}</p>").format(as_html(each.strip())) for each in part.split("\n\n") if each.strip()
            )


def _rows(text: str) -> Iterator[tuple[str, tuple[str, str, str]]]:
    for line in text.splitlines():
        match = _ROW.match(line)
        if match is not None:
            yield match["kind"], (match["subject"], match["meaning"], match["action"])


def as_html(text: str, anchors: Set[str] = frozenset()) -> Markup:
    """Code and bold of a text. Links to sections with these anchors lead there; of others the words stay."""

    def linked(link: re.Match[str]) -> str:
        words, target = link.groups()
        return f'<a href="{PAGE}{target}">{words}</a>' if target[:1] == "#" and target[1:] in anchors else words

    safe = _LINK.sub(linked, str(escape(text)))
    return Markup(_BOLD.sub(r"<strong>\1</strong>", _CODE.sub(r"<code>\1</code>", safe)))
