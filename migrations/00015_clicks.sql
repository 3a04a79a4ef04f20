-- +goose Up

-- The links of a workspace with the most clicks of a day, as package controlplane/rollup
-- packs them. '' is of days before there were such lists: their links are not known.
ALTER TABLE click_workspace_day ADD COLUMN top bytea NOT NULL DEFAULT '';
ALTER TABLE click_workspace_day ALTER COLUMN top SET DEFAULT '\x010000';

-- The dead letters of a node beyond those that are kept, which are counted only.
CREATE TABLE click_dead_letter_more (
    node      text COLLATE "C" PRIMARY KEY,
    letters   bigint      NOT NULL, -- each time that one comes
    clicks    numeric     NOT NULL, -- what these say
    newest_at timestamptz NOT NULL
) WITH (fillfactor = 50);
ALTER TABLE click_dead_letter_more ENABLE ROW LEVEL SECURITY;
ALTER TABLE click_dead_letter_more FORCE ROW LEVEL SECURITY;
CREATE POLICY system ON click_dead_letter_more USING ((SELECT waypost_system()));

-- The clicks of a workspace from before they were counted by day: of its links as they are
-- now, since what was counted of links that are gone is known no more.
CREATE TABLE click_workspace_before (
    workspace_id bigint PRIMARY KEY,
    clicks       bigint NOT NULL CHECK (clicks >= 0),
    bot_clicks   bigint NOT NULL CHECK (bot_clicks BETWEEN 0 AND clicks)
);
SELECT click_protect('click_workspace_before'), waypost_protect('click_workspace_before');

-- A restored database must not give an id to something else than the one that is lost: edges
-- and caches may still know that. So a new epoch leaves a gap, as for keys.
-- +goose StatementBegin
CREATE FUNCTION epoch_skip_ids() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    PERFORM setval('domain_id_seq', nextval('domain_id_seq') + 10000),
            setval('workspace_id_seq', nextval('workspace_id_seq') + 1000000),
            setval('link_id_seq', nextval('link_id_seq') + 1000000000);
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER epoch_skip_ids AFTER INSERT ON changelog_epoch FOR EACH STATEMENT EXECUTE FUNCTION epoch_skip_ids();

-- The owner sees no rows.
SET LOCAL ROLE waypost_operator;
INSERT INTO click_workspace_before (workspace_id, clicks, bot_clicks)
SELECT c.workspace_id, least(c.clicks - coalesce(d.clicks, 0), 9223372036854775807),
       greatest(least(c.bots - coalesce(d.bots, 0), c.clicks - coalesce(d.clicks, 0), 9223372036854775807), 0)
FROM (SELECT workspace_id, sum(clicks) AS clicks, sum(bot_clicks) AS bots FROM link_click GROUP BY workspace_id) c
LEFT JOIN (SELECT workspace_id, sum(clicks) AS clicks, sum(bot_clicks) AS bots FROM click_workspace_day GROUP BY workspace_id) d USING (workspace_id)
WHERE c.clicks > coalesce(d.clicks, 0);
RESET ROLE;
