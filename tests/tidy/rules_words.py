"""READMEs are short, and public names are the field's own words."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import PurePosixPath

from tests.tidy.source import Tree, code_files, nodes

README_LINES = 120
# The register of all measured figures, with a heading for each bench.
LONG_READMES = frozenset(["tests/bench/README.md"])
PARAGRAPH_LINES = 5
# Words that meant several things here, or nothing to a reader from elsewhere.
# fmt: off
BANNED_WORDS = frozenset([
    "settle", "settles", "settled", "settling", "held", "look", "looks", "looked", "tell", "tells", "told", "story",
    "stories", "works", "stumble", "tenure", "turns", "keeper", "placer", "placing", "gray", "ledger", "upkeep",
    "sameness",
])
# fmt: on
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_FENCE = re.compile(r"^\s*```")
_NOT_A_PARAGRAPH = re.compile(r"^\s*(\||#)")
_ITEM = re.compile(r"^\s*([-*]|\d+\.)\s")


def readmes_are_at_most_120_lines(tree: Tree) -> list[str]:
    """A README is read in one go; a longer one belongs to two folders."""
    sizes = {
        path: len(text.splitlines())
        for path, text in tree.items()
        if path.endswith("README.md") and path not in LONG_READMES
    }
    return [f"{path} has {size} lines" for path, size in sizes.items() if size > README_LINES]


def paragraphs_of_readmes_are_at_most_5_lines(tree: Tree) -> list[str]:
    """A longer paragraph is a list, a table or a picture that was not drawn. An item of a list is a paragraph."""
    return [
        f"{path}:{line} a paragraph of {size} lines"
        for path, text in tree.items()
        if path.endswith("README.md")
        for line, size in _paragraphs(text)
        if size > PARAGRAPH_LINES
    ]


def public_names_are_plain_words(tree: Tree) -> list[str]:
    """One word has one meaning."""
    return [
        f"{path}:{line} {name}: {', '.join(sorted(banned))}"
        for path, module in code_files(tree)
        for line, name in _public_names(path, module)
        if (banned := BANNED_WORDS & {word.lower() for word in _WORD.findall(name)})
    ]


def _paragraphs(text: str) -> Iterator[tuple[int, int]]:
    """First line and length of each paragraph outside of code, tables and headings."""
    kinds = list(_kinds(text))
    for _, group in groupby(kinds, key=lambda kind: kind[1]):
        lines = [line for line, number in group if number]
        if lines:
            yield lines[0], len(lines)


def _kinds(text: str) -> Iterator[tuple[int, int]]:
    """The number of each line and of its paragraph; 0 for lines that are in none."""
    paragraph, in_code, goes_on = 0, False, False
    for number, line in enumerate(text.splitlines(), 1):
        is_fence = bool(_FENCE.match(line))
        in_code ^= is_fence
        if in_code or is_fence or not line.strip() or _NOT_A_PARAGRAPH.match(line):
            goes_on = False
            yield number, 0
            continue
        paragraph += not goes_on or bool(_ITEM.match(line))
        goes_on = True
        yield number, paragraph


def _public_names(path: str, module: ast.Module) -> Iterator[tuple[int, str]]:
    yield 1, PurePosixPath(path).stem
    for node in nodes(module):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            yield node.lineno, node.name
