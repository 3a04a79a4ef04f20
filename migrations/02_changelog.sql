-- +goose Up
-- +goose StatementBegin

-- The changelog: every change that edges need, in one order. docs/schema.md explains
-- it.

-- The histories of the changelog. A new epoch is opened when PostgreSQL was failed over
-- or restored, because sequence numbers may then mean other changes than before. Its
-- ordinal is the minute in which it was opened (since 1970), or more, so that it is above
-- every earlier ordinal, including ordinals that a restore has forgotten.
CREATE TABLE changelog_epoch (
    ordinal           integer     PRIMARY KEY,
    id                uuid        NOT NULL UNIQUE DEFAULT gen_random_uuid(),
    system_identifier bigint      NOT NULL,
    timeline          integer     NOT NULL,
    first_seq         bigint      NOT NULL,
    reason            text        NOT NULL,
    opened_at         timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Every replicated transaction locks this one row first and keeps it locked until it
-- commits. So sequence order is commit order, and a rollback leaves no gap. There is no
-- foreign key on epoch, because the row is updated twice in every transaction. Statements
-- find it by its key: a long transaction leaves the table with many empty pages.
CREATE TABLE changelog_head (
    singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    epoch     integer NOT NULL,
    seq       bigint  NOT NULL,
    ord       integer NOT NULL, -- the next free number within the transaction
    stamp     bigint  NOT NULL, -- random number of the transaction at seq
    digest    bigint  NOT NULL, -- XOR of the stamps of all replicated rows
    writer    xid8    NOT NULL  -- the transaction that took seq
) WITH (fillfactor = 10, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0);

-- The changes, with full images of the rows that edges need. Kind 0 is a mark: it carries
-- the transaction's stamp and the root digest so far; the last mark of a transaction
-- holds the digest after the transaction.
CREATE TABLE changelog (
    seq        bigint      NOT NULL,
    ord        integer     NOT NULL,
    epoch      integer     NOT NULL,
    kind       smallint    NOT NULL, -- 0 mark, 1 link, 2 domain, 3 key range, 4 key lease, 5 salt, 6 link with a pattern
    stamp      bigint      NOT NULL,
    digest     bigint,
    at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    domain_id  integer,
    name       text COLLATE "C",
    state      smallint,             -- 3: the row is gone; of links see link_state
    status     smallint,
    expires_at timestamptz,
    payload    text,
    flags      smallint,             -- waypost.LinkFlags of a link; NULL for other kinds
    programme  bytea,                -- of a link with rules
    PRIMARY KEY (seq, ord)
) PARTITION BY RANGE (seq);
CREATE INDEX changelog_salt ON changelog (name) WHERE kind = 5;

-- The changelog holds every tenant's targets: writers add to it, and only the system
-- reads it. The payload of a salt is emptied when the salt is destroyed.
ALTER TABLE changelog ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY append ON changelog FOR INSERT WITH CHECK (true);
CREATE POLICY system ON changelog FOR SELECT USING (waypost_system());
CREATE POLICY scrub ON changelog FOR UPDATE
    USING (kind = 5 AND waypost_system()) WITH CHECK (kind = 5 AND payload = '' AND waypost_system());

-- Protects a partition, because it can be read by its own name, past the parent's
-- policies.
CREATE FUNCTION changelog_protect(partition regclass) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', partition);
    EXECUTE format('CREATE POLICY system ON %s FOR SELECT USING (waypost_system())', partition);
    PERFORM waypost_protect(partition);
END $$;

-- A partition holds a million sequence numbers and is named by its first. The control
-- plane makes partitions ahead of the head and drops them by age. Writes never fail for
-- want of one, because the default takes every other row.
CREATE TABLE changelog_0 PARTITION OF changelog FOR VALUES FROM (0) TO (1000000);
CREATE TABLE changelog_default PARTITION OF changelog DEFAULT;
SELECT changelog_protect('changelog_0'), changelog_protect('changelog_default');

CREATE FUNCTION waypost_stamp() RETURNS bigint LANGUAGE sql VOLATILE
    RETURN uuid_hash_extended(gen_random_uuid(), 0);

-- Returns the first 12 bits of SHA-256 over 'KIND/DOMAIN/NAME', as waypost.Slot does.
CREATE FUNCTION waypost_slot(kind integer, domain integer, name text) RETURNS smallint LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    hash bytea := sha256(convert_to(kind || '/' || domain || '/' || name, 'UTF8'));
BEGIN
    RETURN (get_byte(hash, 0) << 4) | (get_byte(hash, 1) >> 4);
END $$;

-- Returns PostgreSQL's own identity: another identity means another history. The timeline
-- comes from the write position, because the control file has the old one for minutes
-- after a promotion.
CREATE FUNCTION waypost_history(OUT system_identifier bigint, OUT timeline integer) LANGUAGE sql STABLE AS $$
    SELECT s.system_identifier,
           ('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::integer
    FROM pg_control_system() s
$$;

-- Takes the next sequence number for this transaction, once, and holds the head until
-- commit. The functions below that run as the owner call it.
CREATE FUNCTION changelog_take(OUT epoch integer, OUT seq bigint, OUT stamp bigint) LANGUAGE plpgsql AS $$
BEGIN
    WITH h AS (
        UPDATE changelog_head t
           SET seq = t.seq + 1, ord = 1, stamp = waypost_stamp(), writer = pg_current_xact_id()
         WHERE t.singleton AND t.writer <> pg_current_xact_id()
        RETURNING t.epoch, t.seq, t.stamp, t.digest
    ), opened AS (
        INSERT INTO changelog (seq, ord, epoch, kind, stamp, digest)
        SELECT h.seq, 0, h.epoch, 0, h.stamp, h.digest FROM h
    )
    SELECT h.epoch, h.seq, h.stamp INTO epoch, seq, stamp FROM h;
    IF NOT FOUND THEN
        SELECT h.epoch, h.seq, h.stamp INTO STRICT epoch, seq, stamp FROM changelog_head h WHERE h.singleton;
    END IF;
    PERFORM set_config('waypost.epoch', epoch::text, true), set_config('waypost.seq', seq::text, true),
            set_config('waypost.writer', pg_current_xact_id()::text, true);
END $$;

-- Takes the next sequence number for a writer. Writers call it as a statement of its
-- own before any other, so that their later reads are newer than every earlier commit.
CREATE FUNCTION changelog_begin(OUT epoch integer, OUT seq bigint, OUT stamp bigint) LANGUAGE plpgsql AS $$
BEGIN
    SELECT t.epoch, t.seq, t.stamp INTO epoch, seq, stamp FROM changelog_take() t;
END $$;

-- Does the same for writers that hold keys of an epoch, because leases end with their
-- epoch; 0 means any epoch. It returns the whole position.
CREATE FUNCTION changelog_begin_in(expected integer, OUT epoch integer, OUT epoch_id uuid, OUT seq bigint, OUT stamp bigint) LANGUAGE plpgsql AS $$
BEGIN
    SELECT t.epoch, t.seq, t.stamp INTO epoch, seq, stamp FROM changelog_take() t;
    IF expected NOT IN (0, epoch) THEN
        RAISE EXCEPTION 'the changelog is in epoch %, not %', epoch, expected USING ERRCODE = 'WP001';
    END IF;
    SELECT e.id INTO STRICT epoch_id FROM changelog_epoch e WHERE e.ordinal = epoch;
END $$;

-- Adds the digest of a statement's changes, and the closing mark. A transaction that
-- has taken no sequence number is refused.
CREATE FUNCTION changelog_mark(entries integer, change bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    h changelog_head;
BEGIN
    UPDATE changelog_head t SET digest = t.digest # change, ord = t.ord + entries + 1
    WHERE t.singleton AND t.writer = pg_current_xact_id() RETURNING * INTO h;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'this transaction has no number in the changelog';
    END IF;
    INSERT INTO changelog (seq, ord, epoch, kind, stamp, digest)
    VALUES (h.seq, h.ord - 1, h.epoch, 0, h.stamp, h.digest);
END $$;

-- BEFORE STATEMENT on every replicated table.
CREATE FUNCTION changelog_before_statement() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM changelog_begin();
    RETURN NULL;
END $$;

-- BEFORE ROW on replicated tables that are keyed by id; the argument is the kind.
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

-- Returns the image of such a row for edges: everything except the columns of
-- replication itself, and times, because their text would depend on the session's time
-- zone.
CREATE FUNCTION changelog_payload(image jsonb) RETURNS text LANGUAGE sql IMMUTABLE
    RETURN (image - '{slot,rev_epoch,rev_seq,stamp,created_at,taken_at}'::text[])::text;

-- AFTER STATEMENT on replicated tables that are keyed by id; the argument is the kind.
CREATE FUNCTION changelog_after_row() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    h      changelog_head;
    change bigint := 0;
    n      integer;
BEGIN
    SELECT * INTO STRICT h FROM changelog_head WHERE singleton;
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

-- Puts a table under the changelog. ENABLE ALWAYS makes the triggers fire in a session
-- in replica role too. The table link has cheaper triggers of its own.
CREATE FUNCTION changelog_replicate(target regclass, stamp_function text, after_function text, kind integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    t text;
BEGIN
    EXECUTE format('CREATE TRIGGER changelog_1_begin BEFORE INSERT OR UPDATE OR DELETE ON %s FOR EACH STATEMENT EXECUTE FUNCTION changelog_before_statement()', target);
    EXECUTE format('CREATE TRIGGER changelog_2_stamp BEFORE INSERT OR UPDATE ON %s FOR EACH ROW EXECUTE FUNCTION %I(%L)', target, stamp_function, kind);
    EXECUTE format('CREATE TRIGGER changelog_3_insert AFTER INSERT ON %s REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION %I(%L)', target, after_function, kind);
    EXECUTE format('CREATE TRIGGER changelog_3_update AFTER UPDATE ON %s REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION %I(%L)', target, after_function, kind);
    EXECUTE format('CREATE TRIGGER changelog_3_delete AFTER DELETE ON %s REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION %I(%L)', target, after_function, kind);
    FOREACH t IN ARRAY ARRAY['changelog_1_begin', 'changelog_2_stamp', 'changelog_3_insert', 'changelog_3_update', 'changelog_3_delete'] LOOP
        EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', target, t);
    END LOOP;
END $$;

INSERT INTO changelog_epoch (ordinal, system_identifier, timeline, first_seq, reason)
SELECT 1, h.system_identifier, h.timeline, 0, 'installed' FROM waypost_history() h;

INSERT INTO changelog_head (epoch, seq, ord, stamp, digest, writer)
VALUES (1, 0, 1, waypost_stamp(), 0, '0');

INSERT INTO changelog (seq, ord, epoch, kind, stamp, digest)
SELECT seq, 0, epoch, 0, stamp, digest FROM changelog_head;

-- +goose StatementEnd
