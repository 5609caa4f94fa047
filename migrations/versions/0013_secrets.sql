-- Which jobs may use which secret, with entries in the history of the cell; and calls by which a role without any right on the tables renews a container's lease.

CREATE TABLE secrets (
    name TEXT PRIMARY KEY,
    jobs TEXT[] NOT NULL CHECK (cardinality(jobs) > 0),
    author TEXT NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL
);
COMMENT ON TABLE secrets IS 'Which jobs may use each secret. The values are in files of the containers, never here.';
COMMENT ON COLUMN secrets.jobs IS 'names of jobs; one that ends with * stands for all names that begin so';

SET LOCAL lock_timeout = '5s';
-- NOT VALID: the rows that are there keep the shorter list, so the table need not be read under the lock.
ALTER TABLE cell_history DROP CONSTRAINT cell_history_action_check;
ALTER TABLE cell_history ADD CONSTRAINT cell_history_action_check CHECK (action IN (
    'token_created','token_rotated','token_revoked','admin_recovered','shard_count_asked',
    'layer_added','layer_changed','layer_dropped',
    'container_cordoned','container_drained','container_uncordoned','container_forgotten',
    'alert_acknowledged','acknowledgement_ended','silence_created','silence_ended',
    'secret_given','secret_taken')) NOT VALID;
COMMENT ON COLUMN cell_history.subject IS
    'the token, layer, container, alert, silence or secret; cell: the cell itself';

-- An incarnation is a random name that only its own process and the Shard Manager know: to name it is to be it. The
-- search path is fixed, so that no table of the caller stands in for these.
CREATE FUNCTION take_leases(of_containers TEXT[], formers TEXT[], lives TEXT[], draining TEXT, grace INTERVAL)
    RETURNS TABLE (container TEXT, life TEXT) LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    UPDATE containers SET incarnation = asked.life, lease_renewed_at = clock_timestamp()
    FROM unnest(of_containers, formers, lives) AS asked (container, former, life)
    WHERE name = asked.container AND containers.incarnation IN (asked.former, asked.life) AND state = 'live'
        AND (availability <> draining OR drain_until IS NULL OR drain_until > clock_timestamp() - grace)
    RETURNING name, containers.incarnation
$$;
COMMENT ON FUNCTION take_leases IS 'Renews leases: of each container its name, the incarnation that it may replace, '
    'and its own. Returns those whose lease is renewed.';

-- The same as penstock.store.shards.reissue, for the shards of one's own container. Commits wait for its end.
CREATE FUNCTION reissue_own_shards(of_container TEXT, life TEXT)
    RETURNS VOID LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    fresh BIGINT;
BEGIN
    IF NOT EXISTS (SELECT FROM containers WHERE name = of_container AND incarnation = life AND state = 'live') THEN
        RAISE EXCEPTION '% has another incarnation', of_container USING ERRCODE = 'insufficient_privilege';
    END IF;
    UPDATE counters SET value = value + 1 WHERE name = 'assignment' RETURNING value INTO STRICT fresh;
    UPDATE assignment SET epoch = fresh, moved_at = clock_timestamp() WHERE container = of_container;
    PERFORM pg_notify('penstock_assignment', '');
    PERFORM value FROM counters WHERE name = 'running_commit' FOR SHARE;
END $$;

REVOKE EXECUTE ON FUNCTION take_leases, reissue_own_shards FROM PUBLIC;
