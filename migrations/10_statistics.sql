-- +goose Up
-- +goose StatementBegin

-- Counted clicks: totals of links, and rollups by day.

-- The totals of links. They are apart from link, so that a click takes no number in the
-- changelog and reaches no edge. Pages keep room for updates. link_click_most makes an
-- update of clicks leave its page, but clicks are updated many at a time.
-- A foreign key to workspace would cost as much as the row.
CREATE TABLE link_click (
    link_id          bigint      PRIMARY KEY,
    workspace_id     bigint      NOT NULL,
    clicks           bigint      NOT NULL CHECK (clicks > 0),
    bot_clicks       bigint      NOT NULL DEFAULT 0, -- of clicks, those by software that says so
    last_accessed_at timestamptz NOT NULL,
    CONSTRAINT link_click_bots_are_clicks CHECK (bot_clicks BETWEEN 0 AND clicks)
) WITH (fillfactor = 80);
CREATE INDEX link_click_most ON link_click (workspace_id, clicks, link_id);
ALTER TABLE link_click ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON link_click USING (workspace_id = ANY (waypost_workspaces()));
CREATE POLICY system ON link_click USING (waypost_system());
CREATE POLICY search ON link_click FOR SELECT TO waypost_search USING (true);
GRANT SELECT ON link_click TO waypost_search;

-- Clicks by day (UTC). quarters holds clicks by quarter of an hour, so that the days of
-- every time zone are exact, breakdown those by country, city, device, browser, OS,
-- referrer, rule and variant, and visitors the distinct visitors, as package
-- controlplane/rollup packs them.
CREATE TABLE click_day (
    link_id      bigint NOT NULL,
    day          date   NOT NULL,
    workspace_id bigint NOT NULL,
    clicks       bigint NOT NULL CHECK (clicks >= 0),
    bot_clicks   bigint NOT NULL CHECK (bot_clicks BETWEEN 0 AND clicks),
    quarters     bytea  NOT NULL,
    breakdown    bytea  NOT NULL,
    visitors     bytea  NOT NULL,
    PRIMARY KEY (link_id, day)
) WITH (fillfactor = 80);

-- The same for all links of a workspace together. top holds the links with the most
-- clicks of a day.
CREATE TABLE click_workspace_day (
    workspace_id bigint NOT NULL,
    day          date   NOT NULL,
    clicks       bigint NOT NULL CHECK (clicks >= 0),
    bot_clicks   bigint NOT NULL CHECK (bot_clicks BETWEEN 0 AND clicks),
    quarters     bytea  NOT NULL,
    breakdown    bytea  NOT NULL,
    visitors     bytea  NOT NULL,
    top          bytea  NOT NULL DEFAULT '\x010000', -- an empty list
    PRIMARY KEY (workspace_id, day)
) WITH (fillfactor = 50);
SELECT click_protect(t) FROM unnest('{click_day,click_workspace_day}'::regclass[]) t;

-- The days of busy links are above 2 kB, so that PostgreSQL compresses them each time
-- clicks are added. lz4 takes an eighth off all that it does for a click then, and leaves
-- a tenth more bytes. A PostgreSQL that was built without lz4 goes on with its own method.
DO $$ BEGIN
    ALTER TABLE click_day ALTER breakdown SET COMPRESSION lz4, ALTER visitors SET COMPRESSION lz4;
    ALTER TABLE click_workspace_day ALTER breakdown SET COMPRESSION lz4, ALTER visitors SET COMPRESSION lz4, ALTER top SET COMPRESSION lz4;
EXCEPTION WHEN feature_not_supported THEN
    RAISE NOTICE 'days of clicks are compressed with pglz, because this PostgreSQL has no lz4';
END $$;

-- Parts, quarters, breakdowns and visitors that could not be read when they were to be folded.
-- Their clicks stay counted; the bytes wait for an operator, and no other role reads
-- them.
CREATE TABLE click_set_aside (
    id           bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    workspace_id bigint      NOT NULL,
    link_id      bigint,     -- NULL: of the workspace
    day          date        NOT NULL,
    what         text        NOT NULL CHECK (what IN ('part', 'quarters', 'breakdown', 'visitors')),
    reason       text        NOT NULL,
    body         bytea       NOT NULL,
    at           timestamptz NOT NULL DEFAULT now()
);
ALTER TABLE click_set_aside ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY system ON click_set_aside USING (waypost_system());

-- Two views for SQL by hand, with clicks up to the newest. Row-level security binds the
-- reader.
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

