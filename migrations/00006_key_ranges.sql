-- +goose Up

-- Control planes by boot ("NAME/BOOT"), and when each was last alive. Who has been
-- silent for long has lost its leases.
CREATE TABLE control_node (
    node       text        PRIMARY KEY CHECK (length(node) <= 400),
    region     text        NOT NULL CHECK (length(region) <= 32),
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    seen_at    timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Keys issued in each minute, as the control planes report them: what rates are
-- measured from. Not replicated, and nothing depends on it being complete.
CREATE TABLE key_issue (
    minute   timestamptz NOT NULL,
    region   text        NOT NULL CHECK (length(region) <= 32),
    range_id bigint      NOT NULL REFERENCES key_range,
    issued   bigint      NOT NULL CHECK (issued > 0),
    PRIMARY KEY (minute, region, range_id)
);

-- Counters whose codes users have chosen themselves before a range got to them,
-- also in prefixes that nobody owns yet. Blocks are leased around them.
CREATE TABLE key_burn (
    prefix    integer     NOT NULL,
    counter   bigint      NOT NULL,
    burned_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (prefix, counter)
);

-- What holds for all prefixes. Counters below floor may have been issued, from a
-- prefix that looks unused, by a history that this database has forgotten. While
-- held is not empty no key is leased; gap is what every prefix skips at the end of
-- that, if it is known.
CREATE TABLE key_state (
    singleton  boolean     PRIMARY KEY DEFAULT true CHECK (singleton),
    floor      bigint      NOT NULL DEFAULT 0 CHECK (floor >= 0),
    held       text        NOT NULL DEFAULT '',
    held_since timestamptz,
    gap        bigint      NOT NULL DEFAULT 0 CHECK (gap >= 0)
);
INSERT INTO key_state DEFAULT VALUES;

CREATE INDEX key_range_prefix ON key_range (prefix, lo);
CREATE INDEX key_lease_place ON key_lease (prefix, lo);
CREATE INDEX key_lease_open ON key_lease (range_id) WHERE state IN ('held', 'free');

-- Keys in the hands of services outside of Waypost. reserved: a service holds it;
-- free: given back unpublished, for the workspace's next wish; used: it has become a
-- link; burned: given back in an epoch that is over, so nobody knows who has it.
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
ALTER TABLE reserved_key ENABLE ROW LEVEL SECURITY;
ALTER TABLE reserved_key FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON reserved_key USING (workspace_id = ANY (waypost_workspaces()));
CREATE POLICY system ON reserved_key USING (waypost_system());

-- What administrators did.
CREATE TABLE audit (
    id           bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    workspace_id bigint      NOT NULL REFERENCES workspace,
    actor        text        NOT NULL CHECK (length(actor) BETWEEN 1 AND 200),
    action       text        NOT NULL CHECK (length(action) BETWEEN 1 AND 100),
    subject      text        NOT NULL CHECK (length(subject) <= 200),
    detail       jsonb       NOT NULL DEFAULT '{}'
);
CREATE INDEX audit_newest ON audit (workspace_id, id DESC);
ALTER TABLE audit ENABLE ROW LEVEL SECURITY;
ALTER TABLE audit FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON audit USING (workspace_id = ANY (waypost_workspaces()));
CREATE POLICY system ON audit USING (waypost_system());

-- Counters in a prefix.
-- +goose StatementBegin
CREATE FUNCTION key_prefix_size() RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT (62::numeric ^ (code_length - prefix_length))::bigint FROM cluster
$$;
-- +goose StatementEnd

-- Leases the next block, of at most size counters, of the region's oldest range
-- that has any, and steps over what custom codes have burned. No row: there is
-- nothing left. The caller holds the head of the changelog.
-- +goose StatementBegin
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
-- +goose StatementEnd

-- Gives a region a prefix that was never used: the one asked for, or any, picked at
-- random so that codes of different regions do not look like neighbours. NULL: none
-- is free. The caller holds the head of the changelog.
-- +goose StatementBegin
CREATE FUNCTION key_assign_prefix(to_region text, wanted integer) RETURNS bigint LANGUAGE sql VOLATILE AS $$
    INSERT INTO key_range (prefix, lo, hi, next, region)
    SELECT p, 0, key_prefix_size(), s.floor, to_region
    FROM cluster c, key_state s, generate_series(0, (62::numeric ^ c.prefix_length)::integer - 1) p
    WHERE s.floor < key_prefix_size() AND (wanted IS NULL OR p = wanted)
      AND NOT EXISTS (SELECT FROM key_range r WHERE r.prefix = p)
    ORDER BY random() LIMIT 1
    RETURNING id
$$;
-- +goose StatementEnd

-- Refuses a write with keys of leases that are void: burned, given back, of an
-- epoch that is over, or of a range that was moved since. It is called as a statement of
-- its own once the head is locked, because only then nothing can change any more.
-- +goose StatementBegin
CREATE FUNCTION key_check_leases(leases bigint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    lease bigint;
    void  bigint[] := '{}';
BEGIN
    -- One by one, because PostgreSQL keeps the plan of that, and plans anew for every array.
    FOREACH lease IN ARRAY coalesce(leases, '{}') LOOP
        IF NOT EXISTS (
            SELECT FROM key_lease l JOIN key_range r ON r.id = l.range_id, changelog_head h
            WHERE l.id = lease AND l.state IN ('held', 'closed') AND l.epoch = h.epoch
              AND l.generation = r.generation AND r.state <> 'retired') THEN
            void := void || lease;
        END IF;
    END LOOP;
    IF void <> '{}' THEN
        RAISE EXCEPTION 'key leases are void: %', void USING ERRCODE = 'WP002', DETAIL = array_to_string(void, ',');
    END IF;
END $$;
-- +goose StatementEnd

-- Takes counters whose codes users have chosen themselves: one that lies ahead is
-- burned, a key that a service of the same workspace holds becomes its link, and
-- every other was, or may be, issued: its code is refused. A forgotten history may have
-- issued what lies below the floor in no range and, while keys are held back, what the
-- gap is for. It gives the refused codes, also in waypost.refused for the rest of the
-- transaction. The caller holds the head of the changelog.
-- +goose StatementBegin
CREATE FUNCTION key_claim(codes text[], prefixes integer[], counters bigint[], workspaces bigint[]) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    refused text[] := '{}';
    l       key_lease;
    c       bigint;
    s       key_state;
    spent   boolean;
BEGIN
    SELECT * INTO STRICT s FROM key_state;
    FOR i IN 1 .. cardinality(codes) LOOP
        c := counters[i];
        UPDATE reserved_key SET state = 'used' WHERE code = codes[i] AND workspace_id = workspaces[i] AND state = 'reserved';
        CONTINUE WHEN FOUND;
        SELECT bool_or(c < r.next + s.gap) INTO spent FROM key_range r WHERE r.prefix = prefixes[i] AND r.lo <= c AND c < r.hi;
        IF coalesce(spent, c < s.floor + s.gap) THEN
            SELECT * INTO l FROM key_lease WHERE prefix = prefixes[i] AND lo <= c ORDER BY lo DESC LIMIT 1;
            IF NOT FOUND OR c >= l.hi OR l.state <> 'free' THEN
                refused := refused || codes[i];
                CONTINUE;
            END IF;
            UPDATE key_lease SET lo = c, hi = c + 1, state = 'burned' WHERE id = l.id;
            INSERT INTO key_lease (range_id, prefix, region, lo, hi, epoch, generation, node, state)
            SELECT l.range_id, l.prefix, l.region, part.lo, part.hi, l.epoch, l.generation, '', 'free'
            FROM (VALUES (l.lo, c), (c + 1, l.hi)) part (lo, hi) WHERE part.lo < part.hi;
            CONTINUE;
        END IF;
        INSERT INTO key_burn (prefix, counter) VALUES (prefixes[i], c) ON CONFLICT DO NOTHING;
    END LOOP;
    PERFORM set_config('waypost.refused', array_to_string(refused, ','), true);
    RETURN QUERY SELECT unnest(refused);
END $$;
-- +goose StatementEnd

-- Takes to heart what a witness remembers of an earlier history, as
-- [{"prefix","region","lo","hi","next"}]: nothing below a next is issued again. What this
-- history has leased below it meanwhile is burned, and a prefix that it believes to be
-- unused is given up: how far it was used nobody knows. The caller holds the head of the changelog.
-- +goose StatementBegin
CREATE FUNCTION key_remember(ranges jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO key_range (prefix, lo, hi, next, region, state)
    SELECT DISTINCT ON (w.prefix) w.prefix, 0, key_prefix_size(), key_prefix_size(), w.region, 'retired'
    FROM jsonb_to_recordset(ranges) w (prefix integer, region text)
    WHERE NOT EXISTS (SELECT FROM key_range r WHERE r.prefix = w.prefix);

    UPDATE key_lease l SET state = 'burned'
    WHERE l.state IN ('held', 'free') AND EXISTS (
        SELECT FROM jsonb_to_recordset(ranges) w (prefix integer, lo bigint, next bigint)
        WHERE w.prefix = l.prefix AND w.lo < l.hi AND l.lo < w.next);

    UPDATE key_range r SET next = least(r.hi, m.next)
    FROM (SELECT o.id, max(w.next) AS next
          FROM key_range o JOIN jsonb_to_recordset(ranges) w (prefix integer, lo bigint, next bigint)
            ON w.prefix = o.prefix AND w.lo < o.hi AND w.next > o.next
          WHERE o.state <> 'retired' GROUP BY o.id) m
    WHERE r.id = m.id;
END $$;
-- +goose StatementEnd

-- Every prefix skips so many counters, also those that nobody owns yet.
-- +goose StatementBegin
CREATE FUNCTION key_skip(counters bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE key_range SET next = least(hi, next + counters) WHERE state <> 'retired' AND next < hi;
    UPDATE key_state SET floor = least(key_prefix_size(), floor + counters);
END $$;
-- +goose StatementEnd

-- Whether the log has another transaction at a position that somebody has seen. The
-- caller works for the system.
-- +goose StatementBegin
CREATE FUNCTION changelog_forked(seen_epoch integer, seen_seq bigint, seen_stamp bigint) RETURNS boolean LANGUAGE sql STABLE
    RETURN EXISTS (SELECT FROM changelog_head WHERE epoch = seen_epoch)
       AND EXISTS (SELECT FROM changelog WHERE seq = seen_seq AND ord = 0 AND stamp <> seen_stamp);
-- +goose StatementEnd

DROP FUNCTION changelog_open_epoch(text, bigint, integer, integer, bigint);

-- Opens a new history under the head lock, unless somebody else has done so since
-- the caller looked at epoch looked_at. It is due when PostgreSQL's identity is
-- not that of the epoch, or when the caller has seen a commit (seen_epoch, seen_seq,
-- seen_stamp) that this database does not know.
--
-- All leases end. Keys may have been issued that this database has forgotten, so
-- every prefix resumes above what the witness remembers, {"at": seconds since 1970,
-- "ranges": see key_remember}, plus a gap: the time in which nobody was looking, by the
-- higher of peak and twice the measured peak (keys a second), and room for so many leases
-- that nobody has seen and that were burned. Without a witness that has seen all ranges ("at" 0: it has not), when the clock is behind
-- the witness's, or when the gap is more than a tenth of a prefix, no key is leased until an operator says so.
-- +goose StatementBegin
CREATE FUNCTION changelog_open_epoch(
    why text, looked_at integer, seen_epoch integer, seen_seq bigint, seen_stamp bigint,
    witness jsonb, peak double precision, burned_leases integer,
    OUT opened boolean, OUT skipped bigint, OUT held_back text) LANGUAGE plpgsql AS $$
DECLARE
    head     changelog_head;
    current  changelog_epoch;
    identity record;
    ordinal_ integer;
    known    timestamptz;
    told     timestamptz;
    age      double precision; -- seconds
    rate     double precision; -- keys a second
    longest  double precision; -- lease, which at its fastest grows twofold in half a minute
BEGIN
    opened := false;
    PERFORM set_config('waypost.system', 'on', true);
    SELECT * INTO STRICT head FROM changelog_head FOR UPDATE;
    SELECT * INTO STRICT current FROM changelog_epoch WHERE ordinal = head.epoch;
    SELECT * INTO STRICT identity FROM waypost_history();
    IF head.epoch <> looked_at
       OR (current.system_identifier, current.timeline) = (identity.system_identifier, identity.timeline)
          AND (seen_epoch, seen_seq) <= (head.epoch, head.seq)
          AND NOT changelog_forked(seen_epoch, seen_seq, seen_stamp) THEN
        RETURN;
    END IF;

    -- When the forgotten history was last looked at, as far as anybody can tell. A time to come is of a clock that was
    -- wrong; and under the identity that it always had, the database's own times may be of what came after the forgotten history.
    told := to_timestamp((witness ->> 'at')::double precision);
    SELECT max(t) INTO known
    FROM (SELECT seen_at, true FROM control_node UNION ALL SELECT at, true FROM changelog WHERE seq = head.seq
          UNION ALL VALUES (current.opened_at, true), (told, false)) x (t, own)
    WHERE t < clock_timestamp() + interval '5 minutes'
      AND NOT (own AND (current.system_identifier, current.timeline) = (identity.system_identifier, identity.timeline));
    SELECT greatest(peak, 2 * coalesce(max(m.issued), 0) / 60.0) INTO rate
    FROM (SELECT sum(i.issued) AS issued FROM key_issue i WHERE i.minute > clock_timestamp() - interval '7 days' GROUP BY i.minute) m;
    age := greatest(60, extract(epoch FROM clock_timestamp() - coalesce(known, to_timestamp(0))));
    SELECT least(1000000, key_prefix_size() / 1000, coalesce(max(hi - lo), 10000) * 2 ^ least(20, age / 30)) INTO longest FROM key_lease;
    skipped := least(1e15, ceil(age * rate + burned_leases * longest))::bigint;

    ordinal_ := greatest(head.epoch + 1, seen_epoch + 1, (extract(epoch FROM clock_timestamp()) / 60)::integer);
    INSERT INTO changelog_epoch (ordinal, system_identifier, timeline, first_seq, reason)
    VALUES (ordinal_, identity.system_identifier, identity.timeline, head.seq + 1, why);
    UPDATE changelog_head SET epoch = ordinal_;
    PERFORM changelog_begin();
    UPDATE key_lease SET state = 'burned' WHERE state IN ('held', 'free');
    UPDATE reserved_key SET state = 'burned' WHERE state = 'free';
    IF witness IS NOT NULL THEN
        PERFORM key_remember(witness -> 'ranges');
    END IF;

    IF witness IS NULL OR (witness ->> 'at')::double precision = 0 THEN
        held_back := why || ', and no control plane remembers which keys were issued before';
    ELSIF told >= clock_timestamp() + interval '5 minutes' THEN
        held_back := why || ', and its clock is behind the one before, so that nobody can tell how long ago';
    ELSIF skipped > key_prefix_size() / 10 THEN
        held_back := why || ', and so long ago that a tenth of every prefix or more would have to be skipped';
    END IF;
    IF held_back IS NULL AND (SELECT held = '' FROM key_state) THEN
        PERFORM key_skip(skipped);
    ELSE
        UPDATE key_state SET gap = gap + skipped,
            held = CASE WHEN held = '' THEN held_back ELSE held END,
            held_since = coalesce(held_since, clock_timestamp());
        SELECT held INTO held_back FROM key_state;
    END IF;
    opened := true;
END $$;
-- +goose StatementEnd
