"""Before a rescale stops a job, its tasks finish their batches: the commit that asks for that."""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Forward only. A commit of a State Syncer that does not know the column ends what it asks for."""
    op.execute("ALTER TABLE running ADD COLUMN quiescing_commit BIGINT")
    op.execute("CREATE INDEX ix_running_quiescing ON running (job) WHERE quiescing_commit = commit_number")
    op.execute(
        "COMMENT ON COLUMN running.quiescing_commit IS"
        " 'tasks take no more rows while this is the row''s commit_number; otherwise it is out of date'"
    )
