-- +goose Up
-- +goose StatementBegin

-- Blocked codes (takedowns): the newest statement about each code that was ever blocked.
-- A statement is signed and is about the address that visitors know, so that it needs
-- neither the link nor the domain. It is no part of the changelog and of its digest,
-- because edges keep statements that a restored database has forgotten, and bring them
-- back. No workspace sees the table.
CREATE TABLE link_block (
    host    text COLLATE "C" NOT NULL CHECK (octet_length(host) <= 253), -- '': the default domain
    code    text COLLATE "C" NOT NULL CHECK (octet_length(code) BETWEEN 1 AND 128),
    version bigint  NOT NULL CHECK (version > 0), -- microseconds, so that no restored database issues one again
    blocked boolean NOT NULL, -- false: the block has ended
    policy  text    NOT NULL CHECK (policy IN ('legal', 'gone')),
    reason  text    NOT NULL CHECK (octet_length(reason) BETWEEN 1 AND 200),
    at      bigint  NOT NULL CHECK (at >= 0), -- Unix milliseconds, which are signed
    stamp   bigint  NOT NULL, -- the contribution to the digest of all statements
    place   bigint  NOT NULL UNIQUE, -- in the order in which this database took them
    PRIMARY KEY (host, code)
);
ALTER TABLE link_block ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY system ON link_block USING (waypost_system());

-- +goose StatementEnd
