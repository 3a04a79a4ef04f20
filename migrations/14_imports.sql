-- +goose Up
-- +goose StatementBegin

-- Imports of links from files, with their rows. They go a week after their last change.
CREATE TABLE import (
    id           text        COLLATE "C" PRIMARY KEY CHECK (octet_length(id) BETWEEN 16 AND 32),
    workspace_id bigint      NOT NULL REFERENCES workspace,
    state        text        NOT NULL CHECK (state IN ('uploading', 'reading', 'ready', 'checking', 'running', 'stopped', 'done', 'undoing', 'undone', 'failed')),
    next_row     bigint      NOT NULL DEFAULT 0 CHECK (next_row >= 0), -- of the run, the dry run or the undo; rows before it have their outcome
    stored       bigint      NOT NULL DEFAULT 0 CHECK (stored >= 0), -- bytes of its parts, rows and outcomes
    parts        integer     NOT NULL DEFAULT 0 CHECK (parts >= 0), -- of its file, from the first on without a hole, until its rows are read
    sent         integer     NOT NULL DEFAULT 0 CHECK (sent >= parts), -- parts, also behind a hole
    sent_bytes   bigint      NOT NULL DEFAULT 0 CHECK (sent_bytes >= 0), -- of these parts
    document     jsonb       NOT NULL, -- package imports, type Import
    worker       text,        -- the control plane that works on it holds a lease
    worker_until timestamptz,
    created_at   timestamptz NOT NULL DEFAULT now(),
    updated_at   timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX import_workspace ON import (workspace_id, created_at);
ALTER TABLE import ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON import USING (workspace_id = ANY (waypost_workspaces()));
CREATE POLICY system ON import USING (waypost_system());

-- Parts of the file, until its rows are read.
CREATE TABLE import_part (
    import_id    text    COLLATE "C" NOT NULL REFERENCES import ON DELETE CASCADE,
    n            integer NOT NULL CHECK (n BETWEEN 1 AND 10000),
    workspace_id bigint  NOT NULL, -- of the import
    size         integer NOT NULL CHECK (size BETWEEN 0 AND 16777216),
    sum          bytea   NOT NULL CHECK (octet_length(sum) = 32), -- SHA-256
    content      bytea   NOT NULL, -- compressed by zstd
    PRIMARY KEY (import_id, n)
);
ALTER TABLE import_part ALTER COLUMN content SET STORAGE EXTERNAL;
ALTER TABLE import_part ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON import_part USING (workspace_id = ANY (waypost_workspaces()));
CREATE POLICY system ON import_part USING (waypost_system());

-- The rows of the file, and their outcomes, each in pieces that are compressed by zstd. A
-- piece begins with first_row, from 0. The pieces of both differ.
CREATE TABLE import_rows (
    import_id    text    COLLATE "C" NOT NULL REFERENCES import ON DELETE CASCADE,
    outcome      boolean NOT NULL,
    first_row    bigint  NOT NULL CHECK (first_row >= 0),
    workspace_id bigint  NOT NULL, -- of the import
    content      bytea   NOT NULL,
    PRIMARY KEY (import_id, outcome, first_row)
);
ALTER TABLE import_rows ALTER COLUMN content SET STORAGE EXTERNAL;
ALTER TABLE import_rows ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON import_rows USING (workspace_id = ANY (waypost_workspaces()));
CREATE POLICY system ON import_rows USING (waypost_system());

-- +goose StatementEnd
