-- +goose Up

-- What requests with an Idempotency-Key were answered, written in the transaction that
-- made their links. The body is as it was sent, and compressed by zstd.
CREATE TABLE idempotency (
    workspace_id bigint      NOT NULL REFERENCES workspace,
    route        text        COLLATE "C" NOT NULL CHECK (length(route) BETWEEN 1 AND 100),
    key          text        COLLATE "C" NOT NULL CHECK (octet_length(key) BETWEEN 1 AND 255),
    request      bytea       NOT NULL CHECK (octet_length(request) = 32), -- SHA-256 of what was asked
    status       smallint    NOT NULL,
    header       jsonb       NOT NULL,
    body         bytea       NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (workspace_id, route, key)
);
ALTER TABLE idempotency ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE INDEX idempotency_age ON idempotency (created_at);
ALTER TABLE idempotency ENABLE ROW LEVEL SECURITY;
ALTER TABLE idempotency FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON idempotency USING (workspace_id = ANY (waypost_workspaces()));
CREATE POLICY system ON idempotency USING (waypost_system());

-- The one link that a workspace gets for a target under a domain when it asks for no
-- second one: target is SHA-256 of the target's normal form. Links that were made without
-- asking so are not here, and cost nothing. What the row names may be deleted, disabled or
-- expired meanwhile; then the next wish replaces it.
CREATE TABLE link_dedupe (
    workspace_id bigint  NOT NULL REFERENCES workspace,
    domain_id    integer NOT NULL REFERENCES domain,
    target       bytea   NOT NULL CHECK (octet_length(target) = 32),
    link_id      bigint  NOT NULL UNIQUE REFERENCES link ON DELETE CASCADE,
    PRIMARY KEY (workspace_id, domain_id, target)
);
ALTER TABLE link_dedupe ENABLE ROW LEVEL SECURITY;
ALTER TABLE link_dedupe FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON link_dedupe USING (workspace_id = ANY (waypost_workspaces()));
CREATE POLICY system ON link_dedupe USING (waypost_system());

-- A domain that was removed keeps its row, because the tombstones of its links refer to
-- it, under a name that no host has; the host is free for another domain.
ALTER TABLE domain ADD COLUMN retired boolean NOT NULL DEFAULT false;
CREATE INDEX domain_workspace ON domain (workspace_id) WHERE NOT retired;

-- Finds the rows of targets one by one, each by the primary key: PostgreSQL keeps the plan
-- of that, and for a join with arrays takes others, some of which read all links.
-- +goose StatementBegin
CREATE FUNCTION link_twins(workspaces bigint[], domains integer[], targets bytea[]) RETURNS TABLE (link_id bigint, target bytea)
    LANGUAGE plpgsql STABLE ROWS 1 AS $$
BEGIN
    FOR i IN 1 .. cardinality(targets) LOOP
        RETURN QUERY SELECT d.link_id, d.target FROM link_dedupe d
            WHERE d.workspace_id = workspaces[i] AND d.domain_id = domains[i] AND d.target = targets[i];
    END LOOP;
END $$;
-- +goose StatementEnd
