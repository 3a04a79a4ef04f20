-- +goose Up

-- The same twelve bits as before, at half the cost.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION waypost_slot(kind integer, domain integer, name text) RETURNS smallint LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    hash bytea := sha256(convert_to(kind || '/' || domain || '/' || name, 'UTF8'));
BEGIN
    RETURN (get_byte(hash, 0) << 4) | (get_byte(hash, 1) >> 4);
END $$;
-- +goose StatementEnd

-- Takes the next sequence number for this transaction, once, as changelog_begin did alone,
-- in one statement. It is for those functions that the owner's rights go with.
-- +goose StatementBegin
CREATE FUNCTION changelog_take(OUT epoch integer, OUT seq bigint, OUT stamp bigint) LANGUAGE plpgsql AS $$
BEGIN
    WITH h AS (
        UPDATE changelog_head t
           SET seq = t.seq + 1, ord = 1, stamp = waypost_stamp(), writer = pg_current_xact_id()
         WHERE t.writer <> pg_current_xact_id()
        RETURNING t.epoch, t.seq, t.stamp, t.digest
    ), opened AS (
        INSERT INTO changelog (seq, ord, epoch, kind, stamp, digest)
        SELECT h.seq, 0, h.epoch, 0, h.stamp, h.digest FROM h
    )
    SELECT h.epoch, h.seq, h.stamp INTO epoch, seq, stamp FROM h;
    IF NOT FOUND THEN
        SELECT h.epoch, h.seq, h.stamp INTO STRICT epoch, seq, stamp FROM changelog_head h;
    END IF;
    PERFORM set_config('waypost.epoch', epoch::text, true), set_config('waypost.seq', seq::text, true),
            set_config('waypost.writer', pg_current_xact_id()::text, true);
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION changelog_begin(OUT epoch integer, OUT seq bigint, OUT stamp bigint) LANGUAGE plpgsql AS $$
BEGIN
    SELECT t.epoch, t.seq, t.stamp INTO epoch, seq, stamp FROM changelog_take() t;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION changelog_begin_in(expected integer, OUT epoch integer, OUT epoch_id uuid, OUT seq bigint, OUT stamp bigint) LANGUAGE plpgsql AS $$
BEGIN
    SELECT t.epoch, t.seq, t.stamp INTO epoch, seq, stamp FROM changelog_take() t;
    IF expected NOT IN (0, epoch) THEN
        RAISE EXCEPTION 'the changelog is in epoch %, not %', epoch, expected USING ERRCODE = 'WP001';
    END IF;
    SELECT e.id INTO STRICT epoch_id FROM changelog_epoch e WHERE e.ordinal = epoch;
END $$;
-- +goose StatementEnd

