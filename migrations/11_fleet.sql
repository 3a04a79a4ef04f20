-- +goose Up
-- +goose StatementBegin

-- Edges and relays: their credentials, and the orders of operators.

-- Credentials by which nodes prove themselves. The node makes its credential, and only
-- a hash is kept here. A node has at most one that is not revoked. Revoked ones stay,
-- so that their holders learn why they are refused, and no other node gets the name.
CREATE TABLE node_credential (
    id           bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    node         text COLLATE "C" NOT NULL CHECK (length(node) BETWEEN 1 AND 64),
    region       text        NOT NULL CHECK (length(region) BETWEEN 1 AND 32),
    role         text        NOT NULL CHECK (role IN ('edge', 'relay')),
    hash         bytea       NOT NULL UNIQUE CHECK (octet_length(hash) = 32),
    former       text[]      NOT NULL DEFAULT '{}', -- earlier names of the same data directory
    created_at   timestamptz NOT NULL DEFAULT now(),
    last_seen_at timestamptz, -- to the minute
    revoked_at   timestamptz,
    replaced     boolean     NOT NULL DEFAULT false, -- revoked because another took its place
    CHECK (revoked_at IS NOT NULL OR NOT replaced)
);
CREATE UNIQUE INDEX node_credential_live ON node_credential (node) WHERE revoked_at IS NULL;
CREATE INDEX node_credential_node ON node_credential (node, id);
ALTER TABLE node_credential ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY system ON node_credential USING ((SELECT waypost_system()));

-- Tokens. Each is exchanged for a credential once.
CREATE TABLE node_enrolment (
    id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    hash       bytea       NOT NULL UNIQUE CHECK (octet_length(hash) = 32),
    region     text        NOT NULL CHECK (length(region) BETWEEN 1 AND 32),
    role       text        NOT NULL CHECK (role IN ('edge', 'relay')),
    node       text COLLATE "C", -- the only name it is for; NULL: any free name
    label      text        NOT NULL DEFAULT '',
    created_by text        NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL CHECK (expires_at <= created_at + interval '24 hours'),
    used_at    timestamptz,
    credential bigint REFERENCES node_credential (id), -- that it was exchanged for
    CHECK ((used_at IS NULL) = (credential IS NULL))
);
CREATE INDEX node_enrolment_expiry ON node_enrolment (expires_at);
ALTER TABLE node_enrolment ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY system ON node_enrolment USING ((SELECT waypost_system()));

-- Boots of edges: each start of an edge is one. An edge is here before it serves, so that
-- no control plane leaves it out of the edges that must have a change. It leaves when it
-- has stopped in order, when the next boot has taken its place, or when an operator
-- declares it gone. Silence alone proves nothing.
CREATE TABLE edge_boot (
    node        text COLLATE "C" NOT NULL CHECK (node ~ '^[A-Za-z0-9._-]{1,64}$'),
    boot        bytea       NOT NULL CHECK (octet_length(boot) = 16), -- zeros: it has enrolled, and not reported yet
    region      text        NOT NULL CHECK (length(region) <= 64),
    stopped     boolean     NOT NULL DEFAULT false, -- it serves no more; kept for a while, because an earlier report may be late
    first_at    timestamptz NOT NULL DEFAULT now(),
    reported_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (node, boot)
) WITH (fillfactor = 50);
ALTER TABLE edge_boot ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY system ON edge_boot USING ((SELECT waypost_system()));

-- Orders of operators to edges. Edges call the control plane, not the other way round:
-- an edge gets its orders in the answer to its next report, from whichever instance it
-- reports to, and then reports the outcome.
CREATE TABLE edge_order (
    id         bigint      PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    node       text COLLATE "C" NOT NULL CHECK (node ~ '^[A-Za-z0-9._-]{1,64}$'),
    what       text        NOT NULL CHECK (what IN ('verify', 'accept', 'drain', 'undrain', 'explain')),
    hold       text        NOT NULL DEFAULT '' CHECK (length(hold) <= 32), -- of accept: which hold; empty: any
    question   jsonb CHECK ((question IS NOT NULL) = (what = 'explain')), -- of explain: the visitor and the link
    ordered_by text        NOT NULL,
    ordered_at timestamptz NOT NULL DEFAULT now(),
    until      timestamptz NOT NULL, -- no operator waits for it any longer
    done_at    timestamptz,
    outcome    jsonb CHECK ((outcome IS NULL) = (done_at IS NULL))
);
CREATE INDEX edge_order_node ON edge_order (node, id);
CREATE INDEX edge_order_open ON edge_order (until) WHERE done_at IS NULL;

-- +goose StatementEnd
