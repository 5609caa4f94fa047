-- What operators ask of a rollout that is under way, and what the history says of it and of cancelled restores.

-- A lock that is not had soon is given up: whoever waits for it holds up all who come after.
SET LOCAL lock_timeout = '5s';

ALTER TABLE sync_state ADD COLUMN rollout_order JSONB CHECK (rollout_order->>'action' IN ('pause','abort'));
COMMENT ON COLUMN sync_state.rollout_order IS 'what an operator asked of the rollout that the plan records; written by the Job Service';

-- NOT VALID: the rows that are there keep the shorter list, so the table need not be read under the lock.
ALTER TABLE history DROP CONSTRAINT history_action_check;
ALTER TABLE history ADD CONSTRAINT history_action_check CHECK (action IN (
    'create','put','patch','drop','expire','revert','delete','forget','restart','release','restore',
    'cancel_restore','pause_rollout','resume_rollout','abort_rollout')) NOT VALID;
