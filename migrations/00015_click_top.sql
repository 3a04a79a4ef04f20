-- +goose Up

-- The links of a workspace with the most clicks of a day, as package controlplane/rollup
-- packs them. '' is of days before there were such lists: their links are not known.
ALTER TABLE click_workspace_day ADD COLUMN top bytea NOT NULL DEFAULT '';
ALTER TABLE click_workspace_day ALTER COLUMN top SET DEFAULT '\x010000';
