"""Tokens: they expire and are rotated, and the last admin that can be used stays."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from sqlalchemy import text

from penstock.control.clock import SystemClock
from penstock.control.errors import Conflict, NotFound, Unauthenticated
from penstock.control.process import wait_until
from penstock.model.alerts import AlertKind
from penstock.store import leases, tokens
from penstock.store.engine import transaction
from penstock.wire.job_client import JobClient
from services.job_service.expiry import LOOP, Expiry
from tests.support.job_service.service import RunningJobService, job_service


def test_the_last_admin_is_not_revoked(service: RunningJobService, client: JobClient) -> None:
    """1. It is the only one. 2. There is another, but that one has expired. 3. There is a good one: it may go. 4. It
    is repeated."""
    with pytest.raises(Conflict) as refused:
        client.revoke_token("admin")
    assert (refused.value.field, refused.value.rule) == ("name", "last_admin")
    client.create_token("second", "admin", expires_in_seconds=3600)
    _expire(service, "second")
    with pytest.raises(Conflict):
        client.revoke_token("admin")
    client.create_token("third", "admin")
    client.revoke_token("admin", reason="left")
    with pytest.raises(Unauthenticated):
        client.tokens()
    with transaction(service.engine) as connection:
        tokens.revoke(connection, "admin", author="third")
        with pytest.raises(Conflict):
            tokens.revoke(connection, "third", author="third")


@pytest.mark.parametrize("attempt", range(5))
def test_two_admins_cannot_revoke_each_other(service: RunningJobService, client: JobClient, attempt: int) -> None:
    client.create_token("second", "admin")
    together = threading.Barrier(2)

    def revoke(name: str) -> bool:
        with transaction(service.engine) as connection:
            connection.execute(text("SELECT FROM tokens"))
            together.wait(30)
            try:
                tokens.revoke(connection, name, author="x")
            except Conflict:
                return False
        return True

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(revoke, ["admin", "second"])) == [False, True]
    with transaction(service.engine) as connection:
        assert tokens.has_usable_admin(connection)


def test_a_token_expires(service: RunningJobService, client: JobClient) -> None:
    with service.client(client.create_token("ann", "reader", expires_in_seconds=3600)) as holder:
        assert holder.fields()
        (ann,) = [token for token in client.tokens() if token.name == "ann"]
        assert ann.expires_at is not None
        _expire(service, "ann")
        with pytest.raises(Unauthenticated, match="expired"):
            holder.fields()


def test_a_token_that_is_remembered_expires_all_the_same(database_url: str) -> None:
    """The service remembers tokens for an hour; this one has less than two seconds."""
    with job_service(database_url, job_service_token_cache_seconds=3600.0) as service, service.client() as admin:
        with service.client(admin.create_token("ann", "reader", expires_in_seconds=2)) as holder:
            assert holder.fields()
            wait_until(lambda: not _is_good(holder), 60.0, "the token to expire")
        assert _is_good(admin)


def test_a_rotated_token_has_two_good_secrets_for_a_while(service: RunningJobService, client: JobClient) -> None:
    """1. Both are good. 2. It is rotated again: three are. 3. The overlap is over: the newest is. 4. It is revoked."""
    secrets = [client.create_token("ann", "reader")]
    secrets += [str(client.rotate_token("ann", reason="monthly").token) for _ in range(2)]
    holders = [service.client(secret) for secret in secrets]
    assert [_is_good(holder) for holder in holders] == [True, True, True]
    with transaction(service.engine) as connection:
        connection.execute(text("UPDATE former_secrets SET good_until = now()"))
    assert [_is_good(holder) for holder in holders] == [False, False, True]
    assert client.rotate_token("ann", overlap_seconds=0).token is not None
    assert [_is_good(holder) for holder in holders] == [False, False, False]
    last = service.client(str(client.rotate_token("ann").token))
    assert _is_good(last)
    client.revoke_token("ann")
    assert not _is_good(last)
    for holder in (*holders, last):
        holder.close()


def test_the_expiry_of_a_rotated_token(service: RunningJobService, client: JobClient) -> None:
    """1. It stays unless one is given. 2. Never. 3. An expired token needs a new one. 4. A revoked one stays so."""
    client.create_token("ann", "reader", expires_in_seconds=3600)
    (before,) = [token for token in client.tokens() if token.name == "ann"]
    assert client.rotate_token("ann").expires_at == before.expires_at
    assert client.rotate_token("ann", expires_in_seconds=None).expires_at is None
    _expire(service, "ann")
    with pytest.raises(Conflict) as refused:
        client.rotate_token("ann")
    assert (refused.value.field, refused.value.rule) == ("expires_in_seconds", "not_expired")
    with service.client(str(client.rotate_token("ann", expires_in_seconds=60).token)) as holder:
        assert _is_good(holder)
    client.revoke_token("ann")
    with pytest.raises(Conflict) as refused:
        client.rotate_token("ann", expires_in_seconds=60)
    assert (refused.value.field, refused.value.rule) == ("name", "not_revoked")
    with pytest.raises(NotFound):
        client.rotate_token("bob")


def test_a_repeated_rotation_changes_nothing_and_shows_nothing(service: RunningJobService, client: JobClient) -> None:
    client.create_token("ann", "reader")
    first = client.rotate_token("ann", idempotency_key="k")
    assert client.rotate_token("ann", idempotency_key="k").token is None
    with service.client(str(first.token)) as holder:
        assert _is_good(holder)
    with transaction(service.engine) as connection:
        kept = connection.execute(text("SELECT string_agg(body::text, ' ') FROM idempotency")).scalar_one()
    assert str(first.token) not in kept


def test_an_alert_comes_before_the_last_admin_ends(service: RunningJobService, client: JobClient) -> None:
    """1. The admin never expires. 2. It does in three days. 3. So says one alert, however often it is looked. 4. It
    has: another text. 5. Who holds the store makes a new one: the alert closes."""
    assert _warned(service) == []
    client.rotate_token("admin", expires_in_seconds=3 * 86_400)
    (warning,) = _warned(service)
    assert "the last admin token, admin, expires at" in warning
    assert _warned(service) == [warning]
    assert client.alerts(kind=AlertKind.ADMIN_TOKEN_ENDING).alerts[0].times == 1
    _expire(service, "admin")
    assert _warned(service) == ["no admin token can be used: `penstock init --recover`, run by who holds the job "
                                "store, makes a new one"]  # fmt: skip
    with transaction(service.engine) as connection:
        assert not tokens.has_usable_admin(connection)
        assert tokens.create_first_admin(connection) is None
        recovered = tokens.recover_admin(connection, "lost")
    assert _warned(service) == []
    with service.client(recovered) as admin:
        entry = admin.cell_history().entries[0]
        assert (entry.action, entry.author, entry.reason) == ("admin_recovered", "init", "lost")


def test_who_made_rotated_and_revoked_a_token_is_recorded(client: JobClient) -> None:
    client.create_token("ann", "reader", reason="new colleague")
    client.rotate_token("ann", reason="monthly")
    client.revoke_token("ann", reason="left")
    client.revoke_token("ann", reason="again")
    entries = client.cell_history(subject="ann").entries
    assert [(entry.action, entry.author, entry.reason) for entry in entries] == [
        ("token_revoked", "admin", "left"),
        ("token_rotated", "admin", "monthly"),
        ("token_created", "admin", "new colleague"),
    ]
    assert "pst_" not in str(entries)


def _expire(service: RunningJobService, name: str) -> None:
    with transaction(service.engine) as connection:
        connection.execute(text("UPDATE tokens SET expires_at = now() WHERE name = :name"), {"name": name})


def _is_good(holder: JobClient) -> bool:
    try:
        holder.fields()
    except Unauthenticated:
        return False
    return True


def _warned(service: RunningJobService) -> list[str]:
    """The warnings after a round of the loop that raises them."""
    with transaction(service.engine) as connection:
        epoch = leases.take(connection, LOOP, "test", url="", seconds=60.0)
    assert epoch is not None
    times = {"answers_kept": timedelta(hours=1), "admin_warning": timedelta(days=14)}
    Expiry(service.engine, SystemClock(), **times).round(epoch)
    with transaction(service.engine) as connection:
        found = text("SELECT message FROM alerts WHERE kind = 'admin_token_ending' AND cleared_at IS NULL")
        return list(connection.execute(found).scalars())
