-- +goose Up
-- +goose StatementBegin

-- Links and the tables that belong to them. docs/schema.md describes the life of one
-- INSERT into link.

-- Reports whether the code of a link is a pattern. No pattern is generated, so that
-- generated codes cost nothing here.
CREATE FUNCTION link_is_pattern(custom boolean, code text) RETURNS boolean LANGUAGE sql IMMUTABLE
    RETURN custom AND code ~ '[*{]';

-- Returns the kind of the record of a link: waypost.KindOf.
CREATE FUNCTION link_kind(custom boolean, code text) RETURNS smallint LANGUAGE sql IMMUTABLE
    RETURN (CASE WHEN link_is_pattern(custom, code) THEN 6 ELSE 1 END)::smallint;

CREATE TABLE link (
    id              bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    workspace_id    bigint      NOT NULL, -- checked by triggers, as domain_id is
    domain_id       integer     NOT NULL,
    -- The program alone judges characters beyond ASCII, and keeps their normal form.
    code            text COLLATE "C" NOT NULL CONSTRAINT link_code_check CHECK (octet_length(code) BETWEEN 1 AND 128
                                                     AND (code !~ '[\x01-\x2c\x3a-\x40\x5b-\x5e\x60\x7b-\x7d\x7f]' OR link_is_pattern(custom, code)
                                                          AND code ~ '^(([^\x01-\x2c\x2f\x3a-\x40\x5b-\x5e\x60\x7b-\x7d\x7f]+|[{][a-z_][a-z0-9_]{0,31}[}])(/|$))*[*]?$')
                                                     AND code !~ '(^|/)[.]{0,2}(/|$)'),
    typed_code      text COLLATE "C" CHECK (typed_code <> code AND octet_length(typed_code) BETWEEN 1 AND 128), -- code, unless code is folded; NULL: code
    custom          boolean     NOT NULL DEFAULT true,
    original_url    text        NOT NULL CHECK (octet_length(original_url) <= 8192),
    location        text,       -- NULL: original_url needs no escaping and is the Location itself
    redirect_status smallint    NOT NULL DEFAULT 302 CHECK (redirect_status IN (301, 302, 307, 308)),
    title           text        NOT NULL DEFAULT '',
    description     text        NOT NULL DEFAULT '',
    notes           text        NOT NULL DEFAULT '', -- of the team about the link
    tags            text[]      NOT NULL DEFAULT '{}',
    metadata        jsonb,
    created_by      text        NOT NULL DEFAULT '',
    active          boolean     NOT NULL DEFAULT true,
    created_at      timestamptz NOT NULL DEFAULT now(),
    updated_at      timestamptz NOT NULL DEFAULT now(),
    expires_at      timestamptz,
    deleted_at      timestamptz,
    slot            smallint    NOT NULL,
    rev_epoch       integer     NOT NULL,
    rev_seq         bigint      NOT NULL,
    stamp           bigint      NOT NULL,
    forward_query   boolean     NOT NULL DEFAULT false, -- add the visitor's query to the target's
    forward_path    boolean     NOT NULL DEFAULT false, -- add the rest of the visitor's path
    rules           jsonb,      -- package rules, type Source: what the owner wrote
    programme       bytea       CHECK (octet_length(programme) BETWEEN 8 AND 20544), -- compiled from rules, for edges
    exhausted       boolean     NOT NULL DEFAULT false, -- an eventual click budget is used up
    aliases         text[],     -- DOMAIN/CODE of each alias as typed, by its number, as the triggers of link_alias keep them; NULL: none
    edited          bigint[],   -- epoch, sequence and stamp of the owner's version, if only the programme was written since
    -- A link whose rules are gone remembers their ids.
    CONSTRAINT link_rules_are_compiled CHECK ((rules IS NULL) = (programme IS NULL)
                                          OR programme IS NULL AND rules - '{last_rule,last_variant}'::text[] = '{}'),
    -- Clicks need the id and the workspace of codes alone, and find them here.
    CONSTRAINT link_code UNIQUE (domain_id, code) INCLUDE (id, workspace_id),
    -- RFC 3339 can write these times, and cannot write infinity.
    CONSTRAINT link_times_can_be_told CHECK (created_at >= '0001-01-01' AND created_at < '10000-01-01'
                                         AND updated_at >= '0001-01-01' AND updated_at < '10000-01-01'
                                         AND expires_at >= '0001-01-01' AND expires_at < '10000-01-01'),
    -- An edge gets a header value of printable ASCII, even after a change by hand.
    CONSTRAINT link_location_is_a_header CHECK (coalesce(location, original_url) !~ '[^\x21-\x7e]'
                                            AND left(coalesce(location, original_url), 9) ~* '^https?://.'
                                            AND octet_length(coalesce(location, original_url)) <= 24576)
);
ALTER TABLE link ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
-- The subquery makes PostgreSQL parse the setting once a statement, and not twice a
-- row.
CREATE POLICY tenant ON link USING (workspace_id = ANY ((SELECT waypost_workspaces())::bigint[]));
CREATE POLICY system ON link USING (waypost_system());
CREATE POLICY search ON link FOR SELECT TO waypost_search USING (true);
GRANT SELECT ON link TO waypost_search;

CREATE INDEX link_slot ON link (slot);
-- The patterns of a domain. Two of one shape would lead from the same addresses.
CREATE UNIQUE INDEX link_pattern ON link (domain_id, regexp_replace(code, '[{][^}]*[}]', '{}', 'g'))
    WHERE link_is_pattern(custom, code) AND deleted_at IS NULL;
-- Links with programmes that hold the offsets of time zones: gates of package rules, bit
-- 7.
CREATE INDEX link_scheduled ON link (id) WHERE deleted_at IS NULL AND programme IS NOT NULL AND get_bit(programme, 15) = 1;
-- Links with an eventual click budget that is not used up, by byte 6 of the programme.
CREATE INDEX link_counted ON link (id) WHERE deleted_at IS NULL AND programme IS NOT NULL AND get_byte(programme, 6) = 1 AND NOT exhausted;
-- Lists go by the time of creation; links of one transaction share it. Links that are
-- disabled, about to expire, or on a domain of the workspace's own are few, and have
-- partial indexes, which cost the other links nothing.
CREATE INDEX link_created ON link (workspace_id, created_at, id) WHERE deleted_at IS NULL;
CREATE INDEX link_inactive ON link (workspace_id, created_at, id) WHERE deleted_at IS NULL AND NOT active;
CREATE INDEX link_expiring ON link (workspace_id, expires_at) WHERE deleted_at IS NULL AND expires_at IS NOT NULL;
CREATE INDEX link_domain ON link (workspace_id, domain_id, created_at, id) WHERE deleted_at IS NULL AND domain_id <> 1;

