-- +goose Up

-- What an edge proves itself with, of which only a hash is kept: the edge has made it. A
-- node has one that is not revoked at most; those before stay, so that their holders are
-- told why they are refused, and nobody else gets the name.
CREATE TABLE node_credential (
    id           bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    node         text COLLATE "C" NOT NULL CHECK (length(node) BETWEEN 1 AND 64),
    region       text        NOT NULL CHECK (length(region) BETWEEN 1 AND 32),
    role         text        NOT NULL CHECK (role IN ('edge', 'relay')),
    hash         bytea       NOT NULL UNIQUE CHECK (octet_length(hash) = 32),
    former       text[]      NOT NULL DEFAULT '{}', -- names that the same directory had before
    created_at   timestamptz NOT NULL DEFAULT now(),
    last_seen_at timestamptz, -- true to a minute
    revoked_at   timestamptz,
    replaced     boolean     NOT NULL DEFAULT false, -- revoked because another took its place
    CHECK (revoked_at IS NOT NULL OR NOT replaced)
);
CREATE UNIQUE INDEX node_credential_live ON node_credential (node) WHERE revoked_at IS NULL;
CREATE INDEX node_credential_node ON node_credential (node, id);
ALTER TABLE node_credential ENABLE ROW LEVEL SECURITY;
ALTER TABLE node_credential FORCE ROW LEVEL SECURITY;
CREATE POLICY system ON node_credential USING ((SELECT waypost_system()));

-- Tokens that are exchanged for a credential, each once.
CREATE TABLE node_enrolment (
    id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    hash       bytea       NOT NULL UNIQUE CHECK (octet_length(hash) = 32),
    region     text        NOT NULL CHECK (length(region) BETWEEN 1 AND 32),
    role       text        NOT NULL CHECK (role IN ('edge', 'relay')),
    node       text COLLATE "C", -- whose name alone it is for; NULL: any that is free
    label      text        NOT NULL DEFAULT '',
    created_by text        NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL CHECK (expires_at <= created_at + interval '24 hours'),
    used_at    timestamptz,
    credential bigint REFERENCES node_credential (id), -- that it was exchanged for
    CHECK ((used_at IS NULL) = (credential IS NULL))
);
CREATE INDEX node_enrolment_expiry ON node_enrolment (expires_at);
ALTER TABLE node_enrolment ENABLE ROW LEVEL SECURITY;
ALTER TABLE node_enrolment FORCE ROW LEVEL SECURITY;
CREATE POLICY system ON node_enrolment USING ((SELECT waypost_system()));
