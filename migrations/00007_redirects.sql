-- +goose Up

-- What visitors bring along, and what of it goes on to the target.
ALTER TABLE link
    ADD COLUMN forward_query boolean NOT NULL DEFAULT false,
    ADD COLUMN forward_path  boolean NOT NULL DEFAULT false;

-- waypost.LinkFlags of a link; NULL for entries of other kinds, and for older ones.
ALTER TABLE changelog ADD COLUMN flags smallint;

-- +goose StatementBegin
CREATE FUNCTION link_flags(forward_query boolean, forward_path boolean) RETURNS smallint LANGUAGE sql IMMUTABLE
    RETURN (forward_query::integer | (forward_path::integer << 1))::smallint;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION changelog_after_link() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    h      changelog_head;
    change bigint := 0;
    n      integer;
BEGIN
    SELECT * INTO STRICT h FROM changelog_head;
    IF TG_OP = 'DELETE' THEN
        INSERT INTO changelog (seq, ord, epoch, kind, stamp, domain_id, name, state)
        SELECT h.seq, h.ord - 1 + row_number() OVER (), h.epoch, 1, o.stamp, o.domain_id, o.code, 3
        FROM old_rows o;
    ELSE
        INSERT INTO changelog (seq, ord, epoch, kind, stamp, domain_id, name, state, status, flags, expires_at, payload)
        SELECT h.seq, h.ord - 1 + row_number() OVER (), h.epoch, 1, r.stamp, r.domain_id, r.code,
               link_state(r.active, r.deleted_at), r.redirect_status, link_flags(r.forward_query, r.forward_path), r.expires_at,
               link_payload(r.location, r.original_url, r.deleted_at)
        FROM new_rows r;
    END IF;
    GET DIAGNOSTICS n = ROW_COUNT;
    IF TG_OP <> 'INSERT' THEN
        change := change # (SELECT coalesce(bit_xor(o.stamp), 0) FROM old_rows o);
    END IF;
    IF TG_OP <> 'DELETE' THEN
        change := change # (SELECT coalesce(bit_xor(r.stamp), 0) FROM new_rows r);
    END IF;
    PERFORM changelog_mark(n, change);
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- Where a domain leads visitors of its root, and those who follow no link of it.
-- Both are Locations, and short enough that edges get them in one record with the
-- host, however JSON escapes them.
ALTER TABLE domain
    ADD COLUMN root_url      text,
    ADD COLUMN not_found_url text,
    ADD CONSTRAINT domain_root_is_a_header
        CHECK (root_url ~* '^https?://[\x21-\x7e]+$' AND octet_length(root_url) <= 4096),
    ADD CONSTRAINT domain_not_found_is_a_header
        CHECK (not_found_url ~* '^https?://[\x21-\x7e]+$' AND octet_length(not_found_url) <= 4096);

-- Clicks by software that says it is no person, of all that are counted in clicks.
ALTER TABLE link_click
    ADD COLUMN bot_clicks bigint NOT NULL DEFAULT 0,
    ADD CONSTRAINT link_click_bots_are_clicks CHECK (bot_clicks BETWEEN 0 AND clicks);