-- Reports whether a link leads visitors on after its expiry, to its expired_url: gates of
-- package rules, bit 1. Only its owner ends such a link.
CREATE FUNCTION link_outlives_expiry(programme bytea) RETURNS boolean LANGUAGE sql IMMUTABLE
    RETURN programme IS NOT NULL AND get_bit(programme, 9) = 1;

-- The reaper reads these.
CREATE INDEX link_expiry ON link (expires_at) WHERE deleted_at IS NULL AND expires_at IS NOT NULL AND NOT link_outlives_expiry(programme);
CREATE INDEX link_gone ON link (deleted_at, id) WHERE deleted_at IS NOT NULL;
-- Deleted links that may be restored. Links that the reaper deletes have expired before.
CREATE INDEX link_bin ON link (workspace_id, deleted_at, id)
    WHERE deleted_at IS NOT NULL AND (expires_at IS NULL OR expires_at > deleted_at OR link_outlives_expiry(programme));

-- 1. The changelog takes its number.

-- Links ask for no number in a transaction that has one. Rolling back to a savepoint
-- restores the setting together with the number.
CREATE TRIGGER changelog_1_begin BEFORE INSERT OR UPDATE OR DELETE ON link FOR EACH STATEMENT
    WHEN (current_setting('waypost.writer', true) IS DISTINCT FROM pg_current_xact_id()::text)
    EXECUTE FUNCTION changelog_before_statement();

-- 2. Each row gets its slot, revision and stamp.

CREATE FUNCTION changelog_stamp_link() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    switching boolean; -- the program changes keys, see link_former_key
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.code ~ '[^\x01-\x7f]' THEN
            RAISE EXCEPTION 'codes with characters beyond ASCII have a normal form: create their links with the API';
        END IF;
        NEW.typed_code := NULL;
        NEW.slot := waypost_slot(link_kind(NEW.custom, NEW.code), NEW.domain_id, NEW.code);
    ELSE
        switching := current_setting('waypost.switching', true) = 'on';
        IF NEW.domain_id <> OLD.domain_id OR NEW.id <> OLD.id
           OR (NEW.code <> OLD.code OR NEW.typed_code IS DISTINCT FROM OLD.typed_code) AND switching IS NOT TRUE THEN
            RAISE EXCEPTION 'the key of a link cannot change: delete it and create another';
        END IF;
        NEW.slot := CASE WHEN NEW.code = OLD.code THEN OLD.slot ELSE waypost_slot(link_kind(NEW.custom, NEW.code), NEW.domain_id, NEW.code) END;
        -- The name of a rule is in no programme, so the API may change it alone.
        IF NEW.rules IS DISTINCT FROM OLD.rules AND NEW.programme IS NOT DISTINCT FROM OLD.programme AND current_user <> 'waypost_tenant' THEN
            RAISE EXCEPTION 'rules are compiled by Waypost: change them with its API';
        END IF;
        -- A new limit is judged again when clicks are counted.
        IF NEW.rules IS DISTINCT FROM OLD.rules AND (NEW.rules -> 'max_clicks', NEW.rules -> 'max_clicks_mode')
           IS DISTINCT FROM (OLD.rules -> 'max_clicks', OLD.rules -> 'max_clicks_mode') THEN
            NEW.exhausted := false;
        END IF;
        NEW.edited := CASE WHEN current_setting('waypost.recompiling', true) = 'on' OR switching
                           THEN coalesce(OLD.edited, ARRAY[OLD.rev_epoch, OLD.rev_seq, OLD.stamp]) END;
        -- A target that was changed by hand is its own Location, if the CHECK allows that.
        IF NEW.original_url <> OLD.original_url AND NEW.location IS NOT DISTINCT FROM OLD.location THEN
            NEW.location := NULL;
        END IF;
    END IF;
    NEW.rev_epoch := current_setting('waypost.epoch')::integer;
    NEW.rev_seq := current_setting('waypost.seq')::bigint;
    NEW.stamp := waypost_stamp();
    RETURN NEW;
END $$;

CREATE TRIGGER changelog_2_stamp BEFORE UPDATE ON link FOR EACH ROW EXECUTE FUNCTION changelog_stamp_link();
-- The program stamps its links itself, in a tenth of the time, and names the sequence
-- number of its transaction in waypost.stamped. Every other inserted row is stamped
-- here, whatever it contains. The number alone decides, because
-- changelog_after_new_link refuses a row of another epoch.
CREATE TRIGGER changelog_2_stamp_new BEFORE INSERT ON link FOR EACH ROW
    WHEN (NEW.rev_seq IS NULL OR NEW.rev_seq::text IS DISTINCT FROM current_setting('waypost.stamped', true))
    EXECUTE FUNCTION changelog_stamp_link();

-- Codes of purged links that must never name another link: custom codes, and all codes
-- of domains other than the default one or of a domain that ignores case, because no
-- counter stands behind those. Codes of aliases are here from their creation on, with the
-- number of the alias. Of a link or an alias with a folded code both forms are here.
CREATE TABLE retired_code (
    domain_id  integer     NOT NULL,
    code       text COLLATE "C" NOT NULL,
    retired_at timestamptz NOT NULL DEFAULT now(),
    link_id    bigint, -- that the code is, or was, an alias of
    n          smallint,
    PRIMARY KEY (domain_id, code)
);
CREATE INDEX retired_alias ON retired_code (link_id, n) WHERE link_id IS NOT NULL;

-- Reports whether a code was a purged link's, and returns the link that it is, or was, an
-- alias of, for tenants, who may not read the table.
CREATE FUNCTION link_code_retired(domain integer, name text) RETURNS boolean LANGUAGE sql STABLE
    RETURN EXISTS (SELECT FROM retired_code r WHERE r.domain_id = domain AND r.code = name AND r.link_id IS NULL);
CREATE FUNCTION link_alias_of(domain integer, name text) RETURNS bigint LANGUAGE sql STABLE
    RETURN (SELECT r.link_id FROM retired_code r WHERE r.domain_id = domain AND r.code = name);

-- Skips a link with a retired code, as ON CONFLICT DO NOTHING skips one with a taken
-- code.
CREATE FUNCTION link_refuse_retired() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RETURN CASE WHEN EXISTS (SELECT FROM retired_code WHERE domain_id = NEW.domain_id AND code = NEW.code) THEN NULL ELSE NEW END;
END $$;

