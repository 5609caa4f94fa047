-- Tasks that should leave a container where they are slow, and stay away from it for a while.

SET LOCAL lock_timeout = '5s';

CREATE TABLE avoided (
    job TEXT NOT NULL,
    index INTEGER NOT NULL CHECK (index >= 0),
    container TEXT NOT NULL,
    until TIMESTAMP WITH TIME ZONE NOT NULL,
    author TEXT NOT NULL,
    reason TEXT DEFAULT '' NOT NULL,
    PRIMARY KEY (job, index, container)
);
COMMENT ON TABLE avoided IS 'Which task avoids which container, until when. Rows that are over go with the next write.';

-- NOT VALID: the rows that are there keep the shorter list, so the table need not be read under the lock.
ALTER TABLE cell_history DROP CONSTRAINT cell_history_action_check;
ALTER TABLE cell_history ADD CONSTRAINT cell_history_action_check CHECK (action IN (
    'token_created','token_rotated','token_revoked','admin_recovered','shard_count_asked',
    'layer_added','layer_changed','layer_dropped',
    'container_cordoned','container_drained','container_uncordoned','container_forgotten',
    'alert_acknowledged','acknowledgement_ended','silence_created','silence_ended',
    'secret_given','secret_taken','task_moved')) NOT VALID;
COMMENT ON COLUMN cell_history.subject IS
    'the token, layer, container, alert, silence, secret or task; cell: the cell itself';
