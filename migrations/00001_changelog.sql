-- +goose Up

-- One installation, for ever. The row is written by the first control plane that
-- starts; the secret itself is never stored, only a check that tells a wrong one.
CREATE TABLE cluster (
    singleton     boolean     PRIMARY KEY DEFAULT true CHECK (singleton),
    id            uuid        NOT NULL DEFAULT gen_random_uuid(),
    code_length   smallint    NOT NULL CHECK (code_length BETWEEN 5 AND 10),
    prefix_length smallint    NOT NULL CHECK (prefix_length BETWEEN 1 AND 3),
    secret_check  bytea       NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT now()
);

-- The histories of the changelog. A new one is opened when PostgreSQL was failed
-- over or restored: sequence numbers may then mean other changes than before. Its
-- ordinal is the minute in which it was opened (since 1970), or more, so that it
-- is above every earlier one, also above those that a restore has forgotten.
CREATE TABLE changelog_epoch (
    ordinal           integer     PRIMARY KEY,
    id                uuid        NOT NULL UNIQUE DEFAULT gen_random_uuid(),
    system_identifier bigint      NOT NULL,
    timeline          integer     NOT NULL,
    first_seq         bigint      NOT NULL,
    reason            text        NOT NULL,
    opened_at         timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- The one row that every replicated transaction locks first and keeps locked
-- until it commits. So sequence order is commit order, and a rollback leaves no gap.
CREATE TABLE changelog_head (
    singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    epoch     integer NOT NULL REFERENCES changelog_epoch,
    seq       bigint  NOT NULL,
    ord       integer NOT NULL, -- next free place within the transaction
    stamp     bigint  NOT NULL, -- random number of the transaction at seq
    digest    bigint  NOT NULL, -- XOR of the stamps of all replicated rows
    writer    xid8    NOT NULL  -- the transaction that took seq
) WITH (fillfactor = 10, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0);

-- What changed, with full images of what edges need. Kind 0 is a mark: it carries
-- the transaction's stamp and the root digest so far; the last mark of a
-- transaction holds the digest after it.
CREATE TABLE changelog (
    seq        bigint      NOT NULL,
    ord        integer     NOT NULL,
    epoch      integer     NOT NULL,
    kind       smallint    NOT NULL,
    stamp      bigint      NOT NULL,
    digest     bigint,
    at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    domain_id  integer,
    name       text COLLATE "C",
    state      smallint,
    status     smallint,
    expires_at timestamptz,
    payload    text,
    PRIMARY KEY (seq, ord)
) PARTITION BY RANGE (seq);

-- A partition holds a million sequences and is named by its first. The control
-- plane makes them ahead of the head, and drops them by age. Writes never fail for
-- want of one: what no partition takes, the default does.
CREATE TABLE changelog_0 PARTITION OF changelog FOR VALUES FROM (0) TO (1000000);
CREATE TABLE changelog_default PARTITION OF changelog DEFAULT;

-- +goose StatementBegin
CREATE FUNCTION waypost_stamp() RETURNS bigint LANGUAGE sql VOLATILE
    RETURN uuid_hash_extended(gen_random_uuid(), 0);
-- +goose StatementEnd

-- The first 12 bits of SHA-256 over 'KIND/DOMAIN/NAME'; waypost.Slot is its twin.
-- +goose StatementBegin
CREATE FUNCTION waypost_slot(kind integer, domain integer, name text) RETURNS smallint LANGUAGE sql IMMUTABLE
    RETURN ('x' || encode(substring(sha256(convert_to(kind || '/' || domain || '/' || name, 'UTF8')) FROM 1 FOR 2), 'hex'))::bit(12)::integer::smallint;
-- +goose StatementEnd

-- PostgreSQL's own identity: another one means another history. The control file
-- still tells the old timeline for minutes after a promotion, the write position does not.
-- +goose StatementBegin
CREATE FUNCTION waypost_history(OUT system_identifier bigint, OUT timeline integer) LANGUAGE sql STABLE AS $$
    SELECT s.system_identifier,
           ('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::integer
    FROM pg_control_system() s
$$;
-- +goose StatementEnd

-- Takes the next sequence number for this transaction, once, and holds the head
-- until commit. Writers call it as a statement of its own before any other, so
-- that what they then read is newer than every earlier commit.
-- +goose StatementBegin
CREATE FUNCTION changelog_begin(OUT epoch integer, OUT seq bigint, OUT stamp bigint) LANGUAGE plpgsql AS $$
DECLARE
    h changelog_head;
BEGIN
    UPDATE changelog_head t
       SET seq = t.seq + 1, ord = 1, stamp = waypost_stamp(), writer = pg_current_xact_id()
     WHERE t.writer <> pg_current_xact_id()
    RETURNING * INTO h;
    IF FOUND THEN
        INSERT INTO changelog (seq, ord, epoch, kind, stamp, digest)
        VALUES (h.seq, 0, h.epoch, 0, h.stamp, h.digest);
    ELSE
        SELECT * INTO STRICT h FROM changelog_head;
    END IF;
    PERFORM set_config('waypost.epoch', h.epoch::text, true), set_config('waypost.seq', h.seq::text, true);
    epoch := h.epoch;
    seq := h.seq;
    stamp := h.stamp;
END $$;
-- +goose StatementEnd

-- The same for writers that hold keys of an epoch, because leases end with their
-- epoch; 0 means any. It gives the position in full.
-- +goose StatementBegin
CREATE FUNCTION changelog_begin_in(expected integer, OUT epoch integer, OUT epoch_id uuid, OUT seq bigint, OUT stamp bigint) LANGUAGE plpgsql AS $$
BEGIN
    SELECT b.epoch, e.id, b.seq, b.stamp INTO STRICT epoch, epoch_id, seq, stamp
    FROM changelog_begin() b JOIN changelog_epoch e ON e.ordinal = b.epoch;
    IF expected NOT IN (0, epoch) THEN
        RAISE EXCEPTION 'the changelog is in epoch %, not %', epoch, expected USING ERRCODE = 'WP001';
    END IF;
END $$;
-- +goose StatementEnd

-- Adds the digest of a statement's changes and its closing mark.
-- +goose StatementBegin
CREATE FUNCTION changelog_mark(entries integer, change bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    h changelog_head;
BEGIN
    UPDATE changelog_head t SET digest = t.digest # change, ord = t.ord + entries + 1 RETURNING * INTO h;
    INSERT INTO changelog (seq, ord, epoch, kind, stamp, digest)
    VALUES (h.seq, h.ord - 1, h.epoch, 0, h.stamp, h.digest);
END $$;
-- +goose StatementEnd

-- BEFORE STATEMENT on every replicated table.
-- +goose StatementBegin
CREATE FUNCTION changelog_before_statement() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM changelog_begin();
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- BEFORE TRUNCATE: a table cannot be emptied behind the changelog's back.
-- +goose StatementBegin
CREATE FUNCTION changelog_refuse_truncate() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'TRUNCATE of % is refused: edges would not learn of it; use DELETE', TG_TABLE_NAME;
END $$;
-- +goose StatementEnd

-- BEFORE ROW on replicated tables that are keyed by id; the argument is the kind.
-- +goose StatementBegin
CREATE FUNCTION changelog_stamp_row() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND NEW.id <> OLD.id THEN
        RAISE EXCEPTION 'the key of % cannot change', TG_TABLE_NAME;
    END IF;
    NEW.slot := waypost_slot(TG_ARGV[0]::integer, 0, NEW.id::text);
    NEW.rev_epoch := current_setting('waypost.epoch')::integer;
    NEW.rev_seq := current_setting('waypost.seq')::bigint;
    NEW.stamp := waypost_stamp();
    RETURN NEW;
END $$;
-- +goose StatementEnd

-- What edges need of such a row: all but the replication's own columns, and no
-- times, whose text would depend on the session's time zone.
-- +goose StatementBegin
CREATE FUNCTION changelog_payload(image jsonb) RETURNS text LANGUAGE sql IMMUTABLE
    RETURN (image - '{slot,rev_epoch,rev_seq,stamp,created_at,taken_at}'::text[])::text;
-- +goose StatementEnd

-- AFTER STATEMENT on replicated tables that are keyed by id; the argument is the kind.
-- +goose StatementBegin
CREATE FUNCTION changelog_after_row() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    h      changelog_head;
    change bigint := 0;
    n      integer;
BEGIN
    SELECT * INTO STRICT h FROM changelog_head;
    IF TG_OP = 'DELETE' THEN
        INSERT INTO changelog (seq, ord, epoch, kind, stamp, domain_id, name, state)
        SELECT h.seq, h.ord - 1 + row_number() OVER (), h.epoch, TG_ARGV[0]::smallint, o.stamp, 0, o.id::text, 3
        FROM old_rows o;
    ELSE
        INSERT INTO changelog (seq, ord, epoch, kind, stamp, domain_id, name, state, payload)
        SELECT h.seq, h.ord - 1 + row_number() OVER (), h.epoch, TG_ARGV[0]::smallint, r.stamp, 0, r.id::text, 0,
               changelog_payload(to_jsonb(r))
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

-- Puts a table under the changelog. ENABLE ALWAYS: also for a session in replica role.
-- +goose StatementBegin
CREATE FUNCTION changelog_replicate(target regclass, stamp_function text, after_function text, kind integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    t text;
BEGIN
    EXECUTE format('CREATE TRIGGER changelog_1_begin BEFORE INSERT OR UPDATE OR DELETE ON %s FOR EACH STATEMENT EXECUTE FUNCTION changelog_before_statement()', target);
    EXECUTE format('CREATE TRIGGER changelog_2_stamp BEFORE INSERT OR UPDATE ON %s FOR EACH ROW EXECUTE FUNCTION %I(%L)', target, stamp_function, kind);
    EXECUTE format('CREATE TRIGGER changelog_3_insert AFTER INSERT ON %s REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION %I(%L)', target, after_function, kind);
    EXECUTE format('CREATE TRIGGER changelog_3_update AFTER UPDATE ON %s REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION %I(%L)', target, after_function, kind);
    EXECUTE format('CREATE TRIGGER changelog_3_delete AFTER DELETE ON %s REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION %I(%L)', target, after_function, kind);
    EXECUTE format('CREATE TRIGGER changelog_4_truncate BEFORE TRUNCATE ON %s FOR EACH STATEMENT EXECUTE FUNCTION changelog_refuse_truncate()', target);
    FOREACH t IN ARRAY ARRAY['changelog_1_begin', 'changelog_2_stamp', 'changelog_3_insert', 'changelog_3_update', 'changelog_3_delete', 'changelog_4_truncate'] LOOP
        EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', target, t);
    END LOOP;
END $$;
-- +goose StatementEnd

INSERT INTO changelog_epoch (ordinal, system_identifier, timeline, first_seq, reason)
SELECT 1, h.system_identifier, h.timeline, 0, 'installed' FROM waypost_history() h;

INSERT INTO changelog_head (epoch, seq, ord, stamp, digest, writer)
VALUES (1, 0, 1, waypost_stamp(), 0, '0');

INSERT INTO changelog (seq, ord, epoch, kind, stamp, digest)
SELECT seq, 0, epoch, 0, stamp, digest FROM changelog_head;
