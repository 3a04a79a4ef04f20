-- +goose Up
-- +goose StatementBegin

-- How clicks arrive. A batch of an edge adds rows to click_pack and never changes one,
-- so that batches with the same link do not wait for each other. The control plane then
-- folds them into the counters of 10_statistics.sql and removes them in the same
-- transaction, so every click is in exactly one place. Readers add the rows that are
-- not folded yet, in one statement.
--
-- There are no foreign keys: a purge of links, which holds the head of the changelog,
-- would wait for a batch, and a check for every row costs more than the row. The
-- policies ask once a statement, not for every row.

-- Counters per boot of each edge: batches 1 to seq are counted, without a gap. The row
-- moves in the transaction that counts, so that a batch is counted once however often
-- it is sent. Rows are never removed, so a batch that is sent again after years is
-- still known.
CREATE TABLE click_watermark (
    node       text COLLATE "C" NOT NULL CHECK (node ~ '^[A-Za-z0-9._-]{1,64}$'),
    boot       uuid        NOT NULL,
    seq        bigint      NOT NULL DEFAULT 0 CHECK (seq >= 0),
    hash       bytea       CHECK (octet_length(hash) = 32), -- SHA-256 of batch seq; NULL before the first
    clicks     bigint      NOT NULL DEFAULT 0, -- counted for links
    unknown    bigint      NOT NULL DEFAULT 0, -- of codes without a link, counted only here
    voided     bigint      NOT NULL DEFAULT 0, -- batches that the edge declared lost
    dropped    bigint      NOT NULL DEFAULT 0, -- clicks that the edge had no room for
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (node, boot)
) WITH (fillfactor = 50);

-- The batches of the last day, to distinguish a batch that is sent again from another
-- one with the same identity.
CREATE TABLE click_batch (
    node        text COLLATE "C" NOT NULL,
    boot        uuid        NOT NULL,
    seq         bigint      NOT NULL,
    hash        bytea       NOT NULL CHECK (octet_length(hash) = 32),
    clicks      bigint      NOT NULL, -- counted, for links and unknown codes
    received_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (node, boot, seq)
);
CREATE INDEX click_batch_received ON click_batch (received_at);

-- Batches that were not counted and will not be without an operator. body holds codes
-- of all tenants.
CREATE TABLE click_dead_letter (
    node        text COLLATE "C" NOT NULL,
    boot        uuid        NOT NULL,
    seq         bigint      NOT NULL,
    hash        bytea       NOT NULL CHECK (octet_length(hash) = 32),
    clicks      numeric     NOT NULL, -- what the batch says; may be absurd
    reason      text        NOT NULL,
    body        bytea,      -- the batch as it was encoded; NULL once the node has many
    received_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (node, boot, seq, hash)
);
ALTER TABLE click_dead_letter ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY system ON click_dead_letter USING (waypost_system());

-- The number of a node's dead letters that are counted and not kept.
CREATE TABLE click_dead_letter_more (
    node      text COLLATE "C" PRIMARY KEY,
    letters   bigint      NOT NULL, -- one for each time that a letter arrives
    clicks    numeric     NOT NULL,
    newest_at timestamptz NOT NULL
) WITH (fillfactor = 50);
ALTER TABLE click_dead_letter_more ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY system ON click_dead_letter_more USING ((SELECT waypost_system()));

-- Up to when the clicks of each edge are counted, as the edge reports, so that
-- statistics can say how complete they are. The control plane that hears from an edge
-- writes its row.
CREATE TABLE click_progress (
    node           text COLLATE "C" PRIMARY KEY CHECK (node ~ '^[A-Za-z0-9._-]{1,64}$'),
    region         text        NOT NULL CHECK (length(region) <= 64),
    complete_until timestamptz,          -- by the edge's clock; NULL: not reported yet
    pending        bigint      CHECK (pending >= 0), -- clicks that are not counted yet; NULL: unknown
    has_left       boolean     NOT NULL, -- it has stopped, and everything was counted
    reported_at    timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50);

-- Parts: the clicks of one batch on one link and day (UTC). Parts of links that are
-- close together share a row, as one element of each array, because a row costs more
-- than its contents. Details hold quarters of an hour, profiles and visitors as package
-- controlplane/rollup packs them. A row fills a page at most, unless a single part is
-- larger; rows of that size are not compressed.
CREATE TABLE click_pack (
    workspace_id bigint        NOT NULL,
    area         bigint        NOT NULL, -- of all its links: see click_areas
    received_at  timestamptz   NOT NULL DEFAULT now(),
    links        bigint[]      NOT NULL, -- in order
    days         date[]        NOT NULL,
    clicks       bigint[]      NOT NULL,
    bot_clicks   bigint[]      NOT NULL,
    newest       timestamptz[] NOT NULL,
    details      bytea[]       NOT NULL
) WITH (toast_tuple_target = 8160, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0,
        autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 20000,
        autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 5000);
