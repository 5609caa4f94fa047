"""Alembic's entry: runs on the connection, and inside the transaction, that `penstock.store.migrate` hands over."""

from __future__ import annotations

from alembic import context

from penstock.store.schema import metadata

context.configure(
    connection=context.config.attributes["connection"], target_metadata=metadata, compare_server_default=True
)
with context.begin_transaction():
    context.run_migrations()