-- Returns which of the codes of new links are retired, as DOMAIN/CODE. The program skips
-- these itself, at a fifth of the cost, and names its transaction in waypost.screened.
CREATE FUNCTION link_screen_codes(domains integer[], codes text[]) RETURNS text[] LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('waypost.screened', current_setting('waypost.seq'), true);
    RETURN ARRAY(SELECT n.domain || '/' || n.code FROM unnest(domains, codes) n (domain, code)
                 CROSS JOIN LATERAL (SELECT FROM retired_code r WHERE r.domain_id = n.domain AND r.code = n.code OFFSET 0) r);
END $$;

CREATE TRIGGER link_retired BEFORE INSERT ON link FOR EACH ROW
    WHEN ((NEW.custom OR NEW.domain_id <> 1 OR current_setting('waypost.folded', true) <> '')
          AND NEW.rev_seq::text IS DISTINCT FROM current_setting('waypost.screened', true)) EXECUTE FUNCTION link_refuse_retired();

-- 3. The changelog gets an entry for each row, and the mark that closes the statement.

-- Returns the state of a link on an edge: 0 redirects, 1 is disabled, 2 is deleted.
CREATE FUNCTION link_state(active boolean, deleted_at timestamptz) RETURNS smallint LANGUAGE sql IMMUTABLE
    RETURN (CASE WHEN deleted_at IS NOT NULL THEN 2 WHEN NOT active THEN 1 ELSE 0 END)::smallint;

-- Returns the target that an edge stores for a link: none once the link is deleted.
CREATE FUNCTION link_payload(location text, original_url text, deleted_at timestamptz) RETURNS text LANGUAGE sql IMMUTABLE
    RETURN CASE WHEN deleted_at IS NULL THEN coalesce(location, original_url) ELSE '' END;

-- Returns the programme that an edge stores for a link.
CREATE FUNCTION link_programme(programme bytea, deleted_at timestamptz) RETURNS bytea LANGUAGE sql IMMUTABLE
    RETURN CASE WHEN deleted_at IS NULL THEN programme END;

-- Returns waypost.LinkFlags.
CREATE FUNCTION link_flags(forward_query boolean, forward_path boolean, exhausted boolean, aliased boolean) RETURNS smallint LANGUAGE sql IMMUTABLE
    RETURN (forward_query::integer | (forward_path::integer << 1) | (exhausted::integer << 2) | (aliased::integer << 3))::smallint;

-- AFTER INSERT, in one statement. Entries are numbered by the ids of their links where
-- these are close together, as they are unless a caller chooses them, because numbering
-- rows takes a copy of each. Numbers may then be skipped.
CREATE FUNCTION changelog_after_new_link() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    WITH a AS (
        SELECT count(*) AS n, coalesce(bit_xor(r.stamp), 0) AS change, min(r.id) AS least, max(r.id) AS most,
               min(r.rev_seq) AS low, max(r.rev_seq) AS high, min(r.rev_epoch) AS first, max(r.rev_epoch) AS last
        FROM new_rows r
    ), b AS (
        SELECT a.*, coalesce(a.least > 0 AND a.most::float8 - a.least::float8 < 2 * a.n, false) AS near FROM a
    ), c AS (
        SELECT b.*, CASE WHEN near THEN most - least + 1 ELSE n END AS numbers, CASE WHEN near THEN least - 1 ELSE 0 END AS before FROM b
    ), h AS (
        UPDATE changelog_head t SET digest = t.digest # c.change, ord = t.ord + c.numbers + 1 FROM c
        WHERE t.singleton AND t.writer = pg_current_xact_id() AND (c.n = 0 OR (c.low, c.high, c.first, c.last) = (t.seq, t.seq, t.epoch, t.epoch))
        RETURNING t.seq, t.ord - 1 AS last, t.ord - 2 - c.numbers - c.before AS shift, t.epoch, t.stamp, t.digest, c.near
    )
    INSERT INTO changelog (seq, ord, epoch, kind, stamp, digest, domain_id, name, state, status, flags, expires_at, payload, programme)
    SELECT h.seq, h.shift + r.id, h.epoch, link_kind(r.custom, r.code), r.stamp, NULL::bigint, r.domain_id, r.code,
           link_state(r.active, r.deleted_at), r.redirect_status, link_flags(r.forward_query, r.forward_path, r.exhausted, r.aliases IS NOT NULL), r.expires_at,
           link_payload(r.location, r.original_url, r.deleted_at), link_programme(r.programme, r.deleted_at)
    FROM h, new_rows r WHERE h.near
    UNION ALL
    SELECT h.seq, h.shift + row_number() OVER (), h.epoch, link_kind(r.custom, r.code), r.stamp, NULL::bigint, r.domain_id, r.code,
           link_state(r.active, r.deleted_at), r.redirect_status, link_flags(r.forward_query, r.forward_path, r.exhausted, r.aliases IS NOT NULL), r.expires_at,
           link_payload(r.location, r.original_url, r.deleted_at), link_programme(r.programme, r.deleted_at)
    FROM h, new_rows r WHERE NOT h.near
    UNION ALL
    SELECT h.seq, h.last, h.epoch, 0, h.stamp, h.digest, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM h;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'links bear a number that is not of this transaction';
    END IF;
    RETURN NULL;
END $$;

-- AFTER UPDATE and AFTER DELETE. The records of keys that links leave are removed before
-- the links get their new keys. The undo of an import disables its links before it
-- deletes them, so that edges hold no mass deletion back that was asked for.
CREATE FUNCTION changelog_after_link() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    h      changelog_head;
    change bigint := (SELECT coalesce(bit_xor(o.stamp), 0) FROM old_rows o);
    n      integer;
    gone   integer := 0; -- keys that links have left, or links that were disabled before
