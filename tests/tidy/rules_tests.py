"""Tests check something, every time, as fast as the thing they wait for."""

from __future__ import annotations

import ast

from tests.tidy.source import Function, Tree, calls, files_of_tests, functions, imports, nodes

_CHECKING_WORDS = ("assert", "raises", "check", "expect", "verify", "run_state_machine", "wait_until")
_SKIPPING = {"skip", "skipif", "xfail", "importorskip"}


def every_test_asserts_something(tree: Tree) -> list[str]:
    """A test that only runs code shows nothing."""
    return [
        f"{path}:{function.lineno} {function.name} asserts nothing"
        for path, module in files_of_tests(tree)
        for function in functions(module)
        if function.name.startswith("test_") and _is_a_test_file(path) and not _asserts(function)
    ]


def tests_never_sleep(tree: Tree) -> list[str]:
    """Waiting is for a condition with a deadline (`wait_until`), never for a time."""
    found = []
    for path, module in files_of_tests(tree):
        found += [f"{path}:{call.lineno} sleeps" for call, name in calls(module) if name.split(".")[-1] == "sleep"]
        found += [f"{path}:{line} imports sleep" for line, name in imports(module) if name.endswith(".sleep")]
    return found


def tests_are_never_skipped(tree: Tree) -> list[str]:
    """What cannot run here is made to run, or is not a test."""
    return [
        f"{path}:{node.lineno} skips"
        for path, module in files_of_tests(tree)
        for node in nodes(module)
        if isinstance(node, ast.Attribute) and node.attr in _SKIPPING and ast.unparse(node).startswith("pytest.")
    ]


def benches_finish_when_their_servers_are_gone(tree: Tree) -> list[str]:
    """Servers and hosts print until they have ended, and the figures are the last line that a bench prints."""
    return [
        f"{path}:{call.lineno} finishes inside a `with`"
        for path, module in files_of_tests(tree)
        if path.startswith("tests/bench/")
        for block in nodes(module)
        if isinstance(block, ast.With)
        for call, name in calls(block)
        if name == "finish"
    ]


def _is_a_test_file(path: str) -> bool:
    return path.split("/")[-1].startswith("test_")


def _asserts(function: Function) -> bool:
    if any(isinstance(node, ast.Assert) for node in nodes(function)):
        return True
    return any(word in name.lower() for _, name in calls(function) for word in _CHECKING_WORDS)
