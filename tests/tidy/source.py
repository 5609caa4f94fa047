"""The source tree as data, so that a rule is a function of it and a bad example is a few lines in a test."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path, PurePosixPath

Tree = Mapping[str, str]
"""File contents by path from the repository's root, with `/`. Binary files are not in it."""

Rule = Callable[[Tree], list[str]]
"""What breaks a house rule, as `path:line what`; empty when nothing does."""

REPOSITORY = Path(__file__).parents[2]
_BINARY = {".png", ".ico", ".jar", ".parquet", ".gz", ".zip"}
_CODE = ("libs/", "services/", "migrations/")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def read_repository() -> dict[str, str]:
    """Every text file that git tracks or would track."""
    command = ["git", "-C", str(REPOSITORY), "ls-files", "-co", "--exclude-standard"]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    files = (name for name in names if PurePosixPath(name).suffix not in _BINARY)
    return {name: (REPOSITORY / name).read_text() for name in files if (REPOSITORY / name).is_file()}


def python_files(tree: Tree, *folders: str) -> Iterator[tuple[str, ast.Module]]:
    """Path and syntax tree of each Python file under the folders; all files without folders."""
    for path, text in tree.items():
        if path.endswith(".py") and (not folders or path.startswith(folders)):
            yield path, parse(text)


def code_files(tree: Tree) -> Iterator[tuple[str, ast.Module]]:
    """The Python files that are the product: not tests, not deployment."""
    return python_files(tree, *_CODE)


def files_of_tests(tree: Tree) -> Iterator[tuple[str, ast.Module]]:
    """The Python files of tests."""
    return python_files(tree, "tests/")


@cache
def parse(text: str) -> ast.Module:
    """The syntax tree of a file's text."""
    return ast.parse(text)


@cache
def nodes(node: ast.AST) -> tuple[ast.AST, ...]:
    """The node and all below it. Most rules look at all nodes of all files."""
    return tuple(ast.walk(node))


def functions(module: ast.Module) -> Iterator[Function]:
    """Every function and method, nested ones too."""
    return (node for node in nodes(module) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def line_count(function: Function) -> int:
    """Lines from `def` to the end, docstring included."""
    return (function.end_lineno or function.lineno) - function.lineno + 1


def imports(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything that is imported: `from a import b` gives `a` and `a.b`."""
    for inner in nodes(node):
        if isinstance(inner, ast.Import):
            yield from ((inner.lineno, alias.name) for alias in inner.names)
        elif isinstance(inner, ast.ImportFrom) and inner.module is not None and inner.level == 0:
            yield inner.lineno, inner.module
            yield from ((inner.lineno, f"{inner.module}.{alias.name}") for alias in inner.names)


def calls(node: ast.AST) -> Iterator[tuple[ast.Call, str]]:
    """Every call with the text of what is called, such as `time.sleep`."""
    for inner in nodes(node):
        if isinstance(inner, ast.Call):
            yield inner, ast.unparse(inner.func)


def module_name(path: str) -> str:
    """`libs/penstock/config/merge.py` is `penstock.config.merge`; a package is named without `__init__`."""
    parts = list(PurePosixPath(path.removeprefix("libs/")).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_within(name: str, package: str) -> bool:
    """Whether the dotted name is the package or something in it."""
    return name == package or name.startswith(f"{package}.")
