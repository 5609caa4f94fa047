"""Addresses at which nothing answers: refused at once."""

from __future__ import annotations

from sqlalchemy import Engine

from penstock.store.engine import connect

NOWHERE = "http://127.0.0.1:1"


def unreachable_engine() -> Engine:
    """A job store that cannot be reached."""
    return connect("postgresql://127.0.0.1:1/nowhere")
