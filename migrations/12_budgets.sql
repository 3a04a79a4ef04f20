-- +goose Up
-- +goose StatementBegin

-- Click budgets: how many clicks of a link edges were granted. Package rules/budget has
-- the arithmetic. Only links with a budget of exact clicks have rows, from the first
-- grant on.

-- A budget. Grants of it lock the row. base counts as used besides the accounts: clicks
-- from before the budget, and from times in which it was switched off. recalled_at is
-- when a visitor was last refused because edges hold the clicks that are left: for some
-- seconds the answers to their reports ask for the clicks.
CREATE TABLE budget (
    link_id      bigint PRIMARY KEY,
    workspace_id bigint NOT NULL REFERENCES workspace,
    base         bigint NOT NULL DEFAULT 0 CHECK (base >= 0),
    recalled_at  timestamptz
);
CREATE INDEX budget_recalled ON budget (recalled_at) WHERE recalled_at IS NOT NULL;
ALTER TABLE budget ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON budget USING (workspace_id = ANY (waypost_workspaces()));
CREATE POLICY system ON budget USING (waypost_system());

-- The clicks that an edge has taken of a budget. Totals only grow. An edge opens another
-- account after a restart; clicks of the former account that it did not give back count
-- as spent. An account has no row while it has given all its clicks back, so that a
-- restart leaves none of a link without visitors. The other rows go with their links, so
-- that an account that an edge reports again after years is still known.
CREATE TABLE budget_account (
    link_id      bigint NOT NULL REFERENCES budget ON DELETE CASCADE,
    node         text COLLATE "C" NOT NULL CHECK (node ~ '^[A-Za-z0-9._-]{1,64}$'),
    id           uuid   NOT NULL, -- random, from the edge
    workspace_id bigint NOT NULL,
    granted      bigint NOT NULL CHECK (granted BETWEEN 0 AND 1000000000000),
    returned     bigint NOT NULL CHECK (returned BETWEEN 0 AND granted),
    spent        bigint NOT NULL CHECK (spent >= 0), -- as far as the edge has reported
    PRIMARY KEY (link_id, node, id)
) WITH (fillfactor = 50);
ALTER TABLE budget_account ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON budget_account USING (workspace_id = ANY (waypost_workspaces()));
CREATE POLICY system ON budget_account USING (waypost_system());

-- Edges that have reported all their accounts at least once: no other edge spends a click
-- of a budget.
CREATE TABLE budget_node (
    node    text COLLATE "C" PRIMARY KEY,
    disk    uuid        NOT NULL, -- random id that the edge keeps on its disk, and changes when it loses accounts
    seen_at timestamptz NOT NULL  -- at a start, or in a new epoch
);

-- Edges that have not reported all their accounts in this epoch yet. Nothing is granted
-- while there is one, because PostgreSQL may have forgotten grants.
CREATE TABLE budget_awaited (
    node text COLLATE "C" PRIMARY KEY
);

-- The edges that may hold clicks: one that has left gave its clicks back.
CREATE VIEW budget_present WITH (security_invoker = true) AS
SELECT n.node FROM budget_node n WHERE NOT EXISTS (SELECT FROM click_progress p WHERE p.node = n.node AND p.has_left);

-- burned: budgets of links up to this id grant nothing, because an edge is gone and
-- PostgreSQL may have forgotten its grants.
CREATE TABLE budget_state (
    singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    burned    bigint  NOT NULL DEFAULT 0
);
INSERT INTO budget_state DEFAULT VALUES;

-- Notes that an edge will report no account that PostgreSQL may have forgotten: it is
-- gone, or has lost its file or its disk. It returns false when the edge was not awaited.
CREATE FUNCTION budget_give_up(gone text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM budget_node WHERE node = gone;
    DELETE FROM budget_awaited WHERE node = gone;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE budget_state SET burned = greatest(burned, (SELECT coalesce(max(id), 0) FROM link));
    RETURN true;
END $$;

-- AFTER INSERT of an epoch: every edge that may hold clicks is awaited.
CREATE FUNCTION budget_freeze() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO budget_awaited (node) SELECT node FROM budget_present ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
CREATE TRIGGER budget_freeze AFTER INSERT ON changelog_epoch FOR EACH STATEMENT EXECUTE FUNCTION budget_freeze();

-- Reports whether nothing is granted: an edge is awaited, or the epoch is so young that
-- one which PostgreSQL has forgotten as well may not have reported yet. An epoch of the
-- future was opened by a clock that was wrong.
CREATE FUNCTION budget_frozen() RETURNS boolean LANGUAGE sql STABLE
    RETURN EXISTS (SELECT FROM budget_awaited)
        OR EXISTS (SELECT FROM changelog_epoch e JOIN changelog_head h ON h.epoch = e.ordinal
                   WHERE e.first_seq > 1 AND e.opened_at > clock_timestamp() - interval '10 seconds'
                     AND e.opened_at < clock_timestamp() + interval '5 minutes');

-- +goose StatementEnd