-- As before, and nothing is added to the transaction of somebody else.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION changelog_mark(entries integer, change bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    h changelog_head;
BEGIN
    UPDATE changelog_head t SET digest = t.digest # change, ord = t.ord + entries + 1
    WHERE t.writer = pg_current_xact_id() RETURNING * INTO h;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'this transaction has no number in the changelog';
    END IF;
    INSERT INTO changelog (seq, ord, epoch, kind, stamp, digest)
    VALUES (h.seq, h.ord - 1, h.epoch, 0, h.stamp, h.digest);
END $$;
-- +goose StatementEnd

-- Who opens an epoch writes it down first; the head is updated twice in every transaction.
ALTER TABLE changelog_head DROP CONSTRAINT changelog_head_epoch_fkey;

-- Of a transaction that has its number already, links ask for none. A savepoint that is
-- rolled back takes the setting back with the number.
DROP TRIGGER changelog_1_begin ON link;
CREATE TRIGGER changelog_1_begin BEFORE INSERT OR UPDATE OR DELETE ON link FOR EACH STATEMENT
    WHEN (current_setting('waypost.writer', true) IS DISTINCT FROM pg_current_xact_id()::text)
    EXECUTE FUNCTION changelog_before_statement();
ALTER TABLE link ENABLE ALWAYS TRIGGER changelog_1_begin;

-- The writers stamp links themselves, which takes a tenth of the time: they name the
-- sequence of their transaction in waypost.stamped. Whatever else is inserted is stamped here, whatever it brings along.
DROP TRIGGER changelog_2_stamp ON link;
CREATE TRIGGER changelog_2_stamp BEFORE UPDATE ON link FOR EACH ROW EXECUTE FUNCTION changelog_stamp_link('1');
CREATE TRIGGER changelog_2_stamp_new BEFORE INSERT ON link FOR EACH ROW
    WHEN (NEW.rev_seq::text IS DISTINCT FROM current_setting('waypost.stamped', true) OR NEW.rev_epoch::text IS DISTINCT FROM current_setting('waypost.epoch', true))
    EXECUTE FUNCTION changelog_stamp_link('1');
ALTER TABLE link ENABLE ALWAYS TRIGGER changelog_2_stamp;
ALTER TABLE link ENABLE ALWAYS TRIGGER changelog_2_stamp_new;

-- AFTER INSERT on link: what changelog_after_link would write, in one statement.
-- +goose StatementBegin
CREATE FUNCTION changelog_after_new_link() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    WITH c AS (
        SELECT count(*) AS n, coalesce(bit_xor(r.stamp), 0) AS change,
               min(r.rev_seq) AS low, max(r.rev_seq) AS high, min(r.rev_epoch) AS first, max(r.rev_epoch) AS last
        FROM new_rows r
    ), h AS (
        UPDATE changelog_head t SET digest = t.digest # c.change, ord = t.ord + c.n + 1 FROM c
        WHERE t.writer = pg_current_xact_id() AND (c.n = 0 OR (c.low, c.high, c.first, c.last) = (t.seq, t.seq, t.epoch, t.epoch))
        RETURNING t.seq, t.ord - 1 AS last, t.ord - 2 - c.n AS before, t.epoch, t.stamp, t.digest
    )
    INSERT INTO changelog (seq, ord, epoch, kind, stamp, digest, domain_id, name, state, status, flags, expires_at, payload)
    SELECT h.seq, h.before + row_number() OVER (), h.epoch, 1, r.stamp, NULL, r.domain_id, r.code,
           link_state(r.active, r.deleted_at), r.redirect_status, link_flags(r.forward_query, r.forward_path), r.expires_at,
           link_payload(r.location, r.original_url, r.deleted_at)
    FROM h, new_rows r
    UNION ALL
    SELECT h.seq, h.last, h.epoch, 0, h.stamp, h.digest, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM h;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'links bear a number that is not of this transaction';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
DROP TRIGGER changelog_3_insert ON link;
CREATE TRIGGER changelog_3_insert AFTER INSERT ON link REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION changelog_after_new_link();
ALTER TABLE link ENABLE ALWAYS TRIGGER changelog_3_insert;

-- That a link's workspace and domain exist is seen once a statement instead of twice a
-- link, which was a quarter of what a link cost. They are locked as a foreign key would
-- lock them, and cannot be deleted while they have links.
ALTER TABLE link DROP CONSTRAINT link_workspace_id_fkey, DROP CONSTRAINT link_domain_id_fkey;
-- +goose StatementBegin
CREATE FUNCTION link_check_owners() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    o record;
BEGIN
    FOR o IN SELECT DISTINCT workspace_id FROM new_rows ORDER BY 1 LOOP
        PERFORM FROM workspace WHERE id = o.workspace_id FOR KEY SHARE;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'there is no workspace %', o.workspace_id USING ERRCODE = 'foreign_key_violation';
        END IF;
    END LOOP;
    FOR o IN SELECT DISTINCT domain_id FROM new_rows ORDER BY 1 LOOP
        PERFORM FROM domain WHERE id = o.domain_id FOR KEY SHARE;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'there is no domain %', o.domain_id USING ERRCODE = 'foreign_key_violation';
        END IF;
    END LOOP;
    RETURN NULL;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE FUNCTION link_keep_owner() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    used boolean;
BEGIN
    IF TG_OP = 'UPDATE' AND NEW.id = OLD.id THEN
        RETURN NEW;
    END IF;
    -- The row is locked by now: a link that is being made has either been committed, and is seen, or waits.
    EXECUTE format('SELECT EXISTS (SELECT FROM link WHERE %I = $1)', TG_ARGV[0]) INTO used USING OLD.id;
    IF used THEN
        RAISE EXCEPTION 'the % % has links', TG_TABLE_NAME, OLD.id USING ERRCODE = 'foreign_key_violation';
    END IF;
    IF TG_OP = 'DELETE' THEN
        RETURN OLD;
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER link_owners_insert AFTER INSERT ON link REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION link_check_owners();
CREATE TRIGGER link_owners_update AFTER UPDATE ON link REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION link_check_owners();
CREATE TRIGGER link_owner_kept BEFORE UPDATE OR DELETE ON workspace FOR EACH ROW EXECUTE FUNCTION link_keep_owner('workspace_id');
CREATE TRIGGER link_owner_kept BEFORE UPDATE OR DELETE ON domain FOR EACH ROW EXECUTE FUNCTION link_keep_owner('domain_id');

-- Lists go by the time of creation; links of one transaction share it. What few
-- links are, disabled, about to expire, of a domain of one's own, has an index of
-- its own, which costs the others nothing.
DROP INDEX link_newest;
CREATE INDEX link_created ON link (workspace_id, created_at, id) WHERE deleted_at IS NULL;
CREATE INDEX link_inactive ON link (workspace_id, created_at, id) WHERE deleted_at IS NULL AND NOT active;
CREATE INDEX link_expiring ON link (workspace_id, expires_at) WHERE deleted_at IS NULL AND expires_at IS NOT NULL;
CREATE INDEX link_domain ON link (workspace_id, domain_id, created_at, id) WHERE deleted_at IS NULL AND domain_id <> 1;

-- It makes an update of clicks leave its page, but clicks are updated many at a time.
CREATE INDEX link_click_most ON link_click (workspace_id, clicks, link_id);

-- What a link is found by: the words of its title and description, its tags, and its
-- workspace, so that a search reads no other's. Tags and workspace stand behind a
-- character that no word has.
-- +goose StatementBegin
CREATE FUNCTION link_words(workspace bigint, title text, description text, tags text[]) RETURNS tsvector LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE COST 400 AS $$
DECLARE
    own    text := E'\x01' || workspace;
    lexeme text := own || E'\x01';
BEGIN
    IF tags = '{}' THEN
        RETURN to_tsvector('pg_catalog.simple', title || ' ' || description) || array_to_tsvector(ARRAY[own]);
    END IF;
    RETURN to_tsvector('pg_catalog.simple', title || ' ' || description)
        || array_to_tsvector(string_to_array(own || E'\x02' || lexeme || array_to_string(tags, E'\x02' || lexeme), E'\x02'));
END $$;
-- +goose StatementEnd

-- New entries gather in a short list, which is soon told.
CREATE INDEX link_words ON link USING gin (link_words(workspace_id, title, description, tags))
    WITH (gin_pending_list_limit = 1024)
    WHERE deleted_at IS NULL AND (title <> '' OR description <> '' OR tags <> '{}');

-- What link_words is asked for: text as people type it into a search, and all of the
-- tags. NULL: nothing can be found by that.
-- +goose StatementBegin
CREATE FUNCTION link_question(workspace bigint, words text, tags text[]) RETURNS tsquery LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    question tsquery := websearch_to_tsquery('pg_catalog.simple', coalesce(words, ''));
    lexeme   text;
BEGIN
    IF coalesce(words, '') <> '' AND numnode(question) = 0 THEN
        RETURN NULL;
    END IF;
    FOREACH lexeme IN ARRAY tsvector_to_array(link_words(workspace, '', '', coalesce(tags, '{}'))) LOOP
        question := question && ('''' || replace(replace(lexeme, '\', '\\'), '''', '''''') || '''')::tsquery;
    END LOOP;
    RETURN question;
END $$;
-- +goose StatementEnd

-- The role that lists and counts tags for everybody. Its policies let every row pass, because
-- PostgreSQL otherwise keeps @@ away from the index: its operator might tell of other
-- tenants' rows. Nobody logs in with it, and the functions that it owns ask for one
-- workspace, which they hold against the transaction's.
-- +goose StatementBegin
DO $$
BEGIN
    EXECUTE format('GRANT USAGE, CREATE ON SCHEMA %I TO waypost_search', current_schema());
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
DO $$
BEGIN
    EXECUTE format('GRANT waypost_search TO %I', current_user); -- until the end of this migration
EXCEPTION
    WHEN insufficient_privilege THEN NULL; -- somebody else has granted it
END $$;
-- +goose StatementEnd

-- How many live links have a tag. Hot tags make nobody wait who would not wait anyway:
-- every change of links holds the head of the changelog.
CREATE TABLE link_tag (
    workspace_id bigint NOT NULL REFERENCES workspace,
    tag          text COLLATE "C" NOT NULL,
    links        bigint NOT NULL CHECK (links > 0),
    PRIMARY KEY (workspace_id, tag)
) WITH (fillfactor = 50);
ALTER TABLE link_tag ENABLE ROW LEVEL SECURITY;
ALTER TABLE link_tag FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON link_tag FOR SELECT USING (workspace_id = ANY (waypost_workspaces()));
CREATE POLICY system ON link_tag USING (waypost_system());
CREATE POLICY search ON link_tag TO waypost_search USING (true);
CREATE POLICY search ON link FOR SELECT TO waypost_search USING (true);
CREATE POLICY search ON link_click FOR SELECT TO waypost_search USING (true);
CREATE POLICY search ON workspace TO waypost_search USING (true);
CREATE POLICY search ON domain TO waypost_search USING (true);
GRANT SELECT ON link, link_click TO waypost_search;
GRANT SELECT, UPDATE (id) ON workspace, domain TO waypost_search; -- FOR KEY SHARE is counted as an update
GRANT SELECT, INSERT, UPDATE, DELETE ON link_tag TO waypost_search;

-- +goose StatementBegin
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
-- +goose StatementEnd

-- AFTER STATEMENT on link, for whoever changes links. A tag that a link has twice
-- counts once.
-- +goose StatementBegin
CREATE FUNCTION link_count_tags() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF EXISTS (SELECT FROM new_rows WHERE tags <> '{}') THEN
            PERFORM link_tag_change(c.workspace_id, c.tag, c.n)
            FROM (SELECT r.workspace_id, u AS tag, count(*) AS n
                  FROM new_rows r CROSS JOIN LATERAL (SELECT DISTINCT unnest(r.tags)) x (u)
                  WHERE r.deleted_at IS NULL AND u <> '' GROUP BY 1, 2 ORDER BY 1, 2) c;
        END IF;
    ELSIF NOT EXISTS (SELECT FROM old_rows WHERE tags <> '{}') AND TG_OP = 'DELETE' THEN
        NULL;
    ELSIF TG_OP = 'DELETE' THEN
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
-- +goose StatementEnd
CREATE TRIGGER link_tags_insert AFTER INSERT ON link REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION link_count_tags();
CREATE TRIGGER link_tags_update AFTER UPDATE ON link REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION link_count_tags();
CREATE TRIGGER link_tags_delete AFTER DELETE ON link REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION link_count_tags();
ALTER TABLE link ENABLE ALWAYS TRIGGER link_tags_insert;
ALTER TABLE link ENABLE ALWAYS TRIGGER link_tags_update;
ALTER TABLE link ENABLE ALWAYS TRIGGER link_tags_delete;

-- The query of a list, out of what is asked for. Its parameters: $1 workspace,
-- $2 question, $3 domain, $4 the present, $5 and $6 bounds of created_at, $7 created_at, $8 clicks and
-- $9 id of the place to go on from, $10 how many at most, $11 how many rows to look at.
-- It gives (n, id, clicks, found).
--
-- What has an index of its own narrows the walk; the rest is judged row by row, of $11
-- rows at most: then the last of them comes behind the others, not found, as a place
-- to go on from. Words and expiry are looked up in their indexes, without that bound, unless a
-- quick walk is asked for.
-- +goose StatementBegin
CREATE FUNCTION link_list_query(stage text, ascending boolean, words boolean, domain integer, active boolean, expired boolean,
                                since boolean, until boolean, place boolean, quick boolean, ending boolean) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    bounded boolean := quick OR NOT words AND expired IS DISTINCT FROM true;
    walk    text := 'l.workspace_id = $1 AND l.deleted_at IS NULL'; -- on an index
    judged  text := 'true';                                        -- row by row
    way     text := CASE WHEN ascending THEN 'ASC' ELSE 'DESC' END;
    beyond  text := CASE WHEN ascending THEN '>' ELSE '<' END;
    wanted  text;
    newest  text;
    outcome text;
BEGIN
    IF stage <> 'clicked' AND place THEN
        walk := walk || format(' AND (l.created_at, l.id) %s ($7, $9)', beyond);
    END IF;
    IF since THEN
        walk := walk || ' AND l.created_at >= $5';
    END IF;
    IF until THEN
        walk := walk || ' AND l.created_at < $6';
    END IF;
    IF words THEN
        wanted := ' AND (l.title <> '''' OR l.description <> '''' OR l.tags <> ''{}'') AND link_words(l.workspace_id, l.title, l.description, l.tags) @@ $2';
        IF quick THEN
            judged := judged || wanted;
        ELSE
            walk := walk || wanted;
        END IF;
    END IF;
    IF domain <> 1 THEN
        walk := walk || ' AND l.domain_id = $3 AND l.domain_id <> 1';
    ELSIF domain = 1 THEN
        judged := judged || ' AND l.domain_id = 1';
    END IF;
    IF NOT active AND coalesce(domain, 1) = 1 THEN
        walk := walk || ' AND NOT l.active';
    ELSIF NOT active THEN
        judged := judged || ' AND NOT l.active';
    ELSIF active THEN
        judged := judged || ' AND l.active';
    END IF;
    IF expired AND quick THEN
        judged := judged || ' AND l.expires_at <= $4';
    ELSIF expired THEN
        walk := walk || ' AND l.expires_at <= $4';
    ELSIF NOT expired THEN
        judged := judged || ' AND (l.expires_at IS NULL OR l.expires_at > $4)';
    END IF;

    IF stage = 'clicked' THEN
        newest := 'c.workspace_id = $1' || CASE WHEN place THEN format(' AND (c.clicks, c.link_id) %s ($8, $9)', beyond) ELSE '' END;
        IF NOT bounded THEN
            RETURN format('SELECT row_number() OVER (), s.id, s.clicks, true FROM (SELECT l.id, c.clicks FROM link l JOIN link_click c ON c.link_id = l.id'
                || ' WHERE %s AND %s AND %s ORDER BY c.clicks %s, c.link_id %4$s LIMIT $10) s', newest, walk, judged, way);
        END IF;
        outcome := format('SELECT c.link_id AS id, c.clicks FROM link_click c WHERE %s ORDER BY c.clicks %s, c.link_id %2$s', newest, way);
        IF ending THEN
            RETURN 'SELECT $10::bigint + 1, s.id, s.clicks, false FROM (' || outcome || ' OFFSET $11 - 1 LIMIT 1) s';
        END IF;
        -- OFFSET 0 keeps the planner from any other order than that of the walk.
        RETURN format('SELECT row_number() OVER (), s.id, s.clicks, true FROM (SELECT w.id, w.clicks FROM (%s LIMIT $11) w'
            || ' CROSS JOIN LATERAL (SELECT FROM link l WHERE l.id = w.id AND %s AND %s OFFSET 0) j LIMIT $10) s', outcome, walk, judged);
    END IF;

    IF stage = 'never' THEN
        -- as a scalar, which is looked up row by row
        judged := judged || ' AND (SELECT c.clicks FROM link_click c WHERE c.link_id = l.id) IS NULL';
    END IF;
    IF NOT bounded THEN
        RETURN format('SELECT row_number() OVER (), s.id, 0::bigint, true FROM (SELECT l.id FROM link l WHERE %s AND %s'
            || ' ORDER BY l.created_at %s, l.id %3$s LIMIT $10) s', walk, judged, way);
    END IF;
    outcome := format('SELECT l.* FROM link l WHERE %s ORDER BY l.created_at %s, l.id %2$s', walk, way);
    IF ending THEN
        RETURN 'SELECT $10::bigint + 1, s.id, 0::bigint, false FROM (' || outcome || ' OFFSET $11 - 1 LIMIT 1) s';
    END IF;
    RETURN format('SELECT row_number() OVER (), s.id, 0::bigint, true FROM (SELECT l.id FROM (%s LIMIT $11) l WHERE %s LIMIT $10) s', outcome, judged);
END $$;
-- +goose StatementEnd

-- The reviewed way to links past row-level security: it gives ids of one workspace, which must be
-- one of the transaction's. Whoever asks reads the links themselves under their own policies.
-- +goose StatementBegin
CREATE FUNCTION link_list(workspace bigint, stage text, ascending boolean, words text, tags text[], domain integer, active boolean, expired boolean,
                          moment timestamptz, since timestamptz, until timestamptz,
                          at_created timestamptz, at_clicks bigint, at_id bigint, most integer, budget integer)
    RETURNS TABLE (n bigint, id bigint, clicks bigint, found boolean)
    LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 50 SET search_path = pg_catalog, public, pg_temp
    SET enable_hashjoin = off SET enable_mergejoin = off -- clicks are looked up link by link, or links click by click; both end early
    -- Every list has its index. PostgreSQL does not know that links lie in the order of their creation, and thinks the walk over
    -- some weeks dearer than all links, read by several processes and sorted.
    SET enable_seqscan = off AS $$
DECLARE
    question tsquery;
    wordy    boolean := coalesce(words, '') <> '' OR tags <> '{}';
    got      bigint := 0;
BEGIN
    IF NOT coalesce(workspace = ANY (waypost_workspaces()), false) THEN
        RAISE EXCEPTION 'this transaction may not look at workspace %', workspace USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF wordy THEN
        question := link_question(workspace, words, tags);
        IF question IS NULL THEN
            RETURN;
        END IF;
    END IF;
    -- PostgreSQL keeps its statistics of words from whoever is bound by policies, so that it would look
    -- up common words, too, and sort millions. What a short walk finds enough of is common.
    IF wordy THEN
        EXECUTE 'SELECT count(*) FROM (' || link_list_query(stage, ascending, wordy, domain, active, expired, since IS NOT NULL, until IS NOT NULL, at_id IS NOT NULL, true, false) || ') q'
            INTO got USING workspace, question, domain, moment, since, until, at_created, at_clicks, at_id, most, 2000;
    END IF;
    RETURN QUERY EXECUTE link_list_query(stage, ascending, wordy, domain, active, expired, since IS NOT NULL, until IS NOT NULL, at_id IS NOT NULL, got >= most, false)
        USING workspace, question, domain, moment, since, until, at_created, at_clicks, at_id, most, budget;
    GET DIAGNOSTICS got = ROW_COUNT;
    IF got < most AND NOT wordy AND expired IS DISTINCT FROM true THEN
        RETURN QUERY EXECUTE link_list_query(stage, ascending, wordy, domain, active, expired, since IS NOT NULL, until IS NOT NULL, at_id IS NOT NULL, false, true)
            USING workspace, question, domain, moment, since, until, at_created, at_clicks, at_id, most, budget;
    END IF;
END $$;
-- +goose StatementEnd

ALTER FUNCTION link_check_owners() OWNER TO waypost_search;
ALTER FUNCTION link_keep_owner() OWNER TO waypost_search;
ALTER FUNCTION link_tag_change(bigint, text, bigint) OWNER TO waypost_search;
ALTER FUNCTION link_count_tags() OWNER TO waypost_search;
ALTER FUNCTION link_list(bigint, text, boolean, text, text[], integer, boolean, boolean, timestamptz, timestamptz, timestamptz, timestamptz, bigint, bigint, integer, integer) OWNER TO waypost_search;

SET LOCAL ROLE waypost_search;
INSERT INTO link_tag (workspace_id, tag, links)
SELECT l.workspace_id, u, count(*) FROM link l CROSS JOIN LATERAL (SELECT DISTINCT unnest(l.tags)) x (u)
WHERE l.deleted_at IS NULL AND u <> '' GROUP BY 1, 2;
RESET ROLE;
-- +goose StatementBegin
DO $$
BEGIN
    EXECUTE format('REVOKE CREATE ON SCHEMA %I FROM waypost_search', current_schema());
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
DO $$
BEGIN
    -- Policies of a role are those of its members, too: it should have none.
    EXECUTE format('REVOKE waypost_search FROM %I', current_user);
EXCEPTION
    WHEN insufficient_privilege THEN NULL;
END $$;
-- +goose StatementEnd