BEGIN
    SELECT * INTO STRICT h FROM changelog_head WHERE singleton;
    IF TG_OP = 'DELETE' THEN
        INSERT INTO changelog (seq, ord, epoch, kind, stamp, domain_id, name, state)
        SELECT h.seq, h.ord - 1 + row_number() OVER (), h.epoch, link_kind(o.custom, o.code), o.stamp, o.domain_id, o.code, 3
        FROM old_rows o;
    ELSE
        IF current_setting('waypost.switching', true) = 'on' THEN
            INSERT INTO changelog (seq, ord, epoch, kind, stamp, domain_id, name, state)
            SELECT h.seq, h.ord - 1 + row_number() OVER (), h.epoch, link_kind(o.custom, o.code), o.stamp, o.domain_id, o.code, 3
            FROM old_rows o JOIN new_rows r USING (id) WHERE o.code <> r.code;
            GET DIAGNOSTICS gone = ROW_COUNT;
        ELSIF current_setting('waypost.undoing', true) = 'on' THEN
            INSERT INTO changelog (seq, ord, epoch, kind, stamp, domain_id, name, state, status, flags, payload)
            SELECT h.seq, h.ord - 1 + row_number() OVER (), h.epoch, link_kind(r.custom, r.code), r.stamp, r.domain_id, r.code, 1, r.redirect_status, 0,
                   link_payload(r.location, r.original_url, NULL)
            FROM new_rows r;
            GET DIAGNOSTICS gone = ROW_COUNT;
        END IF;
        INSERT INTO changelog (seq, ord, epoch, kind, stamp, domain_id, name, state, status, flags, expires_at, payload, programme)
        SELECT h.seq, h.ord - 1 + gone + row_number() OVER (), h.epoch, link_kind(r.custom, r.code), r.stamp, r.domain_id, r.code,
               link_state(r.active, r.deleted_at), r.redirect_status, link_flags(r.forward_query, r.forward_path, r.exhausted, r.aliases IS NOT NULL), r.expires_at,
               link_payload(r.location, r.original_url, r.deleted_at), link_programme(r.programme, r.deleted_at)
        FROM new_rows r;
    END IF;
    GET DIAGNOSTICS n = ROW_COUNT;
    IF TG_OP = 'UPDATE' THEN
        change := change # (SELECT coalesce(bit_xor(r.stamp), 0) FROM new_rows r);
    END IF;
    PERFORM changelog_mark(n + gone, change);
    RETURN NULL;
END $$;

CREATE TRIGGER changelog_3_insert AFTER INSERT ON link REFERENCING NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION changelog_after_new_link();
CREATE TRIGGER changelog_3_update AFTER UPDATE ON link REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION changelog_after_link();
CREATE TRIGGER changelog_3_delete AFTER DELETE ON link REFERENCING OLD TABLE AS old_rows
    FOR EACH STATEMENT EXECUTE FUNCTION changelog_after_link();

-- 4. The workspace and domain exist, and the tags are counted.

-- How many live links have a tag. Popular tags make no transaction wait that would not
-- wait anyway, because every change of links holds the head of the changelog.
CREATE TABLE link_tag (
    workspace_id bigint NOT NULL REFERENCES workspace,
    tag          text COLLATE "C" NOT NULL,
    links        bigint NOT NULL CHECK (links > 0),
    PRIMARY KEY (workspace_id, tag)
) WITH (fillfactor = 50);
ALTER TABLE link_tag ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON link_tag FOR SELECT USING (workspace_id = ANY (waypost_workspaces()));
CREATE POLICY system ON link_tag USING (waypost_system());
CREATE POLICY search ON link_tag TO waypost_search USING (true);
GRANT SELECT, INSERT, UPDATE, DELETE ON link_tag TO waypost_search;

CREATE FUNCTION link_tag_change(workspace bigint, of_tag text, change bigint) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF change > 0 THEN
        INSERT INTO link_tag AS t (workspace_id, tag, links) VALUES (workspace, of_tag, change)
        ON CONFLICT (workspace_id, tag) DO UPDATE SET links = t.links + EXCLUDED.links;
        RETURN;
    END IF;
    UPDATE link_tag SET links = links + change WHERE workspace_id = workspace AND tag = of_tag AND links + change > 0;
    IF NOT FOUND THEN
        DELETE FROM link_tag WHERE workspace_id = workspace AND tag = of_tag;
    END IF;
END $$;

-- AFTER UPDATE and AFTER DELETE. A tag that a link has twice counts once.
CREATE FUNCTION link_count_tags() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        PERFORM link_tag_change(c.workspace_id, c.tag, -c.n)
        FROM (SELECT o.workspace_id, u AS tag, count(*) AS n
              FROM old_rows o CROSS JOIN LATERAL (SELECT DISTINCT unnest(o.tags)) x (u)
              WHERE o.deleted_at IS NULL AND u <> '' GROUP BY 1, 2 ORDER BY 1, 2) c;
    ELSIF EXISTS (SELECT FROM old_rows WHERE tags <> '{}') OR EXISTS (SELECT FROM new_rows WHERE tags <> '{}') THEN
        PERFORM link_tag_change(c.workspace_id, c.tag, c.n::bigint)
        FROM (SELECT workspace_id, tag, sum(n) AS n
              FROM (SELECT o.workspace_id, u AS tag, -1 AS n FROM old_rows o CROSS JOIN LATERAL (SELECT DISTINCT unnest(o.tags)) x (u) WHERE o.deleted_at IS NULL
                    UNION ALL
                    SELECT r.workspace_id, u, 1 FROM new_rows r CROSS JOIN LATERAL (SELECT DISTINCT unnest(r.tags)) x (u) WHERE r.deleted_at IS NULL) b
              WHERE tag <> '' GROUP BY 1, 2 HAVING sum(n) <> 0 ORDER BY 1, 2) c;
    END IF;
    RETURN NULL;
END $$;

-- AFTER UPDATE. Triggers check the workspace and domain of links once a statement;
-- foreign keys, which check twice a link, took a quarter of the time of an INSERT. The
-- triggers lock both rows as a foreign key would, and link_keep_owner refuses to delete
-- a row that has links. A domain that was removed keeps tombstones, and gets no link that
-- lives: a writer may have looked the domain up before.
CREATE FUNCTION link_check_owners() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    o       record;
    removed boolean;
BEGIN
    FOR o IN SELECT DISTINCT workspace_id FROM new_rows ORDER BY 1 LOOP
        PERFORM FROM workspace WHERE id = o.workspace_id FOR KEY SHARE;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'there is no workspace %', o.workspace_id USING ERRCODE = 'foreign_key_violation';
        END IF;
    END LOOP;
    FOR o IN SELECT DISTINCT domain_id FROM new_rows ORDER BY 1 LOOP
        SELECT retired INTO removed FROM domain WHERE id = o.domain_id FOR KEY SHARE;
        IF NOT FOUND OR removed AND EXISTS (SELECT FROM new_rows WHERE domain_id = o.domain_id AND deleted_at IS NULL) THEN
            RAISE EXCEPTION 'there is no domain %', o.domain_id USING ERRCODE = 'foreign_key_violation';
        END IF;
    END LOOP;
    RETURN NULL;
