-- +goose Up
-- +goose StatementBegin

-- Key ranges, leases, and reserved keys. A key is a counter in a prefix; a code is its
-- permuted form.

-- Settings and state of all prefixes. A history that this database has forgotten may have
-- issued counters below floor from a prefix that looks unused. No key is leased while
-- held is not empty; every prefix skips gap counters when that ends, if gap is known.
-- superseded is the ordinal of the newest epoch that an edge has seen and this database
-- does not have, or 0.
CREATE TABLE key_state (
    singleton  boolean     PRIMARY KEY DEFAULT true CHECK (singleton),
    floor      bigint      NOT NULL DEFAULT 0 CHECK (floor >= 0),
    held       text        NOT NULL DEFAULT '',
    held_since timestamptz,
    gap        bigint      NOT NULL DEFAULT 0 CHECK (gap >= 0),
    superseded integer     NOT NULL DEFAULT 0 CHECK (superseded >= 0)
);
INSERT INTO key_state DEFAULT VALUES;

-- The counters [lo, hi) of a prefix, owned by one region. Counters below next are leased;
-- key_lease has their leases. Ranges that are not retired never overlap.
CREATE TABLE key_range (
    id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    prefix     integer     NOT NULL CHECK (prefix >= 0),
    lo         bigint      NOT NULL CHECK (lo >= 0),
    hi         bigint      NOT NULL,
    next       bigint      NOT NULL,
    region     text        NOT NULL CHECK (region ~ '^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$'),
    state      text        NOT NULL DEFAULT 'live' CHECK (state IN ('live', 'draining', 'retired')),
    generation bigint      NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    slot       smallint    NOT NULL,
    rev_epoch  integer     NOT NULL,
    rev_seq    bigint      NOT NULL,
    stamp      bigint      NOT NULL,
    CHECK (lo < hi AND next BETWEEN lo AND hi),
    CONSTRAINT key_ranges_are_disjoint EXCLUDE USING gist
        (int4range(prefix, prefix, '[]') WITH &&, int8range(lo, hi) WITH &&) WHERE (state <> 'retired')
);
CREATE INDEX key_range_region ON key_range (region) WHERE state = 'live';
CREATE INDEX key_range_prefix ON key_range (prefix, lo);
SELECT changelog_replicate('key_range', 'changelog_stamp_row', 'changelog_after_row', 3);

-- A block of counters that one process holds. held: node may issue it; free: a clean
-- stop gave it back unissued; closed: all of it is issued; burned: its holder is gone
-- or its epoch over, and it is never issued. Blocks never overlap.
CREATE TABLE key_lease (
    id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    range_id   bigint      NOT NULL REFERENCES key_range,
    prefix     integer     NOT NULL,
    region     text        NOT NULL CHECK (length(region) <= 32),
    lo         bigint      NOT NULL,
    hi         bigint      NOT NULL CHECK (lo < hi),
    epoch      integer     NOT NULL,
    generation bigint      NOT NULL,
    node       text        NOT NULL CHECK (length(node) <= 400),
    state      text        NOT NULL DEFAULT 'held' CHECK (state IN ('held', 'free', 'closed', 'burned')),
    taken_at   timestamptz NOT NULL DEFAULT now(),
    slot       smallint    NOT NULL,
    rev_epoch  integer     NOT NULL,
    rev_seq    bigint      NOT NULL,
    stamp      bigint      NOT NULL,
    CONSTRAINT key_leases_are_disjoint EXCLUDE USING gist
        (int4range(prefix, prefix, '[]') WITH &&, int8range(lo, hi) WITH &&)
);
CREATE INDEX key_lease_free ON key_lease (region) WHERE state = 'free';
CREATE INDEX key_lease_held ON key_lease (node) WHERE state = 'held';
CREATE INDEX key_lease_place ON key_lease (prefix, lo);
CREATE INDEX key_lease_open ON key_lease (range_id) WHERE state IN ('held', 'free');
SELECT changelog_replicate('key_lease', 'changelog_stamp_row', 'changelog_after_row', 4);

-- Counters with codes that users chose before a range reached them, including prefixes
-- that no region owns yet. Blocks are leased around them.
CREATE TABLE key_burn (
    prefix    integer     NOT NULL,
    counter   bigint      NOT NULL,
    burned_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (prefix, counter)
);