-- The addresses that visitors asked for and that name no link, by day (UTC). Those of a
-- shared domain belong to the default workspace. kind: 0 it led nowhere, 1 a pattern
-- answered. visitors holds the numbers of the first five people of the day, and an
-- address is shown when there are five. The numbers of a day differ from another day's.
CREATE TABLE unknown_address (
    domain_id    integer  NOT NULL,
    day          date     NOT NULL,
    kind         smallint NOT NULL CHECK (kind IN (0, 1)),
    path         text COLLATE "C" NOT NULL CHECK (octet_length(path) BETWEEN 1 AND 128),
    workspace_id bigint   NOT NULL,
    people       bigint   NOT NULL CHECK (people >= 0), -- visits
    bots         bigint   NOT NULL CHECK (bots >= 0),   -- visits
    visitors     bigint[] NOT NULL CHECK (cardinality(visitors) <= 5),
    PRIMARY KEY (domain_id, day, path, kind)
) WITH (fillfactor = 70);
CREATE INDEX unknown_address_day ON unknown_address (day);
ALTER TABLE unknown_address ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON unknown_address USING (workspace_id = ANY ((SELECT waypost_workspaces())::bigint[]));
CREATE POLICY system ON unknown_address USING ((SELECT waypost_system()));

-- The newest report about unknown addresses that was counted, by boot of each edge. The
-- row moves in the transaction that counts, so that a report counts once.
CREATE TABLE unknown_report (
    node        text COLLATE "C" NOT NULL CHECK (node ~ '^[A-Za-z0-9._-]{1,64}$'),
    boot        uuid        NOT NULL,
    seq         bigint      NOT NULL CHECK (seq > 0),
    received_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (node, boot)
) WITH (fillfactor = 50);

-- Questions about many links, whose answers are counted in the background and kept: the
-- statistics of a group of links, or a table of groups. question is JSON, and key its
-- SHA-256. The days from first_day on are counted. A question that was not asked for 30
-- days goes.
CREATE TABLE stats_question (
    id           bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    workspace_id bigint      NOT NULL,
    key          bytea       NOT NULL CHECK (octet_length(key) = 32),
    question     jsonb       NOT NULL,
    first_day    date        NOT NULL,
    asked_at     timestamptz NOT NULL DEFAULT now(),
    begun_at     timestamptz, -- of the newest count, also of one that failed
    took         interval,    -- and its time
    fault        text,        -- why there can be no answer
    UNIQUE (workspace_id, key)
);

-- The newest answer to each. links are the ids of a group's links, as package analytics
-- packs them; names are the groups of a table with their number of links. No foreign key
-- leads to the question, because a count would keep the question from being deleted as
-- long as it takes; answers without a question are never read, and deleted soon.
CREATE TABLE stats_answer (
    question_id    bigint      PRIMARY KEY,
    workspace_id   bigint      NOT NULL,
    counted_at     timestamptz NOT NULL,
    first_day      date        NOT NULL, -- days from here on are counted
    complete_until timestamptz,
    behind         text[]      NOT NULL,
    clicks         bigint      NOT NULL, -- of the group, in all time
    bot_clicks     bigint      NOT NULL,
    links          bytea,
    names          json
);

-- The days of a group, as those of click_workspace_day. A day is exact as long as the
-- group has the same links, and the workspace as many clicks on that day. A day of a table
-- has the clicks by name instead.
CREATE TABLE stats_answer_day (
    question_id      bigint NOT NULL,
    workspace_id     bigint NOT NULL,
    day              date   NOT NULL,
    workspace_clicks bigint NOT NULL,
    clicks           bigint NOT NULL,
    bot_clicks       bigint NOT NULL,
    quarters         bytea  NOT NULL,
    breakdown        bytea  NOT NULL,
    visitors         bytea  NOT NULL,
    top              bytea  NOT NULL,
    names            json,
    PRIMARY KEY (question_id, day)
);
SELECT click_protect(t) FROM unnest('{stats_question,stats_answer,stats_answer_day}'::regclass[]) t;

-- Saved views of statistics: a name for filters, as the console has them in its address.
-- A public view is a page of one link, or of the links with a tag, for everyone who has its secret.
CREATE TABLE stats_view (
    id           bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    workspace_id bigint      NOT NULL REFERENCES workspace,
    name         text        NOT NULL CHECK (octet_length(name) BETWEEN 1 AND 100),
    query        text        NOT NULL CHECK (octet_length(query) <= 2000),
    link_id      bigint      REFERENCES link ON DELETE CASCADE, -- of a public view
    tag          text        CHECK (tag IS NULL OR link_id IS NULL), -- of another one
    secret       bytea       UNIQUE CHECK (octet_length(secret) = 32), -- its SHA-256
    created_at   timestamptz NOT NULL DEFAULT now(),
    UNIQUE (workspace_id, name),
    CHECK ((coalesce(tag, link_id::text) IS NULL) = (secret IS NULL))
);
CREATE INDEX stats_view_link ON stats_view (link_id) WHERE link_id IS NOT NULL;
ALTER TABLE stats_view ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON stats_view USING (workspace_id = ANY (waypost_workspaces()));
CREATE POLICY system ON stats_view USING (waypost_system());

-- +goose StatementEnd
