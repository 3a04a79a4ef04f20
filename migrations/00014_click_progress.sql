-- +goose Up

-- Up to when the clicks of each edge are counted, as it reports itself, so that
-- statistics can say how complete they are. Every control plane writes what it hears.
CREATE TABLE click_progress (
    node           text COLLATE "C" PRIMARY KEY CHECK (node ~ '^[A-Za-z0-9._-]{1,64}$'),
    region         text        NOT NULL CHECK (length(region) <= 64),
    complete_until timestamptz,          -- by the edge's clock; NULL: it has not told yet
    pending        bigint      CHECK (pending >= 0), -- clicks that are not counted yet; NULL: unknown
    has_left       boolean     NOT NULL, -- it has stopped, and everything was counted
    reported_at    timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50);
