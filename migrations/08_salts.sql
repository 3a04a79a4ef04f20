-- +goose Up
-- +goose StatementBegin

-- The salts of days, by which visitors are told apart without keeping their addresses.

-- Makes a salt here, so that no salt is ever a parameter that PostgreSQL may log. Three
-- random UUIDs hold 366 bits.
CREATE FUNCTION salt_new() RETURNS bytea LANGUAGE sql VOLATILE
    RETURN sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));

-- The cluster's secret of each day, UTC, by which edges seal the addresses of that day's
-- visitors and distinguish visitors. It is made ahead, and destroyed some time after the
-- day has ended. A row without a salt stands for a day with a salt that was destroyed
-- early; the day never gets another.
CREATE TABLE visitor_salt (
    day       date     PRIMARY KEY CHECK (day >= '2000-01-01' AND day < '10000-01-01'),
    salt      bytea    DEFAULT salt_new() CHECK (octet_length(salt) = 32),
    slot      smallint NOT NULL,
    rev_epoch integer  NOT NULL,
    rev_seq   bigint   NOT NULL,
    stamp     bigint   NOT NULL
);
ALTER TABLE visitor_salt ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY system ON visitor_salt USING (waypost_system());

-- Returns the name of a salt's record, which does not depend on the session's
-- DateStyle.
CREATE FUNCTION salt_name(day date) RETURNS text LANGUAGE sql IMMUTABLE
    RETURN lpad(extract(year FROM day)::integer::text, 4, '0') || '-' || lpad(extract(month FROM day)::integer::text, 2, '0')
        || '-' || lpad(extract(day FROM day)::integer::text, 2, '0');

CREATE FUNCTION salt_payload(salt bytea) RETURNS text LANGUAGE sql IMMUTABLE
    RETURN coalesce(encode(salt, 'hex'), '');

CREATE FUNCTION changelog_stamp_salt() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND NEW.day <> OLD.day THEN
        RAISE EXCEPTION 'the day of a salt cannot change';
    END IF;
    IF TG_OP = 'UPDATE' AND NEW.salt IS NOT NULL AND NEW.salt IS DISTINCT FROM OLD.salt THEN
        RAISE EXCEPTION 'the salt of a day cannot change, only be destroyed';
    END IF;
    NEW.slot := waypost_slot(5, 0, salt_name(NEW.day));
    NEW.rev_epoch := current_setting('waypost.epoch')::integer;
    NEW.rev_seq := current_setting('waypost.seq')::bigint;
    NEW.stamp := waypost_stamp();
    RETURN NEW;
END $$;

-- Destroying a salt, even by hand, also empties its entries in the changelog. Digests
-- are made of stamps, so they do not change.
CREATE FUNCTION changelog_after_salt() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    h      changelog_head;
    change bigint := 0;
    n      integer;
BEGIN
    SELECT * INTO STRICT h FROM changelog_head WHERE singleton;
    IF TG_OP = 'DELETE' THEN
        INSERT INTO changelog (seq, ord, epoch, kind, stamp, domain_id, name, state)
        SELECT h.seq, h.ord - 1 + row_number() OVER (), h.epoch, 5, o.stamp, 0, salt_name(o.day), 3
        FROM old_rows o;
    ELSE
        INSERT INTO changelog (seq, ord, epoch, kind, stamp, domain_id, name, state, payload)
        SELECT h.seq, h.ord - 1 + row_number() OVER (), h.epoch, 5, r.stamp, 0, salt_name(r.day), 0, salt_payload(r.salt)
        FROM new_rows r;
    END IF;
    GET DIAGNOSTICS n = ROW_COUNT;
    IF TG_OP <> 'INSERT' THEN
        change := change # (SELECT coalesce(bit_xor(o.stamp), 0) FROM old_rows o);
    END IF;
    IF TG_OP <> 'DELETE' THEN
        change := change # (SELECT coalesce(bit_xor(r.stamp), 0) FROM new_rows r);
    END IF;
    PERFORM changelog_mark(n, change);
    IF TG_OP = 'UPDATE' THEN
        UPDATE changelog SET payload = '' WHERE kind = 5 AND payload <> ''
            AND name IN (SELECT salt_name(r.day) FROM new_rows r WHERE r.salt IS NULL);
    ELSIF TG_OP = 'DELETE' THEN
        UPDATE changelog SET payload = '' WHERE kind = 5 AND payload <> ''
            AND name IN (SELECT salt_name(o.day) FROM old_rows o);
    END IF;
    RETURN NULL;
END $$;

SELECT changelog_replicate('visitor_salt', 'changelog_stamp_salt', 'changelog_after_salt', 5);

-- +goose StatementEnd
