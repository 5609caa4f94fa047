"""Causes of real failures on real processes: the right one is the first."""

from __future__ import annotations

import psycopg
import pytest

from penstock.control.process import wait_until
from penstock.local.stack import LocalStack
from penstock.model.causes import CauseKind
from penstock.store.address import libpq_url
from penstock.wire.causes import CauseView
from tests.support.stack.rows import RowJob

FOUND_S = 60.0
NOTHING_FITS = "never"


@pytest.mark.long
def test_why_a_job_crashes(stack: LocalStack, rows: RowJob) -> None:
    """1. Rows flow, and there is no cause. 2. The table of the output refuses all rows: the output is the cause. 3. It
    takes them again. 4. Somebody overrides the query by one that divides by zero: the change is the cause, and names
    the layer, the field and the error. 5. The layer is dropped. Every row is there once."""
    rows.send_and_wait()
    with stack.client() as client:
        assert client.causes(rows.name).causes == []
        _execute(stack, f"ALTER TABLE {rows.name} ADD CONSTRAINT {NOTHING_FITS} CHECK (false) NOT VALID")
        rows.send(8)
        first = _first(stack, rows, CauseKind.OUTPUT_ERROR)
        assert NOTHING_FITS in first.evidence[0]
        _execute(stack, f"ALTER TABLE {rows.name} DROP CONSTRAINT {NOTHING_FITS}")
        rows.send_and_wait()
        rows.override({"query": {"sql": "SELECT id DIV (id - id) AS id FROM rows"}})
        try:
            rows.wait_converged()  # or the old query could read the rows
            rows.send(8)
            first = _first(stack, rows, CauseKind.RECENT_CHANGE)
            assert "the layer oncall" in first.summary
            assert "query.sql" in first.evidence[0]
            further = client.causes(rows.name).causes[1:]
            assert any("DIVIDE_BY_ZERO" in told for cause in further for told in cause.evidence)
        finally:
            client.drop_layer(rows.name, "oncall", if_match=client.get_layer(rows.name, "oncall").version)
    rows.send_and_wait()
    rows.assert_exact()


def _first(stack: LocalStack, rows: RowJob, kind: CauseKind) -> CauseView:
    """The first cause, once there is one of the kind; whatever came before."""
    seen: list[CauseView] = []

    def is_first() -> bool:
        seen[:] = client.causes(rows.name).causes
        return bool(seen) and seen[0].kind == kind

    with stack.client() as client:
        try:
            wait_until(is_first, FOUND_S, f"{kind} to be the first cause")
        except TimeoutError as error:
            job = client.get_job(rows.name)
            raise AssertionError(
                f"{kind} is not the first of {seen}; {job.health} {job.reason} {job.converged}"
            ) from error
    return seen[0]


def _execute(stack: LocalStack, statement: str) -> None:
    with psycopg.connect(libpq_url(stack.plan.connections["demo"]), autocommit=True) as connection:
        connection.execute(statement.encode())
