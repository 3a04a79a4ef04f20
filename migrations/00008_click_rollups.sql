-- +goose Up

-- Clicks go two steps. A batch of an edge adds rows to click_pack, and never
-- changes one, so that batches with the same link do not wait for each other. The
-- control plane then folds them into the counters and rollups below, and removes
-- them in the same transaction: every click is in exactly one place. Whoever reads
-- adds what is still there, in one statement.
--
-- There are no foreign keys: a purge of links, which holds the head of the
-- changelog, would wait for a batch, and a check for every row costs more than the
-- row. The policies ask once for a statement, not for every row.

-- Parts: what one batch says of one link and day (UTC). Those of links that are near each
-- other are one row, an element of each array for each part, since a row costs more
-- than what is in it. Details hold quarters of an hour, profiles and visitors as package
-- controlplane/rollup packs them. A row fills a page at most, unless a single part does:
-- what fits there is not compressed.
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
CREATE INDEX click_pack_area ON click_pack (workspace_id, area);
CREATE INDEX click_pack_received ON click_pack (received_at);

-- An area is 2^n links by their ids, n being 8, 10, 12, 14 or 16: the first of them, a
-- multiple of 2^n, and n in its lowest bits. These are the areas that a link is in.
CREATE FUNCTION click_areas(link bigint) RETURNS bigint[] LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN ARRAY[link >> 8 << 8 | 8, link >> 10 << 10 | 10, link >> 12 << 12 | 12, link >> 14 << 14 | 14, link >> 16 << 16 | 16];

-- A row for each part.
CREATE VIEW click_part WITH (security_invoker = true) AS
SELECT p.workspace_id, s.link_id, s.day, s.clicks, s.bot_clicks, s.last_accessed_at, p.received_at, s.detail, p.area
FROM click_pack p
CROSS JOIN LATERAL unnest(p.links, p.days, p.clicks, p.bot_clicks, p.newest, p.details)
           AS s (link_id, day, clicks, bot_clicks, last_accessed_at, detail);

-- Clicks by hour (UTC) and its quarters, so that the days of every time zone can be
-- told exactly: q0 to q3 are clicks, b0 to b3 those of bots among them.
CREATE TABLE click_hour (
    link_id      bigint      NOT NULL,
    hour         timestamptz NOT NULL,
    workspace_id bigint      NOT NULL,
    q0 bigint NOT NULL, q1 bigint NOT NULL, q2 bigint NOT NULL, q3 bigint NOT NULL,
    b0 bigint NOT NULL, b1 bigint NOT NULL, b2 bigint NOT NULL, b3 bigint NOT NULL,
    PRIMARY KEY (link_id, hour)
) WITH (fillfactor = 80);

-- Clicks by day (UTC). breakdown holds clicks by country, city, device, browser, OS
-- and referrer, visitors who they were, as package controlplane/rollup packs them.
CREATE TABLE click_day (
    link_id      bigint NOT NULL,
    day          date   NOT NULL,
    workspace_id bigint NOT NULL,
    clicks       bigint NOT NULL CHECK (clicks >= 0),
    bot_clicks   bigint NOT NULL CHECK (bot_clicks BETWEEN 0 AND clicks),
    breakdown    bytea  NOT NULL,
    visitors     bytea  NOT NULL,
    PRIMARY KEY (link_id, day)
) WITH (fillfactor = 80);
CREATE INDEX click_day_workspace ON click_day (workspace_id, day);

-- The same for all links of a workspace together.
CREATE TABLE click_workspace_hour (
    workspace_id bigint      NOT NULL,
    hour         timestamptz NOT NULL,
    q0 bigint NOT NULL, q1 bigint NOT NULL, q2 bigint NOT NULL, q3 bigint NOT NULL,
    b0 bigint NOT NULL, b1 bigint NOT NULL, b2 bigint NOT NULL, b3 bigint NOT NULL,
    PRIMARY KEY (workspace_id, hour)
) WITH (fillfactor = 50);
CREATE TABLE click_workspace_day (
    workspace_id bigint NOT NULL,
    day          date   NOT NULL,
    clicks       bigint NOT NULL CHECK (clicks >= 0),
    bot_clicks   bigint NOT NULL CHECK (bot_clicks BETWEEN 0 AND clicks),
    breakdown    bytea  NOT NULL,
    visitors     bytea  NOT NULL,
    PRIMARY KEY (workspace_id, day)
) WITH (fillfactor = 50);

-- What could not be read when it was to be folded: a part, a breakdown or visitors.
-- Its clicks stay counted; the bytes wait for an operator.
CREATE TABLE click_set_aside (
    id           bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    workspace_id bigint      NOT NULL,
    link_id      bigint,     -- NULL: of the workspace
    day          date        NOT NULL,
    what         text        NOT NULL CHECK (what IN ('part', 'breakdown', 'visitors')),
    reason       text        NOT NULL,
    body         bytea       NOT NULL,
    at           timestamptz NOT NULL DEFAULT now()
);

