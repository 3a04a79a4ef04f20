-- +goose Up
-- +goose StatementBegin

-- Who may see and change which tables and rows.
--
-- Every transaction of the program takes on one of the roles that access/roles.sql
-- makes, so that row-level security binds it whatever its login is. Grants say which
-- tables a role may touch; policies say which rows. A session in none of the system's
-- roles sees nothing, even if its login has inherited such a role.

-- A transaction of the role waypost_tenant names its workspaces in waypost.workspaces
-- ("1,7"). Unset means that no row is visible. After a commit an unset setting reads as
-- '', hence the NULLIF.
CREATE FUNCTION waypost_workspaces() RETURNS bigint[] LANGUAGE sql STABLE
    RETURN string_to_array(NULLIF(current_setting('waypost.workspaces', true), ''), ',')::bigint[];

CREATE FUNCTION waypost_system() RETURNS boolean LANGUAGE sql STABLE
    RETURN current_user IN ('waypost_stream', 'waypost_ingest', 'waypost_reaper', 'waypost_operator');

-- Returns the privileges of a role on a table or view; '' is none. It derives them from
-- the table's nature, so that new tables need no list of privileges: tables of tenants
-- have a policy named tenant, replicated ones have changelog triggers, and tables of
-- clicks have "click" in their names.
CREATE FUNCTION waypost_privileges(target regclass, for_role text) RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE
    c          pg_class;
    everything CONSTANT text := 'SELECT, INSERT, UPDATE, DELETE';
    tenants    boolean := EXISTS (SELECT FROM pg_policy WHERE polrelid = target AND polname = 'tenant');
    replicated boolean := EXISTS (SELECT FROM pg_trigger WHERE tgrelid = target AND tgname = 'changelog_1_begin');
BEGIN
    SELECT * INTO STRICT c FROM pg_class WHERE oid = target;
    IF c.relkind = 'v' THEN
        RETURN CASE WHEN for_role IN ('waypost_operator', 'waypost_backup')
                      OR for_role = 'waypost_tenant' AND 'security_invoker=true' = ANY (c.reloptions) THEN 'SELECT' ELSE '' END;
    END IF;
    RETURN CASE for_role
        WHEN 'waypost_backup' THEN 'SELECT'
        WHEN 'waypost_operator' THEN
            CASE WHEN c.relispartition THEN 'SELECT' WHEN c.relname = 'audit' THEN 'SELECT, INSERT' ELSE everything END
        WHEN 'waypost_tenant' THEN CASE
            WHEN c.relispartition THEN ''
            WHEN c.relname IN ('audit', 'idempotency') THEN 'SELECT, INSERT'
            WHEN c.relname = 'workspace' THEN 'SELECT, UPDATE'
            WHEN c.relname IN ('link', 'domain', 'app_user', 'api_key', 'reserved_key') THEN 'SELECT, INSERT, UPDATE'
            WHEN c.relname IN ('link_tag', 'budget', 'budget_account', 'unknown_address') THEN 'SELECT'
            WHEN tenants AND c.relname LIKE '%click%' THEN 'SELECT, UPDATE, DELETE' -- to forget clicks; only waypost_ingest counts
            WHEN tenants THEN everything
            WHEN c.relname IN ('cluster', 'changelog_head', 'changelog_epoch') THEN 'SELECT'
            ELSE '' END
        WHEN 'waypost_stream' THEN
            CASE WHEN replicated OR c.relname IN ('cluster', 'changelog', 'changelog_head', 'changelog_epoch') THEN 'SELECT' ELSE '' END
        WHEN 'waypost_ingest' THEN CASE
            WHEN c.relispartition THEN ''
            WHEN c.relname LIKE '%click%' OR c.relname LIKE 'unknown\_%' THEN everything
            WHEN c.relname IN ('cluster', 'link', 'link_alias', 'link_former_key', 'retired_code', 'domain', 'workspace') THEN 'SELECT'
            ELSE '' END
        WHEN 'waypost_reaper' THEN CASE
            WHEN c.relispartition THEN ''
            WHEN c.relname = 'link' THEN 'SELECT, UPDATE, DELETE'
            WHEN c.relname = 'retired_code' THEN 'SELECT, INSERT'
            WHEN c.relname = 'cleanup' THEN 'SELECT, UPDATE'
            WHEN c.relname IN ('cluster', 'domain', 'workspace', 'changelog_head', 'changelog_epoch') THEN 'SELECT'
            WHEN c.relname = 'api_key' THEN 'SELECT, UPDATE, DELETE' -- UPDATE for FOR UPDATE
            WHEN c.relname IN ('link_click', 'click_day', 'click_set_aside') OR c.relname LIKE 'click\_event%' THEN 'SELECT, DELETE'
            WHEN c.relname IN ('budget', 'link_change', 'link_alias') THEN 'SELECT, DELETE'
            ELSE '' END
        ELSE '' END;
END $$;

-- BEFORE TRUNCATE on every table, because TRUNCATE fires no other trigger and sees no
-- policy.
CREATE FUNCTION waypost_refuse_truncate() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'TRUNCATE of % is refused: edges and counters would not learn of it', TG_TABLE_NAME
        USING HINT = 'Use DELETE for rows that may go.';
