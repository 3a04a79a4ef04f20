-- +goose Up

-- Every transaction of the program takes on one of the roles that roles.sql makes, so
-- that row-level security binds it whoever its login is. Grants say which tables a role
-- may touch, policies which rows. Who has taken on no role of the system's sees nothing,
-- also when the role is his by inheritance.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION waypost_system() RETURNS boolean LANGUAGE sql STABLE
    RETURN current_user IN ('waypost_stream', 'waypost_ingest', 'waypost_reaper', 'waypost_operator');
-- +goose StatementEnd

-- What a role may do with a table or view by its nature; '' is nothing. Tables of
-- tenants are known by their policy tenant, replicated ones by their triggers, and those
-- of clicks by their names, so that new ones have what they need.
-- +goose StatementBegin
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
            WHEN c.relname = 'link_tag' THEN 'SELECT'
            WHEN tenants AND c.relname LIKE '%click%' THEN 'SELECT, UPDATE, DELETE' -- to forget; none is counted so
            WHEN tenants THEN everything
            WHEN c.relname IN ('cluster', 'changelog_head', 'changelog_epoch') THEN 'SELECT'
            ELSE '' END
        WHEN 'waypost_stream' THEN
            CASE WHEN replicated OR c.relname IN ('cluster', 'changelog', 'changelog_head', 'changelog_epoch') THEN 'SELECT' ELSE '' END
        WHEN 'waypost_ingest' THEN CASE
            WHEN c.relispartition THEN ''
            WHEN c.relname LIKE '%click%' THEN everything
            WHEN c.relname IN ('cluster', 'link', 'domain', 'workspace') THEN 'SELECT'
            ELSE '' END
        WHEN 'waypost_reaper' THEN CASE
            WHEN c.relispartition THEN ''
            WHEN c.relname = 'link' THEN 'SELECT, UPDATE, DELETE'
            WHEN c.relname = 'retired_code' THEN 'SELECT, INSERT'
            WHEN c.relname = 'cleanup' THEN 'SELECT, UPDATE'
            WHEN c.relname IN ('cluster', 'domain', 'workspace', 'changelog_head', 'changelog_epoch') THEN 'SELECT'
            WHEN c.relname = 'api_key' THEN 'SELECT, UPDATE, DELETE' -- UPDATE for FOR UPDATE
            WHEN c.relname IN ('link_click', 'click_hour', 'click_day') OR c.relname LIKE 'click\_event%' THEN 'SELECT, DELETE'
            WHEN c.relname = 'click_pack' THEN 'SELECT'
            ELSE '' END
        ELSE '' END;
END $$;
-- +goose StatementEnd

-- Sees to it that a table's or view's grants and policies are what they should be.
-- It changes, and locks, nothing when they are. Whoever makes a partition while the
-- program runs calls it; for all else the migration does.
-- +goose StatementBegin
CREATE FUNCTION waypost_protect(target regclass) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    system_roles CONSTANT text[] := ARRAY['waypost_stream', 'waypost_ingest', 'waypost_reaper', 'waypost_operator'];
    r         text;
    wanted    text;
    privilege text;
    p         record;
BEGIN
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
-- +goose StatementEnd

-- The same for all that is in the schema, and for its functions: those that act for
-- tenants where tenants may not are the owner's, with a search path that nobody else
-- can change. It is called at the end of every migration.
-- +goose StatementBegin
CREATE FUNCTION waypost_protect_all() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    -- What writers call, and what the triggers of replicated tables run.
    called  CONSTANT text[] := ARRAY['changelog_begin', 'changelog_begin_in', 'key_check_leases', 'key_take'];
    trigger CONSTANT text[] := ARRAY['changelog_before_statement', 'changelog_after_row', 'changelog_after_link', 'changelog_after_new_link', 'link_refuse_retired'];
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

-- A partition can be read by its own name, past the parent's policies.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION changelog_protect(partition regclass) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', partition);
    EXECUTE format('CREATE POLICY system ON %s FOR SELECT USING (waypost_system())', partition);
    PERFORM waypost_protect(partition);
END $$;
-- +goose StatementEnd

-- As in 00008, but for what the default has of the month: the owner sees no rows, so the
-- caller moves them.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION click_event_month(some_day date) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    first date := date_trunc('month', some_day)::date;
    name  text := 'click_event_' || to_char(some_day, 'YYYY_MM');
BEGIN
    IF to_regclass(name) IS NOT NULL THEN
        RETURN;
    END IF;
    EXECUTE format('CREATE TABLE %I (LIKE click_event INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING INDEXES)', name);
    PERFORM click_protect(name::regclass), waypost_protect(name::regclass);
    EXECUTE format('ALTER TABLE click_event ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
                   name, first || ' 00:00:00+00', (first + interval '1 month')::date || ' 00:00:00+00');
