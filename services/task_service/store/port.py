"""The port of the template cache to the job store."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from decimal import Decimal

from sqlalchemy import Engine, text

from penstock.model.alerts import AlertKind
from penstock.store.alerts import clear_alerts, raise_alert, replace_alerts
from penstock.store.cluster import read_facts
from penstock.store.engine import snapshot, transaction
from services.task_service.store.rows import Changes, StoredTemplate

# One statement reads one moment, so no commit up to the counter's value is missed. `forgotten` is never purged (it also
# keeps the generations that were used), so a delta can name every removal.
# A rescale commits that tasks take no more rows, and that they stop, together with its plan.
_CHANGES = text(
    """
    SELECT r.job, r.config::text AS config, r.revision, r.generation, r.restarts, r.stopping, r.commit_number,
        r.rollout::text AS rollout, coalesce(r.quiescing_commit = r.commit_number, false) AS quiescing,
        CASE WHEN r.level_commit = r.commit_number THEN r.level_ms END AS level_ms,
        CASE WHEN (r.stopping OR r.quiescing_commit = r.commit_number) AND s.plan->>'kind' IS DISTINCT FROM 'rollout'
            AND (s.plan->>'generation')::bigint > r.generation
            THEN jsonb_build_object('revision', s.plan->'revision', 'generation', s.plan->'generation',
                'restarts', s.plan->'restarts', 'config', s.plan->'config')::text END AS coming
    FROM running r LEFT JOIN sync_state s ON s.job = r.job AND s.plan IS NOT NULL
    WHERE r.commit_number > :after
    UNION ALL
    SELECT job, NULL, NULL, NULL, NULL, NULL, commit_number, NULL, NULL, NULL, NULL
    FROM forgotten WHERE commit_number > :after
    UNION ALL
    SELECT NULL, NULL, NULL, NULL, NULL, NULL, value, NULL, NULL, NULL, NULL
    FROM counters WHERE name = 'running_commit'
    """
)

# No row may end the statement: what is no number says nothing, and each number of JSON is a numeric.
_HELD_BACK = text(
    """
    SELECT job, index, progress->>'held_back_by' AS producer,
        CASE WHEN jsonb_typeof(progress->'state_rows') = 'number' THEN CAST(progress->>'state_rows' AS numeric) END
            AS state_rows
    FROM tasks
    WHERE state = 'running' AND CASE WHEN jsonb_typeof(progress->'held_back_seconds') = 'number'
        THEN CAST(progress->>'held_back_seconds' AS numeric) >= CAST(:seconds AS numeric) END
    """
)
# The thread that alerts also reads the templates.
_WAIT_BRIEFLY = text("SET LOCAL lock_timeout = '1s'")


class TemplateStore:
    """The job store for the template cache. Every call raises Unavailable and StatementTimedOut. Those that alert wait
    1 s for a lock, and raise TransactionEnded then."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def read(self, after: int = -1) -> Changes:
        """Everything that was committed above `after`, read at one moment; by default all."""
        with snapshot(self._engine) as connection:
            rows = connection.execute(_CHANGES, {"after": after}).all()
            facts = read_facts(connection)
        return Changes(
            commit_number=next(row.commit_number for row in rows if row.job is None),
            shard_count=facts.sharding.count,
            stored=tuple(StoredTemplate._make(row) for row in rows if row.config is not None),
            removed={row.job: row.commit_number for row in rows if row.job is not None and row.config is None},
            incarnation=facts.incarnation,
        )

    def alert(self, broken: Mapping[str, str], mended: Collection[str]) -> None:
        """Raises an alert for each broken running row (job to reason), and clears the alerts of mended jobs."""
        with transaction(self._engine) as connection:
            connection.execute(_WAIT_BRIEFLY)
            for job, reason in broken.items():
                message = f"the running configuration of {job} does not validate: its tasks stay as they are"
                raise_alert(connection, AlertKind.BROKEN_RUNNING_ROW, job, message, {"reason": reason})
            clear_alerts(connection, AlertKind.BROKEN_RUNNING_ROW, mended)

    def alert_waiting_tasks(self, after_seconds: float) -> None:
        """Makes tasks that have waited so long for a silent producer the open alerts of that kind."""
        with transaction(self._engine) as connection:
            connection.execute(_WAIT_BRIEFLY)
            rows = connection.execute(_HELD_BACK, {"seconds": after_seconds}).all()
            found = {
                (AlertKind.HELD_BACK, f"{row.job}/{row.index}"): (
                    f"the results of {row.job}/{row.index} wait for {row.producer}, which writes to its input and is"
                    f" behind or dead{_kept(row.state_rows)}",
                    {"held_back_by": row.producer},
                )
                for row in rows
            }
            replace_alerts(connection, [AlertKind.HELD_BACK], found)


def _kept(state_rows: Decimal | None) -> str:
    """What waits meanwhile, when the alert is raised. Unknown is not told."""
    if not state_rows:
        return ""
    return f". Rows that come meanwhile stay in its state, without a limit: {state_rows:,.0f} when this was raised"
