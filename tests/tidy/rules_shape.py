"""Sizes, docstrings and log lines."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.tidy.source import Tree, calls, code_files, functions, line_count, python_files

FILE_LINES = 400
FUNCTION_LINES = 70
USUAL_FUNCTION_LINES = 30
USUAL_SHARE = 0.9
SELF_EVIDENT_LINES = 6
_LOG_METHODS = {"debug", "info", "warning", "error", "exception", "critical"}


def files_are_at_most_400_lines(tree: Tree) -> list[str]:
    """A longer file has two subjects."""
    sizes = {path: len(text.splitlines()) for path, text in tree.items() if path.endswith((".py", ".java"))}
    return [f"{path} has {size} lines" for path, size in sizes.items() if size > FILE_LINES]


def functions_are_at_most_70_lines(tree: Tree) -> list[str]:
    """A function fits on a screen."""
    return [
        f"{path}:{function.lineno} {function.name} has {line_count(function)} lines"
        for path, module in python_files(tree)
        for function in functions(module)
        if line_count(function) > FUNCTION_LINES
    ]


def nine_functions_in_ten_are_under_30_lines(tree: Tree) -> list[str]:
    """The usual function is small."""
    lengths = [line_count(function) for _, module in code_files(tree) for function in functions(module)]
    usual = sum(length < USUAL_FUNCTION_LINES for length in lengths)
    if usual >= USUAL_SHARE * len(lengths):
        return []
    return [f"{usual} of {len(lengths)} functions are under {USUAL_FUNCTION_LINES} lines"]


def modules_say_what_they_are(tree: Tree) -> list[str]:
    """Every module that is not empty begins with a docstring."""
    return [
        f"{path}:1 no docstring"
        for path, module in python_files(tree)
        if module.body and ast.get_docstring(module) is None
    ]


def public_functions_have_docstrings(tree: Tree) -> list[str]:
    """What services share says its units and errors, unless it is so short that it says them itself."""
    return [
        f"{path}:{function.lineno} {function.name} has no docstring"
        for path, module in python_files(tree, "libs/penstock/")
        for function in functions(module)
        if not function.name.startswith("_") and line_count(function) > SELF_EVIDENT_LINES
        if ast.get_docstring(function) is None
    ]


def log_lines_are_lower_case_without_full_stop(tree: Tree) -> list[str]:
    """One form for all log lines: the event in lower case, values as fields."""
    return [f"{path}:{line} logs {event!r}" for path, module in code_files(tree) for line, event in _bad_events(module)]


def _bad_events(module: ast.Module) -> Iterator[tuple[int, str]]:
    for call, name in calls(module):
        receiver, _, method = name.rpartition(".")
        if method not in _LOG_METHODS or receiver.split(".")[-1].lstrip("_") not in {"log", "logger"} or not call.args:
            continue
        event = call.args[0]
        if not isinstance(event, ast.Constant) or not isinstance(event.value, str):
            yield call.lineno, ast.unparse(event)
        elif event.value[:1].isupper() or event.value.endswith("."):
            yield call.lineno, event.value
