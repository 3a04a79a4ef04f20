-- Makes the roles that transactions of Waypost take on, and grants them to a login. It may be
-- run repeatedly, and from several databases of one cluster at the same time.
DO $$
DECLARE
    login   CONSTANT text := coalesce(nullif(current_setting('waypost.login', true), ''), session_user);
    usable  CONSTANT text := CASE WHEN current_setting('server_version_num')::integer >= 160000 THEN 'SET' ELSE 'MEMBER' END;
    options CONSTANT text := CASE WHEN current_setting('server_version_num')::integer >= 160000 THEN ' WITH INHERIT FALSE, SET TRUE' ELSE '' END;
    r       text;
BEGIN
    FOREACH r IN ARRAY ARRAY[
        'waypost_nobody',   -- between transactions: nothing
        'waypost_tenant',   -- the workspaces that the transaction names
        'waypost_stream',   -- the changelog and what is replicated, to read
        'waypost_ingest',   -- clicks
        'waypost_reaper',   -- what has expired
        'waypost_search',   -- owns the functions that search and count for tenants; the login is in it only while they are made
        'waypost_operator', -- the installation: keys, authentication, workspaces, the audit log
        'waypost_backup'    -- everything, to read; for a login of the backup's own
    ] LOOP
        FOR attempt IN 1 .. 20 LOOP
            BEGIN
                IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = r) THEN
                    EXECUTE format('CREATE ROLE %I NOLOGIN NOINHERIT', r);
                END IF;
                IF r <> 'waypost_backup' AND (r <> 'waypost_search' OR login <> session_user) AND NOT pg_has_role(login, r, usable) THEN
                    EXECUTE format('GRANT %I TO %I%s', r, login, options);
                END IF;
                EXIT;
            EXCEPTION
                -- Another database of the cluster is doing the same.
                WHEN duplicate_object OR unique_violation OR internal_error OR undefined_object THEN
                    IF attempt = 20 THEN
                        RAISE;
                    END IF;
                    PERFORM pg_sleep(0.05 * random());
                WHEN insufficient_privilege THEN
                    RAISE EXCEPTION 'the login % cannot use the role %, and may not make or grant it', login, r USING ERRCODE = 'WP003';
            END;
        END LOOP;
    END LOOP;
END $$;
