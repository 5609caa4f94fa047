"""The systemd units: their words, and the environment that they make."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

FOLDER = Path(__file__).parents[3] / "deploy" / "systemd"
_ETC = "/etc/penstock/"
OPTIONS = {"job_service": ("kafka",), "task_manager": ("kafka", "registry", "s3")}
"""The drop-ins of `options` that a unit can have."""
CREDENTIALS = "/run/credentials"
"""What stands here for the folder that systemd makes of the credentials of a unit."""
Words = dict[str, list[str]]
"""The values of each name, in order."""


def unit_of(service: str) -> Path:
    """The unit of a service."""
    return FOLDER / f"penstock-{service.replace('_', '-')}.service"


def words(service: str, options: Sequence[str] = ()) -> Words:
    """What the section [Service] of a unit says, with what all units have, and with drop-ins of these names."""
    found: Words = defaultdict(list)
    more = [FOLDER / "options" / f"{name}.conf" for name in options]
    for path in (unit_of(service), FOLDER / "penstock-.service.d" / "common.conf", *more):
        section = ""
        for line in path.read_text().splitlines():
            if line.startswith("["):
                section = line
            elif section == "[Service]" and "=" in line and not line.startswith("#"):
                name, _, value = line.partition("=")
                found[name].append(value)
    return found


def environment(service: str, options: Sequence[str] = ()) -> dict[str, str]:
    """What a process of the unit gets, with the example files in the place of those of `/etc/penstock`."""
    said = words(service, options)
    given = [line.replace("%d", CREDENTIALS) for line in said["Environment"]]
    found = dict(_pair(each) for line in given for each in line.split())
    for path in said["EnvironmentFile"]:
        example = FOLDER / "environment" / path.removeprefix(_ETC)
        found |= dict(_pair(line) for line in example.read_text().splitlines() if not line.startswith("#"))
    return found


def _pair(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value.removeprefix("'").removesuffix("'")
