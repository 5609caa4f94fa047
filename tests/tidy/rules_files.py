"""Which files there are, and what must not stand in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from posixpath import normpath

from tests.tidy.source import Tree

# fmt: off
TOP_LEVEL = frozenset([
    "services", "libs", "migrations", "deploy", "tests", "docker-compose.yml", "README.md", "pyproject.toml",
    "requirements.lock", "Makefile", ".ci", ".gitignore", ".dockerignore", "LICENSE",
])
# fmt: on
README_LINES = 120
_BUILD_NAMES = {"pyproject.toml", "requirements.lock", "Makefile", "docker-compose.yml", "Dockerfile", "run", "pom.xml"}
_BUILD_SUFFIXES = {".lock", ".xml", ".sh", ".cfg", ".dockerfile"}
_ADDRESS = re.compile(r"[a-z+]+://(?!127\.0\.0\.1|localhost|www\.w3\.org|\$|\{)[\w-]+\.", re.IGNORECASE)
_INDEX_OPTION = re.compile(r"(?<!no-)\b(extra-)?index-url\b|\bfind-links\b|\btrusted-host\b")
_IMAGE_OF_A_HOST = re.compile(r"^\s*(FROM|image:)\s+[\"']?[\w-]+(\.[\w-]+)+(:\d+)?/", re.IGNORECASE)
_CODE_BLOCK = re.compile(r"```.*?```", re.DOTALL)
_NAMED_FILE = re.compile(r"`((?:\.\./)*[\w./]*\w\.(?:py|java|sh))`")
_PLACEHOLDER = "NNNN"
_PATH_OF_A_MACHINE = re.compile(r"(?<![\w.])/(root|home|work|farm|Users)/")


def top_level_names_are_of_the_design(tree: Tree) -> list[str]:
    """The root shows the design and nothing else."""
    return [f"{name} is not a top-level name" for name in sorted({path.split("/")[0] for path in tree} - TOP_LEVEL)]


def parts_have_a_readme_of_a_page(tree: Tree) -> list[str]:
    """Each service and each package of penstock says what it promises, reads and writes, on a page."""
    found = []
    for folder in sorted(_parts(tree)):
        readme = tree.get(f"{folder}/README.md")
        if readme is None:
            found.append(f"{folder} has no README.md")
        elif len(readme.splitlines()) > README_LINES:
            found.append(f"{folder}/README.md has {len(readme.splitlines())} lines")
    return found


def build_files_name_no_host(tree: Tree) -> list[str]:
    """Where packages, jars and images come from is set by whoever builds, not by this repository."""
    marks = (_ADDRESS, _INDEX_OPTION, _IMAGE_OF_A_HOST)
    files = {path: text for path, text in tree.items() if _is_build_file(path)}
    return [f"{place} names a host" for mark in marks for place in _matches(files, mark)]


def no_path_of_one_machine(tree: Tree) -> list[str]:
    """Nothing depends on where somebody's checkout is."""
    return [f"{place} is a path of one machine" for place in _matches(tree, _PATH_OF_A_MACHINE)]


def files_that_a_page_names_are_there(tree: Tree) -> list[str]:
    """A page names files by their paths from its own folder, or by the ends of their paths."""
    ends = {"/".join(parts[n:]) for parts in (path.split("/") for path in tree) for n in range(len(parts))}
    found = []
    for page, text in tree.items():
        if page.endswith(".md"):
            named = _NAMED_FILE.findall(_CODE_BLOCK.sub("", text))
            below = PurePosixPath(page).parent
            gone = [name for name in named if name not in ends and normpath(below / name) not in tree]
            found += [f"{page} names {name}, which is not there" for name in gone if _PLACEHOLDER not in name]
    return found


def _parts(tree: Tree) -> set[str]:
    """Folders of services and of penstock's packages that hold code."""
    folders = set()
    for path, text in tree.items():
        parts = PurePosixPath(path).parts
        if path.endswith(".py") and text.strip():
            if parts[0] == "services" and len(parts) > 2:
                folders.add("/".join(parts[:2]))
            if parts[:2] == ("libs", "penstock") and len(parts) > 3:
                folders.add("/".join(parts[:3]))
    return folders


def _is_build_file(path: str) -> bool:
    name = PurePosixPath(path)
    return name.name in _BUILD_NAMES or name.suffix in _BUILD_SUFFIXES or name.name.startswith("Dockerfile")


def _matches(files: Tree, mark: re.Pattern[str]) -> Iterator[str]:
    for path, text in files.items():
        for number, line in enumerate(text.splitlines(), 1):
            if mark.search(line):
                yield f"{path}:{number}"
