-- The roles of the job store, and all that each may do. `penstock init --roles` runs this, as the owner of the store,
-- again after each upgrade. It takes away what a role had before, so this file is the whole truth.

DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'penstock_task_manager') THEN
        CREATE ROLE penstock_task_manager LOGIN;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'penstock_service') THEN
        CREATE ROLE penstock_service LOGIN;
    END IF;
END $$;

-- Nobody makes tables, also temporary ones, that could stand in for the store's.
REVOKE CREATE ON SCHEMA public FROM PUBLIC;
DO $$ BEGIN
    EXECUTE format('REVOKE TEMPORARY ON DATABASE %I FROM PUBLIC', current_database());
END $$;

REVOKE ALL ON ALL TABLES IN SCHEMA public FROM penstock_task_manager, penstock_service;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA public FROM penstock_task_manager, penstock_service;
-- Everybody may execute a function unless that is taken away, here also from functions that a later release makes.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA public FROM PUBLIC, penstock_task_manager, penstock_service;
ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT EXECUTE ON FUNCTIONS TO penstock_service;

-- Task Managers: which shards are whose, and one's own lease, by functions that ask for the container's incarnation.
GRANT SELECT ON counters, cluster, assignment TO penstock_task_manager;
GRANT EXECUTE ON FUNCTION take_leases, reissue_own_shards TO penstock_task_manager;

-- The services: rows, but no change of the schema, and no way past its triggers.
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO penstock_service;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO penstock_service;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO penstock_service;
-- Rows of the history go only once the archive has them: a trigger sees to that.
REVOKE UPDATE ON history FROM penstock_service;
REVOKE UPDATE, DELETE ON history_archive, cell_history FROM penstock_service;
