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
