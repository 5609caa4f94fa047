"""Where jobs may read tables and streams, and write: below the roots that the cell allows. Pure; no look at any disk.

`penstock.spark.paths` asks the same of what a path comes to, links resolved, before a host reads or writes there.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import unquote

from penstock.config.model import DeltaOutput, FilesOutput, JobConfig
from penstock.config.problems import Problem

Argument = str | int | float | bool | None
ROOTS_SETTING = "PENSTOCK_PATH_ROOTS"
RULE = "below_path_roots"
PLACEHOLDER = re.compile(r"\$\{\s*([^}]*?)\s*\}")
_HADOOP = re.compile(r"(?:([A-Za-z][A-Za-z0-9+.-]*):)?(?://([^/]*))?(.*)", re.DOTALL)
_LEAVES = re.compile(r"[{}\\]|(^|/)\.\.(/|$)")
_LOCAL = ("", "file")


class Place(NamedTuple):
    """A Hadoop path: file system, authority (a bucket, a name node), and path without `.` and repeated slashes."""

    scheme: str
    authority: str
    path: str

    @property
    def is_local(self) -> bool:
        """Whether it is on the machine that looks."""
        return self.scheme == "file"


def place_of(path: str) -> Place | None:
    """The place that a Hadoop path names; None for one that is relative or names another machine's file system.

    None also for one with `..`: behind a link Hadoop and the kernel take it for different folders. And for one with
    braces or backslashes, of which Hadoop makes other paths, also with `..`.
    """
    found = _HADOOP.fullmatch(path)
    if found is None:
        return None
    scheme, authority = (found[1] or "").lower(), found[2] or ""
    rest = found[3] or ("/" if authority else "")  # a whole bucket
    scheme = "file" if scheme in _LOCAL else scheme
    if not rest.startswith("/") or "\0" in rest or _LEAVES.search(rest) or (scheme == "file" and authority):
        return None
    # POSIX keeps two leading slashes apart from one.
    return Place(scheme, authority, posixpath.normpath("/" + rest.lstrip("/")))


def is_below(path: str, roots: Sequence[str]) -> bool:
    """Whether a Hadoop path is below one of the roots, in all readings of it: parts of a URI may be quoted."""
    readings = {path, unquote(path)}
    return all(any(_lies_below(place_of(each), place_of(root)) for root in roots) for each in readings)


def path_fields(config: JobConfig) -> Iterator[tuple[str, str]]:
    """The paths of a job, with their fields; arguments are put in."""
    for name, stream in config.streams.items():
        if stream.path is not None:
            yield f"streams.{name}.path", stream.path
    for name, table in config.tables.items():
        yield f"tables.{name}.path", with_arguments(table.path, config.args)
    for field, output in config.outputs.items():
        if isinstance(output, DeltaOutput | FilesOutput):
            yield f"{field}.path", output.path


def path_problems(
    config: JobConfig, roots: Sequence[str], *, kept: Collection[tuple[str, str]] = ()
) -> Iterator[Problem]:
    """The paths of a job that are below no root, but for those `kept`: fields with their paths."""
    for field, path in path_fields(config):
        if not is_below(path, roots) and (field, path) not in kept:
            yield outside(field, path, roots)


def outside(field: str, path: str, roots: Sequence[str]) -> Problem:
    """The problem with a path that is below no root, or may leave it."""
    if ".." in unquote(path).split("/"):
        told = "a path may have no .. in it, since behind a link it may lead to another folder than it seems"
        return Problem(field, RULE, f"{field}: a job may not use {path}: {told}. Write the path that is meant")
    if any(sign in unquote(path) for sign in "{}\\"):
        told = "a path may have no braces and no backslash, of which other paths are made; * and ? may stand in it"
        return Problem(field, RULE, f"{field}: a job may not use {path}: {told}")
    allowed = f"allowed are paths below {', '.join(roots)}" if roots else "this cell allows none"
    return Problem(field, RULE, f"{field}: a job may not use {path}: {allowed} ({ROOTS_SETTING})")


def with_arguments(text: str, args: Mapping[str, Argument]) -> str:
    """`text` with each `${name}` replaced by that argument; one that the job does not have stays as it is written."""
    return PLACEHOLDER.sub(lambda each: str(args[each[1]]) if each[1] in args else each[0], text)


def _lies_below(place: Place | None, root: Place | None) -> bool:
    if place is None or root is None or place[:2] != root[:2]:
        return False
    return place.path.startswith(root.path if root.path == "/" else f"{root.path}/") and place.path != root.path
