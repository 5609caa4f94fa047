"""Pages that name the tests of what they promise: each file is there, and each test is in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.tidy.source import REPOSITORY, functions, parse

SPARK = REPOSITORY / "libs" / "penstock" / "spark"
PAGES = [SPARK / "SUPPORTED.md", SPARK / "EXACT.md"]
_LINK = re.compile(r"\]\((?P<path>[^)#:]*)(?:#(?P<part>[^)]*))?\)")
_HEADING = re.compile(r"^#+ (?P<title>.+)$", re.MULTILINE)


def broken_links(page: Path, text: str) -> Iterator[str]:
    """Links to files that are not there, to headings that a page does not have, and to tests that a file does not."""
    for link in _LINK.finditer(text):
        path, part = link["path"], link["part"]
        target = (page.parent / path).resolve() if path else page
        if not target.exists():
            yield path
        elif part and part not in _parts(target):
            yield f"{path}#{part}"


@cache
def _parts(target: Path) -> frozenset[str]:
    """The functions of a file of Python, or the headings of a page as links name them."""
    text = target.read_text()
    if target.suffix == ".py":
        return frozenset(function.name for function in functions(parse(text)))
    return frozenset(re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in _HEADING.findall(text))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_names_is_there(page: Path) -> None:
    assert list(broken_links(page, page.read_text())) == []


def test_each_line_of_what_is_supported_has_a_test() -> None:
    table = PAGES[0].read_text().partition("\n## ")[0]
    lines = [line for line in table.splitlines() if line.startswith("| ") and "tested by" not in line]
    assert [line for line in lines if "tests/" not in line.split("|")[-2]] == []


def test_each_source_and_sink_says_of_each_event_what_shows_it() -> None:
    rows = [line.split("|")[1:-1] for line in PAGES[1].read_text().splitlines() if line.startswith("| ")]
    assert [row for row in rows if len(row) != 5] == []
    cells = [cell.strip() for row in rows[1:] if not row[0].strip().startswith("**") for cell in row]
    assert len(cells) > 50
    assert "" not in cells


def test_a_link_is_broken_without_its_file_its_test_or_its_heading() -> None:
    here = Path(__file__)
    whole = "[a](test_pages.py#test_what_a_page_names_is_there) [b](../bench/README.md) [c](https://example.org/x#y)"
    wrong = "[a](test_pages.py#test_nothing) [b](nothing.py) [c](../../README.md#no-such-heading)"
    assert list(broken_links(here, whole)) == []
    assert list(broken_links(here, wrong)) == [
        "test_pages.py#test_nothing",
        "nothing.py",
        "../../README.md#no-such-heading",
    ]