END $$;

CREATE FUNCTION link_keep_owner() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    used boolean;
BEGIN
    IF TG_OP = 'UPDATE' AND NEW.id = OLD.id THEN
        RETURN NEW;
    END IF;
    -- The row is locked by now, so a concurrent INSERT of a link has either committed, and is seen, or waits.
    EXECUTE format('SELECT EXISTS (SELECT FROM link WHERE %I = $1)', TG_ARGV[0]) INTO used USING OLD.id;
    IF used THEN
        RAISE EXCEPTION 'the % % has links', TG_TABLE_NAME, OLD.id USING ERRCODE = 'foreign_key_violation';
    END IF;
    IF TG_OP = 'DELETE' THEN
        RETURN OLD;
    END IF;
    RETURN NEW;
END $$;

-- AFTER INSERT: link_check_owners and link_count_tags with a single look at the new
-- rows.
CREATE FUNCTION link_after_new() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    r          record;
    workspaces bigint[];
    domains    integer[];
    owner      bigint;
    removed    boolean;
    folding    boolean;
    switching  boolean;
BEGIN
    SELECT min(workspace_id) AS workspace, max(workspace_id) AS last_workspace, min(domain_id) AS domain, max(domain_id) AS last_domain,
           max(cardinality(tags)) > 0 AS tagged, count(typed_code) > 0 AS folded INTO r FROM new_rows;
    IF r.workspace IS NULL THEN
        RETURN NULL; -- no rows
    END IF;
    workspaces := ARRAY[r.workspace];
    domains := ARRAY[r.domain];
    IF r.workspace <> r.last_workspace THEN
        workspaces := ARRAY(SELECT DISTINCT workspace_id FROM new_rows ORDER BY 1);
    END IF;
    IF r.domain <> r.last_domain THEN
        domains := ARRAY(SELECT DISTINCT domain_id FROM new_rows ORDER BY 1);
    END IF;
    FOREACH owner IN ARRAY workspaces LOOP
        PERFORM FROM workspace WHERE id = owner FOR KEY SHARE;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'there is no workspace %', owner USING ERRCODE = 'foreign_key_violation';
        END IF;
    END LOOP;
    FOREACH owner IN ARRAY domains LOOP
        SELECT retired, ignores_case, case_switching INTO removed, folding, switching FROM domain WHERE id = owner FOR KEY SHARE;
        IF NOT FOUND OR removed AND EXISTS (SELECT FROM new_rows WHERE domain_id = owner AND deleted_at IS NULL) THEN
            RAISE EXCEPTION 'there is no domain %', owner USING ERRCODE = 'foreign_key_violation';
        END IF;
        -- The writer may have looked the domain up before a switch.
        IF switching OR NOT folding AND r.folded AND EXISTS (SELECT FROM new_rows WHERE domain_id = owner AND typed_code IS NOT NULL) THEN
            RAISE EXCEPTION 'domain % is being switched', owner USING ERRCODE = 'WP003';
        END IF;
        IF folding AND owner::text <> ALL (string_to_array(coalesce(current_setting('waypost.folded', true), ''), ','))
           AND EXISTS (SELECT FROM new_rows WHERE domain_id = owner AND code ~ '[^\x01-\x40\x5b-\x7f]') THEN
            RAISE EXCEPTION 'domain % ignores case: its codes have no capital letters', owner USING ERRCODE = 'WP003';
        END IF;
    END LOOP;
    IF r.tagged THEN
        PERFORM link_tag_change(c.workspace_id, c.tag, c.n)
        FROM (SELECT l.workspace_id, u AS tag, count(*) AS n
              FROM new_rows l CROSS JOIN LATERAL (SELECT DISTINCT unnest(l.tags)) x (u)
              WHERE l.deleted_at IS NULL AND u <> '' GROUP BY 1, 2 ORDER BY 1, 2) c;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER link_new AFTER INSERT ON link REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION link_after_new();
CREATE TRIGGER link_owners_update AFTER UPDATE ON link REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION link_check_owners();
CREATE TRIGGER link_tags_update AFTER UPDATE ON link REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION link_count_tags();
CREATE TRIGGER link_tags_delete AFTER DELETE ON link REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION link_count_tags();
CREATE TRIGGER link_owner_kept BEFORE UPDATE OR DELETE ON workspace FOR EACH ROW EXECUTE FUNCTION link_keep_owner('workspace_id');
CREATE TRIGGER link_owner_kept BEFORE UPDATE OR DELETE ON domain FOR EACH ROW EXECUTE FUNCTION link_keep_owner('domain_id');

-- 5. The history of the link gets an entry.

-- Changes of links, as their owners see them: the newest 200 of each link. Creations are
-- in link itself, and so are expiries, because the reaper makes many. One transaction
-- makes one entry of a link, which bears the revision of that transaction.
CREATE TABLE link_change (
    link_id      bigint      NOT NULL REFERENCES link ON DELETE CASCADE,
    rev_epoch    integer     NOT NULL,
    rev_seq      bigint      NOT NULL,
    workspace_id bigint      NOT NULL, -- checked with that of the link
    at           timestamptz NOT NULL DEFAULT now(),
    what         text        NOT NULL CHECK (what IN ('changed', 'deleted', 'restored')),
    actor        jsonb       NOT NULL, -- kind, id and name
    before       jsonb       NOT NULL, -- the fields that changed, under their names in the API
    after        jsonb       NOT NULL,
    PRIMARY KEY (link_id, rev_epoch, rev_seq)
);
ALTER TABLE link_change ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON link_change USING (workspace_id = ANY ((SELECT waypost_workspaces())::bigint[]));
CREATE POLICY system ON link_change USING (waypost_system());