-- Keys issued in each minute, as the control planes report them; rates are measured
-- from it. It is not replicated, and need not be complete.
CREATE TABLE key_issue (
    minute   timestamptz NOT NULL,
    region   text        NOT NULL CHECK (length(region) <= 32),
    range_id bigint      NOT NULL REFERENCES key_range,
    issued   bigint      NOT NULL CHECK (issued > 0),
    PRIMARY KEY (minute, region, range_id)
);

-- Control planes by boot ("NAME/BOOT"), with their last heartbeat. A control plane that
-- has been silent for long has lost its leases.
CREATE TABLE control_node (
    node       text        PRIMARY KEY CHECK (length(node) <= 400),
    region     text        NOT NULL CHECK (length(region) <= 32),
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    seen_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    stopped    boolean     NOT NULL DEFAULT false, -- in order
    report     jsonb       NOT NULL DEFAULT 'null' CHECK (length(report::text) <= 100000) -- at its last heartbeat
);

-- Keys that services outside of Waypost hold. reserved: a service holds it; free: given
-- back unpublished, for the workspace's next request; used: it has become a link;
-- burned: given back in an epoch that is over, so that its holder is unknown.
CREATE TABLE reserved_key (
    code         text COLLATE "C" PRIMARY KEY,
    workspace_id bigint      NOT NULL REFERENCES workspace,
    service      text        NOT NULL CHECK (length(service) BETWEEN 1 AND 100),
    lease_id     bigint      NOT NULL REFERENCES key_lease,
    state        text        NOT NULL DEFAULT 'reserved' CHECK (state IN ('reserved', 'free', 'used', 'burned')),
    reserved_at  timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX reserved_key_free ON reserved_key (workspace_id) WHERE state = 'free';
CREATE INDEX reserved_key_service ON reserved_key (workspace_id, service) WHERE state = 'reserved';
ALTER TABLE reserved_key ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON reserved_key USING (workspace_id = ANY (waypost_workspaces()));
CREATE POLICY system ON reserved_key USING (waypost_system());

-- The functions below that change ranges or leases expect the caller to hold the head
-- of the changelog.

-- Returns the number of counters in a prefix.
CREATE FUNCTION key_prefix_size() RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT (62::numeric ^ (code_length - prefix_length))::bigint FROM cluster
$$;

-- Assigns a region a prefix that was never used: the one asked for, or a random one, so
-- that codes of different regions do not look like neighbours. NULL: none is free.
CREATE FUNCTION key_assign_prefix(to_region text, wanted integer) RETURNS bigint LANGUAGE sql VOLATILE AS $$
    INSERT INTO key_range (prefix, lo, hi, next, region)
    SELECT p, 0, key_prefix_size(), s.floor, to_region
    FROM cluster c, key_state s, generate_series(0, (62::numeric ^ c.prefix_length)::integer - 1) p
    WHERE s.floor < key_prefix_size() AND (wanted IS NULL OR p = wanted)
      AND NOT EXISTS (SELECT FROM key_range r WHERE r.prefix = p)
    ORDER BY random() LIMIT 1
    RETURNING id
$$;

-- Leases the next block, of at most size counters, of the region's oldest range that
-- has any, and steps over counters that custom codes have burned. No row: none is left.
CREATE FUNCTION key_lease_block(for_region text, size bigint, for_node text) RETURNS SETOF key_lease LANGUAGE plpgsql AS $$
DECLARE
    r     key_range;
    first bigint;
    last  bigint;
BEGIN
    LOOP
        SELECT * INTO r FROM key_range WHERE region = for_region AND state = 'live' AND next < hi ORDER BY id LIMIT 1;
        IF NOT FOUND THEN
            RETURN;
        END IF;
        first := r.next;
        WHILE first < r.hi AND EXISTS (SELECT FROM key_burn WHERE prefix = r.prefix AND counter = first) LOOP
            first := first + 1;
        END LOOP;
        last := least(r.hi, first + size);
        SELECT coalesce(min(counter), last) INTO last FROM key_burn WHERE prefix = r.prefix AND counter >= first AND counter < last;
        UPDATE key_range SET next = last WHERE id = r.id;
        IF first < last THEN
            RETURN QUERY INSERT INTO key_lease (range_id, prefix, region, lo, hi, epoch, generation, node)
                SELECT r.id, r.prefix, for_region, first, last, h.epoch, r.generation, for_node FROM changelog_head h
                RETURNING *;
            RETURN;
        END IF;
    END LOOP;
END $$;

-- Refuses a write with keys of leases that are void: burned, given back, of an epoch that
-- is over, or of a range that was moved since. Writers call it as a statement of its own
-- once the head is locked, because no lease can change under that lock.
CREATE FUNCTION key_check_leases(leases bigint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    lease bigint;
    void  bigint[] := '{}';
BEGIN
    -- One by one, because PostgreSQL keeps the plan of that, but plans again for every array.
    FOREACH lease IN ARRAY coalesce(leases, '{}') LOOP
        IF NOT EXISTS (
            SELECT FROM key_lease l JOIN key_range r ON r.id = l.range_id, changelog_head h
            WHERE h.singleton AND l.id = lease AND l.state IN ('held', 'closed') AND l.epoch = h.epoch
              AND l.generation = r.generation AND r.state <> 'retired') THEN
            void := void || lease;
        END IF;
    END LOOP;
    IF void <> '{}' THEN
        RAISE EXCEPTION 'key leases are void: %', void USING ERRCODE = 'WP002', DETAIL = array_to_string(void, ',');
    END IF;
END $$;

-- Takes the counter of a code that a user has chosen, unless it was, or may be, issued. A
-- forgotten history may have issued counters below the floor in no range and, while keys
-- are held back, those in the gap.
CREATE FUNCTION key_take(prefix_ integer, counter_ bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    l     key_lease;
    s     key_state;
    spent boolean;
BEGIN
    SELECT * INTO STRICT s FROM key_state;
    SELECT bool_or(counter_ < r.next + s.gap) INTO spent FROM key_range r WHERE r.prefix = prefix_ AND r.lo <= counter_ AND counter_ < r.hi;
    IF NOT coalesce(spent, counter_ < s.floor + s.gap) THEN
        INSERT INTO key_burn (prefix, counter) VALUES (prefix_, counter_) ON CONFLICT DO NOTHING;
        RETURN true;
    END IF;
    SELECT * INTO l FROM key_lease WHERE prefix = prefix_ AND lo <= counter_ ORDER BY lo DESC LIMIT 1;
    IF NOT FOUND OR counter_ >= l.hi OR l.state <> 'free' THEN
        RETURN false;
    END IF;
    UPDATE key_lease SET lo = counter_, hi = counter_ + 1, state = 'burned' WHERE id = l.id;
    INSERT INTO key_lease (range_id, prefix, region, lo, hi, epoch, generation, node, state)
    SELECT l.range_id, l.prefix, l.region, part.lo, part.hi, l.epoch, l.generation, '', 'free'
    FROM (VALUES (l.lo, counter_), (counter_ + 1, l.hi)) part (lo, hi) WHERE part.lo < part.hi;
    RETURN true;
END $$;

-- Takes the counters of codes that users have chosen: a counter that lies ahead is
-- burned, and a key that a service of the same workspace holds becomes its link. It
-- refuses the codes of all others, returns them, and leaves them in waypost.refused for
-- the rest of the transaction. The caller acts for the tenants.
CREATE FUNCTION key_claim(codes text[], prefixes integer[], counters bigint[], workspaces bigint[]) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    refused text[] := '{}';
BEGIN
    FOR i IN 1 .. cardinality(codes) LOOP
        UPDATE reserved_key SET state = 'used' WHERE code = codes[i] AND workspace_id = workspaces[i] AND state = 'reserved';
        CONTINUE WHEN FOUND;
        IF NOT key_take(prefixes[i], counters[i]) THEN
            refused := refused || codes[i];
        END IF;
    END LOOP;
    PERFORM set_config('waypost.refused', array_to_string(refused, ','), true);
    RETURN QUERY SELECT unnest(refused);
END $$;

-- Makes every prefix skip that many counters, including prefixes that no region owns
-- yet.
CREATE FUNCTION key_skip(counters bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE key_range SET next = least(hi, next + counters) WHERE state <> 'retired' AND next < hi;
    UPDATE key_state SET floor = least(key_prefix_size(), floor + counters);
END $$;

-- +goose StatementEnd