-- Single clicks, of workspaces that want them. clicks is how many were alike within
-- one millisecond. Partitions are months (UTC), named by them; the control plane
-- makes them ahead, exports them if it is told to, and drops them. Writes never fail
-- for want of one: what no partition takes, the default does.
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
    referrer     text        NOT NULL
) PARTITION BY RANGE (at);
CREATE INDEX click_event_link ON click_event (link_id, at);
CREATE TABLE click_event_default PARTITION OF click_event DEFAULT;

-- +goose StatementBegin
CREATE FUNCTION click_protect(target regclass) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', target);
    EXECUTE format('CREATE POLICY tenant ON %s USING (workspace_id = ANY ((SELECT waypost_workspaces())::bigint[]))', target);
    EXECUTE format('CREATE POLICY system ON %s USING ((SELECT waypost_system()))', target);
END $$;
-- +goose StatementEnd
SELECT click_protect(t) FROM unnest('{click_pack,click_hour,click_day,click_workspace_hour,click_workspace_day,click_event,click_event_default}'::regclass[]) t;

-- The bytes that could not be read are for operators alone.
ALTER TABLE click_set_aside ENABLE ROW LEVEL SECURITY;
ALTER TABLE click_set_aside FORCE ROW LEVEL SECURITY;
CREATE POLICY system ON click_set_aside USING (waypost_system());

-- Makes the partition of the month that a day is in, unless it is there. A partition
-- can be read by its own name, past the parent's policies, so it has them, too. It is
-- made apart and then attached, which does not keep out those who write to others, and
-- fails while the default has clicks of the month.
-- +goose StatementBegin
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
    -- Grants, once there are roles.
    IF to_regprocedure('waypost_protect(regclass)') IS NOT NULL THEN
        EXECUTE 'SELECT waypost_protect($1)' USING name::regclass;
    END IF;
END $$;
-- +goose StatementEnd
-- Clicks may be 30 days old when they come.
-- +goose StatementBegin
DO $$
BEGIN
    FOR n IN -1 .. 2 LOOP
        PERFORM click_event_month((date_trunc('month', now() AT TIME ZONE 'UTC') + n * interval '1 month')::date);
    END LOOP;
END $$;
-- +goose StatementEnd

-- Batches that an edge had to declare lost, and clicks that it had no room for.
ALTER TABLE click_watermark
    ADD COLUMN voided  bigint NOT NULL DEFAULT 0,
    ADD COLUMN dropped bigint NOT NULL DEFAULT 0;

-- Who may see a link sees it here with its clicks, to the newest.
CREATE VIEW v_active_short_links WITH (security_invoker = true) AS
SELECT l.id, l.workspace_id, l.domain_id, d.host, l.code AS short_code, l.original_url, l.title, l.tags, l.created_at, l.expires_at,
       (coalesce(c.clicks, 0) + coalesce(p.clicks, 0))::bigint AS click_count,
       (coalesce(c.bot_clicks, 0) + coalesce(p.bot_clicks, 0))::bigint AS bot_clicks,
       greatest(c.last_accessed_at, p.last_accessed_at) AS last_accessed_at
FROM link l
JOIN domain d ON d.id = l.domain_id
LEFT JOIN link_click c ON c.link_id = l.id
LEFT JOIN LATERAL (
    SELECT sum(clicks) AS clicks, sum(bot_clicks) AS bot_clicks, max(last_accessed_at) AS last_accessed_at
    FROM unnest(click_areas(l.id)) a
    CROSS JOIN LATERAL (SELECT link_id, clicks, bot_clicks, last_accessed_at FROM click_part WHERE workspace_id = l.workspace_id AND area = a) p
    WHERE p.link_id = l.id) p ON true
WHERE l.active AND l.deleted_at IS NULL AND (l.expires_at IS NULL OR l.expires_at > now());

CREATE VIEW v_daily_click_stats WITH (security_invoker = true) AS
SELECT s.day, s.workspace_id, s.link_id, l.domain_id, l.code AS short_code,
       sum(s.clicks)::bigint AS clicks, sum(s.bot_clicks)::bigint AS bot_clicks
FROM (SELECT day, workspace_id, link_id, clicks, bot_clicks FROM click_day
      UNION ALL
      SELECT day, workspace_id, link_id, clicks, bot_clicks FROM click_part) s
JOIN link l ON l.id = s.link_id
GROUP BY s.day, s.workspace_id, s.link_id, l.domain_id, l.code;