-- Returns the fields of a link that its owner can change.
CREATE FUNCTION link_fields(l link) RETURNS jsonb LANGUAGE sql STABLE
    RETURN jsonb_build_object('original_url', l.original_url, 'redirect_status', l.redirect_status, 'forward_query', l.forward_query,
        'forward_path', l.forward_path, 'title', l.title, 'description', l.description, 'notes', l.notes, 'tags', l.tags, 'metadata', l.metadata, 'active', l.active,
        'expires_at', to_char(l.expires_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), 'rules', l.rules -> 'rules',
        'valid_from', l.rules -> 'valid_from', 'expired_url', l.rules -> 'expired_url', 'max_clicks', l.rules -> 'max_clicks',
        'max_clicks_mode', l.rules -> 'max_clicks_mode', 'exhausted_url', l.rules -> 'exhausted_url',
        'confirm', l.rules -> 'confirm', 'aliases', CASE WHEN l.aliases IS NOT NULL THEN (
            SELECT jsonb_agg(d.host || substr(a.address, strpos(a.address, '/')) ORDER BY a.i)
            FROM unnest(l.aliases) WITH ORDINALITY a (address, i) JOIN domain d ON d.id = split_part(a.address, '/', 1)::integer) END);

-- Returns the verifier of a link's password, which follows the head of a programme: gates
-- of package rules, bit 3.
CREATE FUNCTION link_password(programme bytea) RETURNS bytea LANGUAGE sql IMMUTABLE
    RETURN CASE WHEN get_byte(programme, 1) & 8 <> 0 THEN substring(programme FROM 9 FOR 86) END;

-- AFTER UPDATE of each row. The program names its actor in waypost.actor; a change
-- without one was made by hand, or by a part of the program.
CREATE FUNCTION link_note_change() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    old_fields jsonb := link_fields(OLD);
    new_fields jsonb := link_fields(NEW);
    before     jsonb;
    after      jsonb;
BEGIN
    SELECT coalesce(jsonb_object_agg(o.key, o.value), '{}'), coalesce(jsonb_object_agg(o.key, new_fields -> o.key), '{}') INTO before, after
    FROM jsonb_each(old_fields) o WHERE o.value <> new_fields -> o.key;
    -- Of a password, history says no more than whether there is one.
    IF link_password(OLD.programme) IS DISTINCT FROM link_password(NEW.programme) THEN
        before := before || jsonb_build_object('password', link_password(OLD.programme) IS NOT NULL);
        after := after || jsonb_build_object('password', link_password(NEW.programme) IS NOT NULL);
    END IF;
    IF (OLD.deleted_at IS NULL) = (NEW.deleted_at IS NULL) AND after = '{}' THEN
        RETURN NULL;
    END IF;
    IF OLD.aliases IS NULL AND NEW.aliases IS NOT NULL AND (OLD.rev_epoch, OLD.rev_seq) = (NEW.rev_epoch, NEW.rev_seq) THEN
        RETURN NULL; -- it was created with them
    END IF;
    INSERT INTO link_change AS c (link_id, rev_epoch, rev_seq, workspace_id, what, actor, before, after)
    VALUES (NEW.id, NEW.rev_epoch, NEW.rev_seq, NEW.workspace_id,
            CASE WHEN OLD.deleted_at IS NULL AND NEW.deleted_at IS NOT NULL THEN 'deleted'
                 WHEN OLD.deleted_at IS NOT NULL AND NEW.deleted_at IS NULL THEN 'restored' ELSE 'changed' END,
            coalesce(nullif(current_setting('waypost.actor', true), '')::jsonb,
                     jsonb_build_object('kind', CASE WHEN waypost_system() THEN 'system' ELSE 'database' END, 'id', 0, 'name', session_user)),
            before, after)
    ON CONFLICT (link_id, rev_epoch, rev_seq) DO UPDATE
    SET what = CASE WHEN EXCLUDED.what = 'changed' THEN c.what ELSE EXCLUDED.what END,
        before = EXCLUDED.before || c.before, after = c.after || EXCLUDED.after;
    DELETE FROM link_change WHERE link_id = NEW.id AND (rev_epoch, rev_seq) < (
        SELECT c.rev_epoch, c.rev_seq FROM link_change c WHERE c.link_id = NEW.id ORDER BY c.rev_epoch DESC, c.rev_seq DESC OFFSET 199 LIMIT 1);
    RETURN NULL;
END $$;

