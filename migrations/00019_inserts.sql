-- +goose Up

-- Who waits for the table has all others wait behind him: not for long, and then again.
SET LOCAL lock_timeout = '1s';

-- What a new link costs. First: the workspaces that a transaction names are taken apart once
-- a statement, and not twice a row.
ALTER POLICY tenant ON link USING (workspace_id = ANY ((SELECT waypost_workspaces())::bigint[]));

-- Whether a row is stamped already is seen by the sequence alone: changelog_after_new_link
-- refuses a row that has it and is of another epoch.
DROP TRIGGER changelog_2_stamp_new ON link;
CREATE TRIGGER changelog_2_stamp_new BEFORE INSERT ON link FOR EACH ROW
    WHEN (NEW.rev_seq IS NULL OR NEW.rev_seq::text IS DISTINCT FROM current_setting('waypost.stamped', true))
    EXECUTE FUNCTION changelog_stamp_link('1');
ALTER TABLE link ENABLE ALWAYS TRIGGER changelog_2_stamp_new;

-- As in 00013, but entries are numbered by the ids of their links where these are near each other, as they are
-- unless somebody chooses them: to count rows takes a copy of each. Numbers may then be left out.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION changelog_after_new_link() RETURNS trigger LANGUAGE plpgsql AS $$
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
        WHERE t.writer = pg_current_xact_id() AND (c.n = 0 OR (c.low, c.high, c.first, c.last) = (t.seq, t.seq, t.epoch, t.epoch))
        RETURNING t.seq, t.ord - 1 AS last, t.ord - 2 - c.numbers - c.before AS shift, t.epoch, t.stamp, t.digest, c.near
    )
    INSERT INTO changelog (seq, ord, epoch, kind, stamp, digest, domain_id, name, state, status, flags, expires_at, payload)
    SELECT h.seq, h.shift + r.id, h.epoch, 1, r.stamp, NULL::bigint, r.domain_id, r.code,
           link_state(r.active, r.deleted_at), r.redirect_status, link_flags(r.forward_query, r.forward_path), r.expires_at,
           link_payload(r.location, r.original_url, r.deleted_at)
    FROM h, new_rows r WHERE h.near
    UNION ALL
    SELECT h.seq, h.shift + row_number() OVER (), h.epoch, 1, r.stamp, NULL::bigint, r.domain_id, r.code,
           link_state(r.active, r.deleted_at), r.redirect_status, link_flags(r.forward_query, r.forward_path), r.expires_at,
           link_payload(r.location, r.original_url, r.deleted_at)
    FROM h, new_rows r WHERE NOT h.near
    UNION ALL
    SELECT h.seq, h.last, h.epoch, 0, h.stamp, h.digest, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM h;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'links bear a number that is not of this transaction';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
DO $$
BEGIN
    -- At once, for those who write meanwhile: tenants may not write the changelog.
    EXECUTE format('ALTER FUNCTION changelog_after_new_link() SECURITY DEFINER SET search_path = %I, pg_temp', current_schema());
END $$;
-- +goose StatementEnd

-- AFTER INSERT on link: what link_check_owners and link_count_tags did with a look at all rows each.
-- +goose StatementBegin
CREATE FUNCTION link_after_new() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    r          record;
    workspaces bigint[];
    domains    integer[];
    owner      bigint;
BEGIN
    SELECT min(workspace_id) AS workspace, max(workspace_id) AS last_workspace, min(domain_id) AS domain, max(domain_id) AS last_domain,
           max(cardinality(tags)) > 0 AS tagged INTO r FROM new_rows;
    IF r.workspace IS NULL THEN
        RETURN NULL; -- there are none
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
        PERFORM FROM domain WHERE id = owner FOR KEY SHARE;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'there is no domain %', owner USING ERRCODE = 'foreign_key_violation';
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
-- +goose StatementEnd
DROP TRIGGER link_owners_insert ON link;
DROP TRIGGER link_tags_insert ON link;
CREATE TRIGGER link_new AFTER INSERT ON link REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION link_after_new();
ALTER TABLE link ENABLE ALWAYS TRIGGER link_new;

-- It is waypost_search's, as those before it.
-- +goose StatementBegin
DO $$
BEGIN
    EXECUTE format('GRANT USAGE, CREATE ON SCHEMA %I TO waypost_search', current_schema());
    BEGIN
        EXECUTE format('GRANT waypost_search TO %I', current_user); -- until the end of this migration
    EXCEPTION
        WHEN insufficient_privilege THEN NULL; -- somebody else has granted it
    END;
    ALTER FUNCTION link_after_new() OWNER TO waypost_search;
    EXECUTE format('REVOKE CREATE ON SCHEMA %I FROM waypost_search', current_schema());
    BEGIN
        -- Policies of a role are those of its members, too: it should have none.
        EXECUTE format('REVOKE waypost_search FROM %I', current_user);
    EXCEPTION
        WHEN insufficient_privilege THEN NULL;
    END;
END $$;
-- +goose StatementEnd
