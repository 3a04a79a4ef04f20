-- +goose Up

-- A prefix's counters [lo, hi), owned by one region. Counters below next are
-- leased; what they were used for is in key_lease. Ranges that are not retired
-- never overlap, whatever the code does.
CREATE TABLE key_range (
    id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    prefix     integer     NOT NULL CHECK (prefix >= 0),
    lo         bigint      NOT NULL CHECK (lo >= 0),
    hi         bigint      NOT NULL,
    next       bigint      NOT NULL,
    region     text        NOT NULL CHECK (region ~ '^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$'),
    state      text        NOT NULL DEFAULT 'live' CHECK (state IN ('live', 'draining', 'retired')),
    generation bigint      NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    slot       smallint    NOT NULL,
    rev_epoch  integer     NOT NULL,
    rev_seq    bigint      NOT NULL,
    stamp      bigint      NOT NULL,
    CHECK (lo < hi AND next BETWEEN lo AND hi),
    CONSTRAINT key_ranges_are_disjoint EXCLUDE USING gist
        (int4range(prefix, prefix, '[]') WITH &&, int8range(lo, hi) WITH &&) WHERE (state <> 'retired')
);
CREATE INDEX key_range_region ON key_range (region) WHERE state = 'live';

-- A block of counters in the hands of one process. held: may be issued by node;
-- free: given back unissued by a clean stop; closed: all issued; burned: its
-- holder is gone or its epoch over, never to be issued. Blocks never overlap.
CREATE TABLE key_lease (
    id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    range_id   bigint      NOT NULL REFERENCES key_range,
    prefix     integer     NOT NULL,
    region     text        NOT NULL CHECK (length(region) <= 32),
    lo         bigint      NOT NULL,
    hi         bigint      NOT NULL CHECK (lo < hi),
    epoch      integer     NOT NULL,
    generation bigint      NOT NULL,
    node       text        NOT NULL CHECK (length(node) <= 400),
    state      text        NOT NULL DEFAULT 'held' CHECK (state IN ('held', 'free', 'closed', 'burned')),
    taken_at   timestamptz NOT NULL DEFAULT now(),
    slot       smallint    NOT NULL,
    rev_epoch  integer     NOT NULL,
    rev_seq    bigint      NOT NULL,
    stamp      bigint      NOT NULL,
    CONSTRAINT key_leases_are_disjoint EXCLUDE USING gist
        (int4range(prefix, prefix, '[]') WITH &&, int8range(lo, hi) WITH &&)
);
CREATE INDEX key_lease_free ON key_lease (region) WHERE state = 'free';
CREATE INDEX key_lease_held ON key_lease (node) WHERE state = 'held';

SELECT changelog_replicate('key_range', 'changelog_stamp_row', 'changelog_after_row', 3);
SELECT changelog_replicate('key_lease', 'changelog_stamp_row', 'changelog_after_row', 4);

-- Opens a new history under the head lock, unless somebody else has done so since
-- the caller looked at epoch looked_at. It is due when PostgreSQL's identity is
-- not that of the epoch, or when the caller has seen a commit (seen_epoch, seen_seq)
-- that this database does not know. All leases end, and every prefix resumes
-- gap counters further on, because keys may have been issued that this database
-- has forgotten.
-- +goose StatementBegin
CREATE FUNCTION changelog_open_epoch(why text, gap bigint, looked_at integer, seen_epoch integer, seen_seq bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    head     changelog_head;
    current  changelog_epoch;
    identity record;
    opened   integer;
BEGIN
    SELECT * INTO STRICT head FROM changelog_head FOR UPDATE;
    SELECT * INTO STRICT current FROM changelog_epoch WHERE ordinal = head.epoch;
    SELECT * INTO STRICT identity FROM waypost_history();
    IF head.epoch <> looked_at
       OR (current.system_identifier, current.timeline) = (identity.system_identifier, identity.timeline)
          AND (seen_epoch, seen_seq) <= (head.epoch, head.seq) THEN
        RETURN false;
    END IF;
    opened := greatest(head.epoch + 1, seen_epoch + 1, (extract(epoch FROM clock_timestamp()) / 60)::integer);
    INSERT INTO changelog_epoch (ordinal, system_identifier, timeline, first_seq, reason)
    VALUES (opened, identity.system_identifier, identity.timeline, head.seq + 1, why);
    UPDATE changelog_head SET epoch = opened;
    PERFORM changelog_begin();
    UPDATE key_lease SET state = 'burned' WHERE state IN ('held', 'free');
    UPDATE key_range SET next = least(hi, next + gap) WHERE state <> 'retired';
    RETURN true;
END $$;
-- +goose StatementEnd
