-- +goose Up

CREATE TABLE link (
    id              bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    workspace_id    bigint      NOT NULL REFERENCES workspace,
    domain_id       integer     NOT NULL REFERENCES domain,
    code            text COLLATE "C" NOT NULL CHECK (code ~ '^[A-Za-z0-9_-]{4,32}$'),
    custom          boolean     NOT NULL DEFAULT true,
    original_url    text        NOT NULL CHECK (octet_length(original_url) <= 8192),
    location        text,       -- NULL: original_url needs no escaping and is the Location itself
    redirect_status smallint    NOT NULL DEFAULT 302 CHECK (redirect_status IN (301, 302, 307, 308)),
    title           text        NOT NULL DEFAULT '',
    description     text        NOT NULL DEFAULT '',
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
    UNIQUE (domain_id, code),
    -- what RFC 3339 can tell; infinity is not
    CONSTRAINT link_times_can_be_told CHECK (created_at >= '0001-01-01' AND created_at < '10000-01-01'
                                         AND updated_at >= '0001-01-01' AND updated_at < '10000-01-01'
                                         AND expires_at >= '0001-01-01' AND expires_at < '10000-01-01'),
    -- whatever reaches an edge is a header value of printable ASCII, also after a change by hand
    CONSTRAINT link_location_is_a_header CHECK (coalesce(location, original_url) ~* '^https?://[\x21-\x7e]+$'
                                            AND octet_length(coalesce(location, original_url)) <= 24576)
);
CREATE INDEX link_slot ON link (slot);
CREATE INDEX link_newest ON link (workspace_id, id DESC) WHERE deleted_at IS NULL;

ALTER TABLE link ENABLE ROW LEVEL SECURITY;
ALTER TABLE link FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON link USING (workspace_id = ANY (waypost_workspaces()));
CREATE POLICY system ON link USING (waypost_system());

-- What an edge does with a link: 0 redirect, 1 disabled, 2 deleted.
-- +goose StatementBegin
CREATE FUNCTION link_state(active boolean, deleted_at timestamptz) RETURNS smallint LANGUAGE sql IMMUTABLE
    RETURN (CASE WHEN deleted_at IS NOT NULL THEN 2 WHEN NOT active THEN 1 ELSE 0 END)::smallint;
-- +goose StatementEnd

-- What an edge holds of its target: nothing once it is deleted.
-- +goose StatementBegin
CREATE FUNCTION link_payload(location text, original_url text, deleted_at timestamptz) RETURNS text LANGUAGE sql IMMUTABLE
    RETURN CASE WHEN deleted_at IS NULL THEN coalesce(location, original_url) ELSE '' END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION changelog_stamp_link() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        NEW.slot := waypost_slot(1, NEW.domain_id, NEW.code);
    ELSE
        IF NEW.domain_id <> OLD.domain_id OR NEW.code <> OLD.code OR NEW.id <> OLD.id THEN
            RAISE EXCEPTION 'the key of a link cannot change: delete it and create another';
        END IF;
        NEW.slot := OLD.slot;
        -- a target changed by hand takes its own text as Location, if the CHECK allows it
        IF NEW.original_url <> OLD.original_url AND NEW.location IS NOT DISTINCT FROM OLD.location THEN
            NEW.location := NULL;
        END IF;
    END IF;
    NEW.rev_epoch := current_setting('waypost.epoch')::integer;
    NEW.rev_seq := current_setting('waypost.seq')::bigint;
    NEW.stamp := waypost_stamp();
    RETURN NEW;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION changelog_after_link() RETURNS trigger LANGUAGE plpgsql AS $$
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
        INSERT INTO changelog (seq, ord, epoch, kind, stamp, domain_id, name, state, status, expires_at, payload)
        SELECT h.seq, h.ord - 1 + row_number() OVER (), h.epoch, 1, r.stamp, r.domain_id, r.code,
               link_state(r.active, r.deleted_at), r.redirect_status, r.expires_at,
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

SELECT changelog_replicate('link', 'changelog_stamp_link', 'changelog_after_link', 1);