END $$;

-- Sets the grants and policies of a table or view, and has TRUNCATE of it refused. It
-- changes, and locks, nothing if they are right already. Functions that make a partition
-- while the program runs call it; 'waypost migrate' calls it for everything else.
CREATE FUNCTION waypost_protect(target regclass) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    system_roles CONSTANT text[] := ARRAY['waypost_stream', 'waypost_ingest', 'waypost_reaper', 'waypost_operator'];
    r         text;
    wanted    text;
    privilege text;
    p         record;
BEGIN
    IF (SELECT relkind FROM pg_class WHERE oid = target) <> 'v'
       AND NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = target AND tgname = 'waypost_truncate' AND tgenabled = 'A') THEN
        EXECUTE format('CREATE OR REPLACE TRIGGER waypost_truncate BEFORE TRUNCATE ON %s FOR EACH STATEMENT EXECUTE FUNCTION waypost_refuse_truncate()', target);
        EXECUTE format('ALTER TABLE ONLY %s ENABLE ALWAYS TRIGGER waypost_truncate', target); -- in replica role too
    END IF;
    FOREACH r IN ARRAY system_roles || ARRAY['waypost_tenant', 'waypost_backup', 'waypost_nobody'] LOOP
        wanted := waypost_privileges(target, r);
        FOREACH privilege IN ARRAY ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE'] LOOP
            IF position(privilege IN wanted) > 0 AND NOT has_table_privilege(r, target, privilege) THEN
                EXECUTE format('GRANT %s ON %s TO %I', privilege, target, r);
            END IF;
        END LOOP;
    END LOOP;
    IF NOT (SELECT relrowsecurity FROM pg_class WHERE oid = target) THEN
        RETURN;
    END IF;
    FOR p IN SELECT polname, polroles, CASE WHEN polname = 'system' THEN system_roles ELSE ARRAY['waypost_tenant'] END AS roles
             FROM pg_policy WHERE polrelid = target AND polname IN ('tenant', 'shared', 'system') LOOP
        IF NOT (p.polroles @> (SELECT array_agg(oid) FROM pg_roles WHERE rolname = ANY (p.roles)) AND cardinality(p.polroles) = cardinality(p.roles)) THEN
            EXECUTE format('ALTER POLICY %I ON %s TO %s', p.polname, target, array_to_string(p.roles, ', '));
        END IF;
    END LOOP;
    IF NOT EXISTS (SELECT FROM pg_policy WHERE polrelid = target AND polname = 'backup') THEN
        EXECUTE format('CREATE POLICY backup ON %s FOR SELECT TO waypost_backup USING (true)', target);
    END IF;
END $$;

-- Does the same for everything in the schema, including functions: a function that does
-- for tenants an act that they may not do runs as the owner, with a fixed search path. It
-- runs at the end of every 'waypost migrate'.
CREATE FUNCTION waypost_protect_all() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    -- Writers call the first; triggers of replicated tables run the second.
    called  CONSTANT text[] := ARRAY['changelog_begin', 'changelog_begin_in', 'key_check_leases', 'key_take', 'link_code_retired', 'link_alias_of', 'link_screen_codes'];
    trigger CONSTANT text[] := ARRAY['changelog_before_statement', 'changelog_after_row', 'changelog_after_link', 'changelog_after_new_link', 'changelog_after_alias', 'link_refuse_retired'];
    here    CONSTANT text := current_schema();
    writers CONSTANT text := 'waypost_tenant, waypost_ingest, waypost_reaper, waypost_operator';
    target  regclass;
    f       record;
    r       text;
BEGIN
    FOREACH r IN ARRAY ARRAY['waypost_stream', 'waypost_ingest', 'waypost_reaper', 'waypost_operator', 'waypost_tenant', 'waypost_backup'] LOOP
        IF NOT has_schema_privilege(r, here, 'USAGE') THEN
            EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', here, r);
        END IF;
    END LOOP;
    FOR target IN SELECT oid::regclass FROM pg_class WHERE relnamespace = here::regnamespace AND relkind IN ('r', 'p', 'v')
                                                       AND pg_has_role(relowner, 'USAGE') ORDER BY relname LOOP
        PERFORM waypost_protect(target);
    END LOOP;
    FOR target IN SELECT oid::regclass FROM pg_class WHERE relnamespace = here::regnamespace AND relkind = 'S'
                                                       AND pg_has_role(relowner, 'USAGE') LOOP
        IF NOT has_sequence_privilege('waypost_backup', target, 'SELECT') THEN
            EXECUTE format('GRANT SELECT ON SEQUENCE %s TO waypost_backup', target);
        END IF;
    END LOOP;
    FOR f IN SELECT oid::regprocedure AS name, proname, prosecdef FROM pg_proc
             WHERE pronamespace = here::regnamespace AND proname = ANY (called || trigger) LOOP
        IF NOT f.prosecdef THEN
            EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER SET search_path = %I, pg_temp', f.name, here);
        END IF;
        IF f.proname = ANY (called) AND has_function_privilege('waypost_nobody', f.name, 'EXECUTE') THEN
            EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', f.name);
            EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s', f.name, writers);
        END IF;
    END LOOP;
END $$;

-- +goose StatementEnd