-- The undo of an import writes the history of its links itself.
CREATE TRIGGER link_changed AFTER UPDATE ON link FOR EACH ROW
    WHEN (current_user <> 'waypost_reaper' AND current_setting('waypost.undoing', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION link_note_change();

-- Aliases: further addresses of links. Edges get each as a record of a link under its own
-- key, whose target is the key of the link. They stay with a link that is deleted.
CREATE TABLE link_alias (
    link_id      bigint      NOT NULL, -- checked by triggers
    workspace_id bigint      NOT NULL, -- that of the link
    domain_id    integer     NOT NULL REFERENCES domain,
    code         text COLLATE "C" NOT NULL CHECK (octet_length(code) BETWEEN 1 AND 128
                                                  AND code !~ '[\x01-\x2c\x3a-\x40\x5b-\x5e\x60\x7b-\x7d\x7f]' AND code !~ '(^|/)[.]{0,2}(/|$)'),
    typed_code   text COLLATE "C" CHECK (typed_code <> code AND octet_length(typed_code) BETWEEN 1 AND 128), -- as that of link
    n            smallint    NOT NULL CHECK (n BETWEEN 1 AND 250), -- in statistics; no other alias of the link ever gets it
    target       text        NOT NULL, -- DOMAIN/CODE of the link
    title        text        NOT NULL DEFAULT '',
    printed_on   date,       -- as its owner says, for statistics; NULL: unknown
    batch        text        NOT NULL DEFAULT '' CHECK (octet_length(batch) <= 100),
    created_at   timestamptz NOT NULL DEFAULT now(),
    slot         smallint    NOT NULL,
    rev_epoch    integer     NOT NULL,
    rev_seq      bigint      NOT NULL,
    stamp        bigint      NOT NULL,
    PRIMARY KEY (domain_id, code)
);
CREATE UNIQUE INDEX link_alias_link ON link_alias (link_id, n);
CREATE INDEX link_alias_slot ON link_alias (slot);
ALTER TABLE link_alias ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON link_alias USING (workspace_id = ANY ((SELECT waypost_workspaces())::bigint[]));
CREATE POLICY system ON link_alias USING (waypost_system());
CREATE POLICY search ON link_alias FOR SELECT TO waypost_search USING (true);
GRANT SELECT ON link_alias TO waypost_search;
GRANT SELECT, INSERT ON retired_code TO waypost_search;

-- BEFORE each new row. All writers of links and aliases hold the head of the changelog, so
-- that no other can have the code in a moment.
CREATE FUNCTION link_alias_place() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    SELECT l.domain_id || '/' || l.code INTO NEW.target
    FROM link l WHERE l.id = NEW.link_id AND l.workspace_id = NEW.workspace_id AND l.deleted_at IS NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the workspace % has no link %', NEW.workspace_id, NEW.link_id USING ERRCODE = 'foreign_key_violation';
    END IF;
    -- The writer may have looked the domain up before a switch.
    IF EXISTS (SELECT FROM domain WHERE id = NEW.domain_id AND (case_switching OR NOT ignores_case AND NEW.typed_code IS NOT NULL)) THEN
        RAISE EXCEPTION 'domain % is being switched', NEW.domain_id USING ERRCODE = 'WP003';
    ELSIF NEW.typed_code IS NULL AND NEW.code ~ '[A-Z]' AND NEW.code !~ '[^\x01-\x7f]'
          AND EXISTS (SELECT FROM domain WHERE id = NEW.domain_id AND ignores_case) THEN
        RAISE EXCEPTION 'domain % ignores case: its codes have no capital letters', NEW.domain_id USING ERRCODE = 'WP003';
    END IF;
    IF EXISTS (SELECT FROM link WHERE domain_id = NEW.domain_id AND code = NEW.code)
       OR EXISTS (SELECT FROM retired_code WHERE domain_id = NEW.domain_id AND code = NEW.code) THEN
        RAISE EXCEPTION 'the code % is taken', NEW.code USING ERRCODE = 'unique_violation';
    END IF;
    NEW.n := (SELECT coalesce(max(r.n), 0) + 1 FROM retired_code r WHERE r.link_id = NEW.link_id);
    INSERT INTO retired_code (domain_id, code, link_id, n)
    SELECT NEW.domain_id, c, NEW.link_id, NEW.n FROM (VALUES (NEW.code), (NEW.typed_code)) v (c) WHERE c IS NOT NULL ON CONFLICT DO NOTHING;
    RETURN NEW;
END $$;

CREATE FUNCTION changelog_stamp_alias() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND ((NEW.link_id, NEW.domain_id, NEW.n) IS DISTINCT FROM (OLD.link_id, OLD.domain_id, OLD.n)
       OR (NEW.code, NEW.typed_code, NEW.target) IS DISTINCT FROM (OLD.code, OLD.typed_code, OLD.target)
          AND current_setting('waypost.switching', true) IS DISTINCT FROM 'on') THEN
        RAISE EXCEPTION 'the key of an alias cannot change: delete it and create another';
    ELSIF TG_OP = 'INSERT' AND NEW.code ~ '[^\x01-\x7f]' AND current_user <> 'waypost_tenant' THEN
        RAISE EXCEPTION 'codes with characters beyond ASCII have a normal form: create their aliases with the API';
    END IF;
    NEW.slot := waypost_slot(1, NEW.domain_id, NEW.code);
    NEW.rev_epoch := current_setting('waypost.epoch')::integer;
    NEW.rev_seq := current_setting('waypost.seq')::bigint;
    NEW.stamp := waypost_stamp();
    RETURN NEW;
END $$;

-- AFTER STATEMENT.
CREATE FUNCTION changelog_after_alias() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    h      changelog_head;
    change bigint := 0;
    n      integer;
    before integer := 0; -- keys that aliases have left, or aliases that were disabled before
BEGIN
    SELECT * INTO STRICT h FROM changelog_head WHERE singleton;
    IF TG_OP = 'DELETE' THEN
        IF current_setting('waypost.undoing', true) = 'on' THEN
            INSERT INTO changelog (seq, ord, epoch, kind, stamp, domain_id, name, state, status, flags, payload)
            SELECT h.seq, h.ord - 1 + row_number() OVER (), h.epoch, 1, o.stamp, o.domain_id, o.code, 1, 302, 16, o.target FROM old_rows o;
            GET DIAGNOSTICS before = ROW_COUNT;
        END IF;
        INSERT INTO changelog (seq, ord, epoch, kind, stamp, domain_id, name, state)
        SELECT h.seq, h.ord - 1 + before + row_number() OVER (), h.epoch, 1, o.stamp, o.domain_id, o.code, 3 FROM old_rows o;
    ELSE
        IF TG_OP = 'UPDATE' THEN
            INSERT INTO changelog (seq, ord, epoch, kind, stamp, domain_id, name, state)
            SELECT h.seq, h.ord - 1 + row_number() OVER (), h.epoch, 1, o.stamp, o.domain_id, o.code, 3
            FROM old_rows o JOIN new_rows r USING (link_id, n) WHERE o.code <> r.code;
            GET DIAGNOSTICS before = ROW_COUNT;
        END IF;
        INSERT INTO changelog (seq, ord, epoch, kind, stamp, domain_id, name, state, status, flags, payload)
        SELECT h.seq, h.ord - 1 + before + row_number() OVER (), h.epoch, 1, r.stamp, r.domain_id, r.code, 0, 302, 16, r.target FROM new_rows r;
    END IF;
    GET DIAGNOSTICS n = ROW_COUNT;
    IF TG_OP <> 'INSERT' THEN
        change := (SELECT coalesce(bit_xor(o.stamp), 0) FROM old_rows o);
    END IF;
    IF TG_OP <> 'DELETE' THEN
        change := change # (SELECT coalesce(bit_xor(r.stamp), 0) FROM new_rows r);
    END IF;
    PERFORM changelog_mark(n + before, change);
    RETURN NULL;
END $$;

-- AFTER INSERT and AFTER DELETE: the link has a new version, which lists its aliases.
CREATE FUNCTION link_alias_changed() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    links bigint[];
BEGIN
    IF TG_OP = 'INSERT' THEN
        links := ARRAY(SELECT DISTINCT link_id FROM new_rows);
    ELSE
        links := ARRAY(SELECT DISTINCT link_id FROM old_rows);
    END IF;
    IF EXISTS (SELECT FROM link WHERE id = ANY (links)) THEN
        UPDATE link l SET updated_at = now(),
            aliases = (SELECT array_agg(a.domain_id || '/' || coalesce(a.typed_code, a.code) ORDER BY a.n) FROM link_alias a WHERE a.link_id = l.id)
        WHERE id = ANY (links);
    END IF;
    RETURN NULL;
END $$;

-- AFTER DELETE on link.
CREATE FUNCTION link_delete_aliases() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM old_rows WHERE aliases IS NOT NULL) THEN
        DELETE FROM link_alias WHERE link_id IN (SELECT id FROM old_rows WHERE aliases IS NOT NULL);
    END IF;
    RETURN NULL;
END $$;

SELECT changelog_replicate('link_alias', 'changelog_stamp_alias', 'changelog_after_alias', 1);
CREATE TRIGGER link_alias_1_placed BEFORE INSERT ON link_alias FOR EACH ROW EXECUTE FUNCTION link_alias_place();
CREATE TRIGGER link_alias_2_insert AFTER INSERT ON link_alias REFERENCING NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION link_alias_changed();
-- The links of an import that is undone are deleted before their aliases.
CREATE TRIGGER link_alias_2_delete AFTER DELETE ON link_alias REFERENCING OLD TABLE AS old_rows
    FOR EACH STATEMENT WHEN (current_setting('waypost.undoing', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION link_alias_changed();
CREATE TRIGGER link_without_aliases AFTER DELETE ON link REFERENCING OLD TABLE AS old_rows
    FOR EACH STATEMENT EXECUTE FUNCTION link_delete_aliases();
ALTER TABLE link_alias
    ENABLE ALWAYS TRIGGER link_alias_1_placed,
    ENABLE ALWAYS TRIGGER link_alias_2_insert,
    ENABLE ALWAYS TRIGGER link_alias_2_delete;

-- Returns as much as a workspace may know of a code without a link: that it is an alias of
-- its links, or that it is retired. Else ''.
CREATE FUNCTION link_code_fate(workspace bigint, domain integer, name text) RETURNS text LANGUAGE sql STABLE
    RETURN CASE
        WHEN EXISTS (SELECT FROM link_alias a WHERE a.domain_id = domain AND a.code = name AND a.workspace_id = workspace) THEN 'alias'
        WHEN link_code_retired(domain, name)
          OR EXISTS (SELECT FROM link l WHERE l.id = link_alias_of(domain, name) AND l.workspace_id = workspace) THEN 'retired'
        ELSE '' END;

-- The triggers fire in a session in replica role too.
ALTER TABLE link
    ENABLE ALWAYS TRIGGER changelog_1_begin,
    ENABLE ALWAYS TRIGGER changelog_2_stamp,
    ENABLE ALWAYS TRIGGER changelog_2_stamp_new,
    ENABLE ALWAYS TRIGGER changelog_3_insert,
    ENABLE ALWAYS TRIGGER changelog_3_update,
    ENABLE ALWAYS TRIGGER changelog_3_delete,
    ENABLE ALWAYS TRIGGER link_retired,
    ENABLE ALWAYS TRIGGER link_new,
    ENABLE ALWAYS TRIGGER link_owners_update,
    ENABLE ALWAYS TRIGGER link_tags_update,
    ENABLE ALWAYS TRIGGER link_tags_delete,
    ENABLE ALWAYS TRIGGER link_without_aliases,
    ENABLE ALWAYS TRIGGER link_changed;

-- The keys that links had before their domain was switched between codes with and without
-- regard to case. Edges may report clicks of those keys for as long as they keep batches.
CREATE TABLE link_former_key (
    domain_id integer NOT NULL,
    code      text    COLLATE "C" NOT NULL,
    link_id   bigint  NOT NULL REFERENCES link ON DELETE CASCADE,
    PRIMARY KEY (domain_id, code)
);
CREATE INDEX link_former_key_link ON link_former_key (link_id);
ALTER TABLE link_former_key ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY system ON link_former_key USING (waypost_system());

-- The one link that a workspace gets for a target under a domain unless it asks for a
-- second one: target is SHA-256 of the target's normal form. Links that were made
-- without asking for that are not here, and cost nothing. If the link was deleted,
-- disabled or has expired, the next request replaces the row.
CREATE TABLE link_dedupe (
    workspace_id bigint  NOT NULL REFERENCES workspace,
    domain_id    integer NOT NULL REFERENCES domain,
    target       bytea   NOT NULL CHECK (octet_length(target) = 32),
    link_id      bigint  NOT NULL UNIQUE REFERENCES link ON DELETE CASCADE,
    PRIMARY KEY (workspace_id, domain_id, target)
);
ALTER TABLE link_dedupe ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON link_dedupe USING (workspace_id = ANY (waypost_workspaces()));
CREATE POLICY system ON link_dedupe USING (waypost_system());

-- Finds the rows of targets one by one, each by the primary key, because PostgreSQL keeps
-- the plan of such a query. For a join with arrays it takes other plans, and some of them
-- read all links.
CREATE FUNCTION link_duplicates(workspaces bigint[], domains integer[], targets bytea[]) RETURNS TABLE (link_id bigint, target bytea)
    LANGUAGE plpgsql STABLE ROWS 1 AS $$
BEGIN
    FOR i IN 1 .. cardinality(targets) LOOP
        RETURN QUERY SELECT d.link_id, d.target FROM link_dedupe d
            WHERE d.workspace_id = workspaces[i] AND d.domain_id = domains[i] AND d.target = targets[i];
    END LOOP;
END $$;

-- Responses to requests with an Idempotency-Key, written in the transaction that made
-- their links. The body is as it was sent, compressed by zstd.
CREATE TABLE idempotency (
    workspace_id bigint      NOT NULL REFERENCES workspace,
    route        text        COLLATE "C" NOT NULL CHECK (length(route) BETWEEN 1 AND 100),
    key          text        COLLATE "C" NOT NULL CHECK (octet_length(key) BETWEEN 1 AND 255),
    request      bytea       NOT NULL CHECK (octet_length(request) = 32), -- SHA-256 of the request
    status       smallint    NOT NULL,
    header       jsonb       NOT NULL,
    body         bytea       NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (workspace_id, route, key)
);
ALTER TABLE idempotency ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE INDEX idempotency_age ON idempotency (created_at);
ALTER TABLE idempotency ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON idempotency USING (workspace_id = ANY (waypost_workspaces()));
CREATE POLICY system ON idempotency USING (waypost_system());

-- Totals of the reapers of all instances.
CREATE TABLE cleanup (
    singleton           boolean     PRIMARY KEY DEFAULT true CHECK (singleton),
    last_cleanup_time   timestamptz,
    total_cleaned       bigint      NOT NULL DEFAULT 0,
    last_batch_size     bigint      NOT NULL DEFAULT 0,
    successful_runs     bigint      NOT NULL DEFAULT 0,
    failed_runs         bigint      NOT NULL DEFAULT 0,
    cleanup_ms          double precision NOT NULL DEFAULT 0, -- of all runs
    running_until       timestamptz  -- a run under way counts as running until then
);
INSERT INTO cleanup DEFAULT VALUES;

-- +goose StatementEnd