-- A round of a roller bounds the bytes that it reads by their size here.
ALTER TABLE click_pack ALTER details SET STORAGE EXTERNAL;
CREATE INDEX click_pack_area ON click_pack (workspace_id, area);
CREATE INDEX click_pack_received ON click_pack (received_at);

-- Returns the areas that a link is in. An area is 2^n links by their ids, n being 8,
-- 10, 12, 14 or 16: the first of them, a multiple of 2^n, and n in its lowest bits.
CREATE FUNCTION click_areas(link bigint) RETURNS bigint[] LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN ARRAY[link >> 8 << 8 | 8, link >> 10 << 10 | 10, link >> 12 << 12 | 12, link >> 14 << 14 | 14, link >> 16 << 16 | 16];

-- A row for each part.
CREATE VIEW click_part WITH (security_invoker = true) AS
SELECT p.workspace_id, s.link_id, s.day, s.clicks, s.bot_clicks, s.last_accessed_at, p.received_at, s.detail, p.area
FROM click_pack p
CROSS JOIN LATERAL unnest(p.links, p.days, p.clicks, p.bot_clicks, p.newest, p.details)
           AS s (link_id, day, clicks, bot_clicks, last_accessed_at, detail);

-- The clicks that a batch adds to a workspace on a day (UTC), packed as in
-- click_workspace_day, so that the statistics of a workspace need no parts of links.
CREATE TABLE click_workspace_part (
    workspace_id bigint NOT NULL,
    day          date   NOT NULL,
    clicks       bigint NOT NULL CHECK (clicks >= 0),
    bot_clicks   bigint NOT NULL CHECK (bot_clicks BETWEEN 0 AND clicks),
    quarters     bytea  NOT NULL,
    breakdown    bytea  NOT NULL,
    visitors     bytea  NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX click_workspace_part_day ON click_workspace_part (workspace_id, day);

-- Single clicks, of workspaces that keep them. clicks is how many were alike within one
-- millisecond. Partitions are months (UTC), named by them; the control plane makes them
-- ahead, exports them if it is configured to, and drops them. Writes never fail for
-- want of one, because the default takes every other row.
CREATE TABLE click_event (
    at           timestamptz NOT NULL,
    workspace_id bigint      NOT NULL,
    link_id      bigint      NOT NULL,
    clicks       bigint      NOT NULL CHECK (clicks > 0),
    bot          boolean     NOT NULL,
    country      text        NOT NULL,
    city         text        NOT NULL,
    device       text        NOT NULL,
    browser      text        NOT NULL,
    os           text        NOT NULL,
    referrer     text        NOT NULL,
    rule         smallint    NOT NULL DEFAULT 0, -- ids of the link's rule and variant; 0: none
    variant      smallint    NOT NULL DEFAULT 0
) PARTITION BY RANGE (at);
CREATE INDEX click_event_link ON click_event (link_id, at);
CREATE INDEX click_event_workspace ON click_event (workspace_id, at);
CREATE TABLE click_event_default PARTITION OF click_event DEFAULT;

CREATE FUNCTION click_protect(target regclass) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', target);
    EXECUTE format('CREATE POLICY tenant ON %s USING (workspace_id = ANY ((SELECT waypost_workspaces())::bigint[]))', target);
    EXECUTE format('CREATE POLICY system ON %s USING ((SELECT waypost_system()))', target);
END $$;

SELECT click_protect(t) FROM unnest('{click_pack,click_workspace_part,click_event,click_event_default}'::regclass[]) t;

-- Makes the partition of the month of a day, unless it exists. A partition can be read
-- by its own name, past the parent's policies, so it has the same ones. It is made
-- apart and then attached, which does not block writers of other partitions. It fails
-- while the default has clicks of the month; the caller moves them, because the owner
-- sees no rows.
CREATE FUNCTION click_event_month(some_day date) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    first date := date_trunc('month', some_day)::date;
    name  text := 'click_event_' || to_char(some_day, 'YYYY_MM');
BEGIN
    IF to_regclass(name) IS NOT NULL THEN
        RETURN;
    END IF;
    EXECUTE format('CREATE TABLE %I (LIKE click_event INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING INDEXES)', name);
    PERFORM click_protect(name::regclass);
    EXECUTE format('ALTER TABLE click_event ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
                   name, first || ' 00:00:00+00', (first + interval '1 month')::date || ' 00:00:00+00');
    PERFORM waypost_protect(name::regclass); -- which must see that it is a partition
END $$;

-- Clicks may arrive 30 days late.
DO $$
BEGIN
    FOR n IN -1 .. 2 LOOP
        PERFORM click_event_month((date_trunc('month', now() AT TIME ZONE 'UTC') + n * interval '1 month')::date);
    END LOOP;
END $$;

-- +goose StatementEnd
