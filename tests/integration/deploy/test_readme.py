"""The commands of `deploy/README.md` as they are written, where this machine can run them: all but docker, kubectl,
helm and systemctl."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml

from penstock.identity.authority import read
from penstock.local.postgres import program
from penstock.store.address import libpq_url
from penstock.store.roles import SERVICE, TASK_MANAGER
from tests.support.deploy import chart
from tests.tidy.source import REPOSITORY

pytestmark = pytest.mark.long
README = REPOSITORY / "deploy" / "README.md"
_PROGRAMS = os.pathsep.join(
    (str(Path(sys.prefix) / "bin"), str(Path(program("psql")).parent), "/usr/sbin:/usr/bin:/sbin:/bin")
)
_IDENTITY = "penstock-identity-"
_BLOCK = re.compile(r"^( *)```\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
# What is written to `/etc` is gone with the mount namespace.
_MACHINE = """
mount -t tmpfs -o mode=755 box "$1"; cp -a /etc/. "$1"; mount --bind "$1" /etc
systemctl() { echo "systemctl $*"; }
"""
_SHOWN = """
getent passwd penstock penstock-tasks | cut -d : -f 1,7
cd /etc; stat -c "%a %U %n" penstock penstock/*; find systemd/system -path "*penstock*" -type f
"""


def block_with(words: str) -> str:
    """The only block of commands that has these words."""
    [found] = [block for _, block in _BLOCK.findall(README.read_text()) if words in block]
    return textwrap.dedent(found)


def sh(script: str, folder: Path, *more: str, given: str = "") -> str:
    """What a shell says, without a terminal. Raises AssertionError when it fails."""
    done = subprocess.run(
        ["bash", "-euc", script, "bash", *more],
        cwd=folder,
        env={"PATH": _PROGRAMS, "HOME": str(folder)},
        input=given,
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,
    )
    assert done.returncode == 0, (done.stdout, done.stderr)
    return done.stdout


@pytest.fixture
def steps(empty_database_url: str, tmp_path: Path) -> Path:
    """The folder where steps 1 and 2 of Helm were done, with the store of the test."""
    begin = block_with("penstock init --roles --cell north")
    begin = begin.replace("postgresql://OWNER@HOST/penstock", f"'{empty_database_url}'")
    begin = begin.replace("/srv/penstock", str(tmp_path))
    told = sh(begin + "\n" + block_with("certificates issue task_manager"), tmp_path, given="one\none\ntwo\ntwo\n")
    assert "admin token, shown only now: " in told
    return tmp_path


def pods() -> Iterator[tuple[str, Any, int]]:
    """Of each object that makes pods: its name with the release `penstock`, its pods, how many there are."""
    text = chart.RENDERED.read_text().replace(f"{chart.RELEASE}-", "penstock-")
    for each in yaml.load_all(text, yaml.CSafeLoader):
        if each["kind"] in ("Deployment", "StatefulSet"):
            yield each["metadata"]["name"], each["spec"]["template"]["spec"], each["spec"]["replicas"]


def secret_of(pod: Any) -> str:
    """The folder of the identity that a pod mounts."""
    [found] = [
        name.removeprefix(_IDENTITY)
        for each in pod["volumes"]
        if (name := each.get("secret", {}).get("secretName", "")).startswith(_IDENTITY)
    ]
    return found


def test_helm_each_pod_finds_a_certificate_with_its_name(steps: Path) -> None:
    """1. Each Secret that pods mount is made of a folder. 2. A certificate in it has the name by which others call. 3.
    Prometheus has what a ServiceMonitor names. 4. No folder is for nobody."""
    used = {"observer"}
    for name, pod, replicas in pods():
        folder, [container] = secret_of(pod), pod["containers"]
        service = container["args"][0].removeprefix("services.")
        is_task_manager = service == "task_manager"
        members = [f"{name}-{index}" for index in range(replicas)] if is_task_manager else [""]
        for member in members:
            stem = f"{service}.{member}" if member else service
            made = read((steps / "out" / folder / f"{stem}.crt").read_bytes(), "north")
            assert (f"{member}.{name}" if member else name) in made.hosts
            assert (steps / "out" / folder / f"{stem}.key").exists()
        assert (steps / "out" / folder / "authority.crt").exists()
        used.add(folder)
    assert {each.name for each in (steps / "out").iterdir()} == used
    monitors = [each for each in chart.rendered() if each["kind"] == "ServiceMonitor"]
    for named in re.findall(r"'name': 'penstock-identity-observer', 'key': '([\w.]+)'", str(monitors)):
        assert (steps / "out" / "observer" / named).exists()


def test_helm_the_store_has_the_roles_and_passwords_that_step_1_makes(steps: Path, empty_database_url: str) -> None:
    """As SCRAM verifiers, of another password each."""
    with psycopg.connect(libpq_url(empty_database_url)) as connection:
        found = connection.execute(
            "SELECT rolname, rolpassword FROM pg_authid WHERE rolname = ANY(%s)", ([SERVICE, TASK_MANAGER],)
        )
        passwords = dict(found.fetchall())
    assert passwords.keys() == {SERVICE, TASK_MANAGER}
    assert all(each.startswith("SCRAM-SHA-256$") for each in passwords.values())


def test_helm_the_secrets_of_step_3_have_the_keys_that_the_chart_reads() -> None:
    """Tokens are made later."""
    written: dict[str, set[str]] = {"penstock-tokens": {"scaler", "state_syncer"}}
    commands = block_with("helm install").replace("\\\n", " ")
    for name, rest in re.findall(r"kubectl create secret generic ([\w-]+) (.*)", commands):
        written[name] = set(re.findall(r"--from-literal=(\w+)=", rest))
    read_by_pods: dict[str, set[str]] = {}
    for name, key in re.findall(r"'secretKeyRef': {'name': '([\w-]+)', 'key': '(\w+)'", str(chart.rendered())):
        read_by_pods.setdefault(name, set()).add(key)
    assert {name: keys for name, keys in read_by_pods.items() if name in written} == {
        name: keys for name, keys in written.items() if keys
    }


def test_systemd_the_lines_make_accounts_settings_and_units(tmp_path: Path) -> None:
    """On a machine whose `/etc` is a copy. `systemctl` is only told."""
    script = _MACHINE + block_with("useradd --system") + _SHOWN
    (tmp_path / "etc").mkdir()
    words = "unshare --mount --propagation private bash -euc"
    said = sh(f'{words} "$1" bash "$2"', REPOSITORY, script, str(tmp_path / "etc")).splitlines()
    assert {f"{name}:/usr/sbin/nologin" for name in ("penstock", "penstock-tasks")} < set(said)
    assert [each for each in said if each.startswith("systemctl")] == [
        "systemctl daemon-reload",
        "systemctl enable --now penstock-job-service",
    ]
    folder = REPOSITORY / "deploy" / "systemd"
    modes = {
        f"{'644' if path.stem == 'cell' else '600'} root penstock/{path.name}"
        for path in folder.glob("environment/*.env")
    }
    assert {each for each in said if " root penstock" in each} == {*modes, "755 root penstock"}
    units = {f"systemd/system/{path.relative_to(folder)}" for path in folder.glob("penstock-*/*")}
    units |= {f"systemd/system/{path.name}" for path in folder.glob("penstock-*.service")}
    assert {each for each in said if each.startswith("systemd/")} == units
    assert not (Path("/etc") / "penstock").exists()
