"""Postgres of Compose as a plain process: its environment, its health check, and the URL by which others reach it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.control.process import start_child, stop_group, wait_until
from penstock.local.postgres import program
from tests.support.deploy import described
from tests.support.deploy.boxes import Box, networks
from tests.support.deploy.cell import give, store_of

pytestmark = pytest.mark.long
_RUN, _VOLUME = "/run/postgresql", "/var/lib/postgresql"
_DATA = f"{_VOLUME}/18/docker"
_START_SECONDS = 60.0
# What the entry point of the image does with an empty volume: a first server that only it reaches makes the database.
_FIRST = """
umask 077
printf '%s\\n' "$POSTGRES_PASSWORD" > /tmp/password
initdb --username="$POSTGRES_USER" --pwfile=/tmp/password --auth-local=trust --auth-host=scram-sha-256
echo 'host all all all scram-sha-256' >> "$PGDATA/pg_hba.conf"
pg_ctl --wait start --options="-k $PGHOST -c listen_addresses=''" > /dev/null
createdb --username="$POSTGRES_USER" "$POSTGRES_USER"
if "$@"; then echo 'healthy too early'; fi
pg_ctl --wait stop
"""
# Defaults of the image, as is UTF-8: the folder of the socket, and that all addresses are listened at.
_SERVER = ("postgres", "-k", _RUN, "-c", "listen_addresses=*")


def _environment() -> dict[str, str]:
    programs = f"{Path(program('initdb')).parent}:/usr/bin:/bin"
    own = {name: str(value) for name, value in described.composed("postgres")["environment"].items()}
    return {**own, "PGDATA": _DATA, "PGHOST": _RUN, "PATH": programs, "LANG": "C.UTF-8"}


@contextmanager
def _boxes(folder: Path, account: str) -> Iterator[tuple[Box, Box]]:
    """That of Postgres, by its name in Compose, and that of who asks it."""
    written = {_VOLUME: folder / "volume", _RUN: folder / "run"}
    for each in (*written.values(), *(folder / name for name in ("root", "other", "authority"))):
        each.mkdir(mode=0o700)
        give(each, account)
    with networks(2) as [(postgres, address), (other, _)]:
        (hosts := folder / "hosts").write_text(f"127.0.0.1 localhost\n{address} postgres\n")
        yield (
            Box(folder / "root", hosts, postgres, account, False, written, {}),
            Box(folder / "other", hosts, other, account, False, {"/authority": folder / "authority"}, {}),
        )


def test_postgres_of_compose_is_reached_by_the_url_of_the_other_services(database_url: str, tmp_path: Path) -> None:
    """With the server of the tests, which is of the same release. 1. Its health check fails before it runs, and while
    its entry point makes the database. 2. What `migrate` runs makes the store in it, by TCP and with the password of
    `.env`. 3. A wrong password is refused. 4. It starts again on its volume."""
    image, check = described.composed("postgres"), described.composed("postgres")["healthcheck"]["test"][1:]
    assert image["image"].partition(":")[2] == Path(program("postgres")).parents[1].name.removeprefix("pginstall")
    assert [each.partition(":")[2] for each in image["volumes"]] == [_VOLUME]
    assert image.get("command") is None
    words, environment = described.command_of("migrate")
    wrong = environment["PENSTOCK_DATABASE_URL"].replace(described.SECRETS["POSTGRES_PASSWORD"], "wrong")
    with _boxes(tmp_path, store_of(database_url).owner()) as (server, client):
        assert server.run(check, _environment()).returncode != 0
        made = server.run(["sh", "-ec", _FIRST, "sh", *check], _environment())
        assert made.returncode == 0, made.stderr
        assert "healthy too early" not in made.stdout
        for told in ("admin token, shown only now: ", "an admin token exists already"):
            child = start_child(server.command(_SERVER, _environment()), log_path=tmp_path / "log")
            try:
                wait_until(lambda: server.run(check, _environment()).returncode == 0, _START_SECONDS, "Postgres")
                said = client.run(words, environment)
                assert told in said.stdout, said.stderr
                refused = client.run(words, {**environment, "PENSTOCK_DATABASE_URL": wrong})
                assert "refuses the account, password or database of PENSTOCK_DATABASE_URL" in refused.stderr
            finally:
                stop_group(child, 30)
