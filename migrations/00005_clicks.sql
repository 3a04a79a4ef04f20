-- +goose Up

-- How often links were followed. The counters stand apart from link, so that a
-- click takes no turn at the head of the changelog and reaches no edge. They are
-- never indexed by what changes, and pages keep room, so that an update stays on
-- its page. There is no foreign key: a purge of links, which holds the head of the
-- changelog, would have to wait for a batch that is being counted.
CREATE TABLE link_click (
    link_id          bigint      PRIMARY KEY,
    workspace_id     bigint      NOT NULL REFERENCES workspace,
    clicks           bigint      NOT NULL CHECK (clicks > 0),
    last_accessed_at timestamptz NOT NULL
) WITH (fillfactor = 80);
ALTER TABLE link_click ENABLE ROW LEVEL SECURITY;
ALTER TABLE link_click FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON link_click USING (workspace_id = ANY (waypost_workspaces()));
CREATE POLICY system ON link_click USING (waypost_system());

-- How far each boot of each edge has been counted: batches 1 to seq, without a
-- gap. The row moves in the transaction that counts, so that a batch is counted
-- once whatever is sent again. Rows are never removed: a batch that comes back
-- after years is still known to be counted.
CREATE TABLE click_watermark (
    node       text COLLATE "C" NOT NULL CHECK (node ~ '^[A-Za-z0-9._-]{1,64}$'),
    boot       uuid        NOT NULL,
    seq        bigint      NOT NULL DEFAULT 0 CHECK (seq >= 0),
    hash       bytea       CHECK (octet_length(hash) = 32), -- SHA-256 of batch seq; NULL before the first
    clicks     bigint      NOT NULL DEFAULT 0, -- counted for links
    unknown    bigint      NOT NULL DEFAULT 0, -- of codes that name no link, counted only here
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (node, boot)
) WITH (fillfactor = 50);

-- The batches of the last day, to tell one that is sent again from another under
-- the same identity.
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

-- Batches that were not counted and never will be by themselves. They are for an
-- operator to judge; body holds codes of all tenants.
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
ALTER TABLE click_dead_letter ENABLE ROW LEVEL SECURITY;
ALTER TABLE click_dead_letter FORCE ROW LEVEL SECURITY;
CREATE POLICY system ON click_dead_letter USING (waypost_system());
