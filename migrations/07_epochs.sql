-- +goose Up
-- +goose StatementBegin

-- Opening an epoch, after PostgreSQL was failed over or restored.

-- Reports whether a position that a process has seen is of another history than the
-- log: another epoch has the ordinal of the present one, or another transaction its
-- sequence. The caller works for the system.
CREATE FUNCTION changelog_forked(seen_epoch integer, seen_id uuid, seen_seq bigint, seen_stamp bigint) RETURNS boolean LANGUAGE sql STABLE
    RETURN EXISTS (
        SELECT FROM changelog_head h JOIN changelog_epoch e ON e.ordinal = h.epoch
        WHERE h.epoch = seen_epoch
          AND (e.id <> seen_id OR EXISTS (SELECT FROM changelog c WHERE c.seq = seen_seq AND c.ord = 0 AND c.stamp <> seen_stamp)));

-- Takes over the ranges of a high-water mark of an earlier history, as
-- [{"prefix","region","lo","hi","next"}]: no counter below a next is issued again.
-- Leases that this history has made below a next are burned, and a prefix that it
-- believes to be unused is given up, because the extent of its use is unknown. The
-- caller holds the head of the changelog.
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

-- Opens a new history under the head lock, unless another process has done so since the
-- caller looked at epoch looked_at. It is due when PostgreSQL's identity differs from the
-- epoch's, or when the caller has seen a commit (seen_epoch, seen_id, seen_seq,
-- seen_stamp) that this database does not know.
--
-- All leases end. Keys may have been issued that this database has forgotten, so every
-- prefix resumes above the caller's high-water mark, {"at": seconds since 1970, "ranges":
-- see key_remember}, plus a gap: the time for which no process was watching, multiplied
-- by the higher of peak and twice the measured peak (keys a second), and room for
-- burned_leases unseen leases. No key is leased until an operator allows it if there is
-- no mark of all ranges ("at" 0: some are missing), if the clock is behind the mark's, or
-- if the gap is more than a tenth of a prefix.
CREATE FUNCTION changelog_open_epoch(
    why text, looked_at integer, seen_epoch integer, seen_id uuid, seen_seq bigint, seen_stamp bigint,
    mark jsonb, peak double precision, burned_leases integer,
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
    SELECT * INTO STRICT head FROM changelog_head FOR UPDATE;
    SELECT * INTO STRICT current FROM changelog_epoch WHERE ordinal = head.epoch;
    SELECT * INTO STRICT identity FROM waypost_history();
    IF head.epoch <> looked_at
       OR (current.system_identifier, current.timeline) = (identity.system_identifier, identity.timeline)
          AND (seen_epoch, seen_seq) <= (head.epoch, head.seq)
          AND NOT changelog_forked(seen_epoch, seen_id, seen_seq, seen_stamp) THEN
        RETURN;
    END IF;

    -- known is the last sign of the forgotten history. A time in the future is from a clock that was
    -- wrong. If the identity is unchanged, the database's own times may be later than the forgotten history.
    told := to_timestamp((mark ->> 'at')::double precision);
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
    IF mark IS NOT NULL THEN
        PERFORM key_remember(mark -> 'ranges');
    END IF;

    IF mark IS NULL OR (mark ->> 'at')::double precision = 0 THEN
        held_back := why || ', and no control plane remembers which keys were issued before';
    ELSIF told >= clock_timestamp() + interval '5 minutes' THEN
        held_back := why || ', and its clock is behind the one before, so the time since then is unknown';
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
    UPDATE key_state SET superseded = 0 WHERE superseded < ordinal_;
    opened := true;
END $$;

-- Adds up all replicated rows: the digest that the head should have.
CREATE FUNCTION changelog_add_up(OUT digest bigint, OUT records bigint) LANGUAGE plpgsql STABLE AS $$
BEGIN
    SELECT coalesce(bit_xor(r.stamp), 0), count(*) INTO STRICT digest, records FROM (
        SELECT stamp FROM link UNION ALL SELECT stamp FROM link_alias UNION ALL SELECT stamp FROM domain UNION ALL SELECT stamp FROM key_range
        UNION ALL SELECT stamp FROM key_lease UNION ALL SELECT stamp FROM visitor_salt) r;
END $$;

-- Opens an epoch with the digest of the rows, because they do not add up to the head's:
-- they were changed past the triggers, or are damaged. Edges then repair the differing
-- slots. Nothing was forgotten, so no counters are skipped, but leases end with their
-- epoch. It returns false, and changes nothing, if the digest is right.
CREATE FUNCTION changelog_recompute(OUT opened boolean, OUT was bigint, OUT digest bigint) LANGUAGE plpgsql AS $$
DECLARE
    head     changelog_head;
    identity record;
    ordinal_ integer;
BEGIN
    SELECT * INTO STRICT head FROM changelog_head FOR UPDATE;
    SELECT * INTO STRICT identity FROM waypost_history();
    SELECT a.digest INTO STRICT digest FROM changelog_add_up() a; -- newer than every commit
    was := head.digest;
    opened := digest <> was;
    IF NOT opened THEN
        RETURN;
    END IF;
    ordinal_ := greatest(head.epoch + 1, (extract(epoch FROM clock_timestamp()) / 60)::integer);
    INSERT INTO changelog_epoch (ordinal, system_identifier, timeline, first_seq, reason)
    VALUES (ordinal_, identity.system_identifier, identity.timeline, head.seq + 1, 'the digest was recomputed from the rows');
    UPDATE changelog_head t SET epoch = ordinal_, digest = changelog_recompute.digest;
    PERFORM changelog_begin();
    UPDATE key_lease SET state = 'burned' WHERE state IN ('held', 'free');
    UPDATE reserved_key SET state = 'burned' WHERE state = 'free';
END $$;

-- Notes that an edge has seen an epoch which is newer than this database's, or another
-- one with the same ordinal: another primary was promoted, or this one is a copy from
-- before. Only an operator can decide which, so no key is issued until then. It returns
-- false when the newer epoch was known.
CREATE FUNCTION changelog_supersede(newer integer, newer_id uuid, why text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM changelog_head h JOIN changelog_epoch e ON e.ordinal = h.epoch
    WHERE h.epoch < newer OR h.epoch = newer AND e.id <> newer_id FOR UPDATE OF h;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE key_state SET superseded = newer, held = why, held_since = coalesce(held_since, clock_timestamp()) WHERE superseded < newer;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE key_lease SET state = 'burned' WHERE state IN ('held', 'free');
    RETURN true;
END $$;

-- Leaves a gap in the ids at a new epoch, as for keys. A restored database must not use
-- an id of a lost row for another one, because edges and caches may still know the lost
-- row.
CREATE FUNCTION epoch_skip_ids() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    PERFORM setval('domain_id_seq', nextval('domain_id_seq') + 10000),
            setval('workspace_id_seq', nextval('workspace_id_seq') + 1000000),
            setval('link_id_seq', nextval('link_id_seq') + 1000000000);
    RETURN NULL;
END $$;

CREATE TRIGGER epoch_skip_ids AFTER INSERT ON changelog_epoch FOR EACH STATEMENT EXECUTE FUNCTION epoch_skip_ids();

-- +goose StatementEnd