END $$;
-- +goose StatementEnd

-- Takes a counter whose code a user has chosen himself, unless it was, or may be,
-- issued; see key_claim, which it is a part of.
-- +goose StatementBegin
CREATE FUNCTION key_take(prefix_ integer, counter_ bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    l     key_lease;
    s     key_state;
    spent boolean;
BEGIN
    SELECT * INTO STRICT s FROM key_state;
    SELECT bool_or(counter_ < r.next + s.gap) INTO spent FROM key_range r WHERE r.prefix = prefix_ AND r.lo <= counter_ AND counter_ < r.hi;
    IF NOT coalesce(spent, counter_ < s.floor + s.gap) THEN
        INSERT INTO key_burn (prefix, counter) VALUES (prefix_, counter_) ON CONFLICT DO NOTHING;
        RETURN true;
    END IF;
    SELECT * INTO l FROM key_lease WHERE prefix = prefix_ AND lo <= counter_ ORDER BY lo DESC LIMIT 1;
    IF NOT FOUND OR counter_ >= l.hi OR l.state <> 'free' THEN
        RETURN false;
    END IF;
    UPDATE key_lease SET lo = counter_, hi = counter_ + 1, state = 'burned' WHERE id = l.id;
    INSERT INTO key_lease (range_id, prefix, region, lo, hi, epoch, generation, node, state)
    SELECT l.range_id, l.prefix, l.region, part.lo, part.hi, l.epoch, l.generation, '', 'free'
    FROM (VALUES (l.lo, counter_), (counter_ + 1, l.hi)) part (lo, hi) WHERE part.lo < part.hi;
    RETURN true;
END $$;
-- +goose StatementEnd

-- Takes counters whose codes users have chosen themselves: one that lies ahead is
-- burned, a key that a service of the same workspace holds becomes its link, and
-- every other was, or may be, issued: its code is refused. A forgotten history may have
-- issued what lies below the floor in no range and, while keys are held back, what the
-- gap is for. It gives the refused codes, also in waypost.refused for the rest of the
-- transaction. The caller holds the head of the changelog and acts for the tenants.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION key_claim(codes text[], prefixes integer[], counters bigint[], workspaces bigint[]) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    refused text[] := '{}';
BEGIN
    FOR i IN 1 .. cardinality(codes) LOOP
        UPDATE reserved_key SET state = 'used' WHERE code = codes[i] AND workspace_id = workspaces[i] AND state = 'reserved';
        CONTINUE WHEN FOUND;
        IF NOT key_take(prefixes[i], counters[i]) THEN
            refused := refused || codes[i];
        END IF;
    END LOOP;
    PERFORM set_config('waypost.refused', array_to_string(refused, ','), true);
    RETURN QUERY SELECT unnest(refused);
END $$;
-- +goose StatementEnd

-- Codes of links that were purged and must never name another: custom ones, and all
-- of other domains than the default one, whose codes are nobody's counters.
CREATE TABLE retired_code (
    domain_id  integer     NOT NULL,
    code       text COLLATE "C" NOT NULL,
    retired_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (domain_id, code)
);

-- A link with a retired code is not made, as with a code that is taken.
-- +goose StatementBegin
CREATE FUNCTION link_refuse_retired() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RETURN CASE WHEN EXISTS (SELECT FROM retired_code WHERE domain_id = NEW.domain_id AND code = NEW.code) THEN NULL ELSE NEW END;
END $$;
-- +goose StatementEnd
CREATE TRIGGER link_retired BEFORE INSERT ON link FOR EACH ROW WHEN (NEW.custom) EXECUTE FUNCTION link_refuse_retired();
ALTER TABLE link ENABLE ALWAYS TRIGGER link_retired;

-- What the reaper looks for.
CREATE INDEX link_expiry ON link (expires_at) WHERE deleted_at IS NULL AND expires_at IS NOT NULL;
CREATE INDEX link_gone ON link (deleted_at) WHERE deleted_at IS NOT NULL;

-- What the reapers of all instances did.
CREATE TABLE cleanup (
    singleton           boolean     PRIMARY KEY DEFAULT true CHECK (singleton),
    last_cleanup_time   timestamptz,
    total_cleaned       bigint      NOT NULL DEFAULT 0,
    last_batch_size     bigint      NOT NULL DEFAULT 0,
    successful_runs     bigint      NOT NULL DEFAULT 0,
    failed_runs         bigint      NOT NULL DEFAULT 0,
    cleanup_ms          double precision NOT NULL DEFAULT 0, -- of all runs
    running_until       timestamptz  -- until when the run under way counts as one, unless it says otherwise
);
INSERT INTO cleanup DEFAULT VALUES;

-- The functions that writers run as the owner are so from here on; what else roles
-- may do comes with the end of the migration.
SELECT waypost_protect_all();
