"""The whole schema of the job store: once this is imported, `metadata` knows all tables."""

from __future__ import annotations

from penstock.store.cluster_tables import containers

metadata = containers.metadata
