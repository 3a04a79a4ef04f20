-- +goose Up

-- What operators ask of edges, which reach the control plane and not the other way
-- round: an edge hears of it in the answer to its next report, from whichever instance that
-- goes to, and answers with the outcome.
CREATE TABLE edge_order (
    id         bigint      PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    node       text COLLATE "C" NOT NULL CHECK (node ~ '^[A-Za-z0-9._-]{1,64}$'),
    what       text        NOT NULL CHECK (what IN ('verify', 'accept')),
    repair     boolean     NOT NULL DEFAULT false, -- of verify: what differs
    hold       text        NOT NULL DEFAULT '' CHECK (length(hold) <= 32), -- of accept: which hold; empty: any
    ordered_by text        NOT NULL,
    ordered_at timestamptz NOT NULL DEFAULT now(),
    until      timestamptz NOT NULL, -- nobody waits for it any longer
    done_at    timestamptz,
    outcome    jsonb CHECK ((outcome IS NULL) = (done_at IS NULL))
);
CREATE INDEX edge_order_node ON edge_order (node, id);
CREATE INDEX edge_order_open ON edge_order (until) WHERE done_at IS NULL;
