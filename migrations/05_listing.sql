-- +goose Up
-- +goose StatementBegin

-- How links are listed and searched.

-- Returns the letters of scripts that have no spaces between words, as the inside of brackets in
-- a regular expression: Thai, Lao, Burmese, Khmer, the Tai scripts, Balinese, Javanese, Chinese,
-- Japanese and Yi; and of Korean, whose words have many endings.
CREATE FUNCTION link_spaceless() RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN U&'\0E01-\0E3A\0E40-\0E4E\0E81-\0ECE\0EDC-\0EDF\1000-\103F\1050-\109F\1780-\17D3\1950-\1974\1980-\19C9\1A20-\1A7C\1B00-\1B4C'
        || U&'\2E80-\2FDF\3005-\3007\3021-\3029\3041-\3096\309D-\309F\30A1-\30FA\30FC-\30FF\3105-\312F\31A0-\31BF\31F0-\31FF\3400-\4DBF'
        || U&'\4E00-\9FFF\A000-\A48C\A980-\A9C0\A9E0-\A9FE\AA60-\AADD\AC00-\D7A3\F900-\FAFF\FF66-\FF9F\+01B000-\+01B16F\+020000-\+03FFFF';

-- Returns text with all pairs of neighbouring letters in the place of each run of such letters, so
-- that a search finds any part of the run: 京都旅行 becomes 京都 都旅 旅行.
CREATE FUNCTION link_paired(words text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN octet_length(words) = length(words) OR words !~ ('[' || link_spaceless() || ']') THEN words ELSE regexp_replace(
        regexp_replace(words, '(?<=[' || link_spaceless() || '])([' || link_spaceless() || '])(?=[' || link_spaceless() || '])', '\1 \1', 'g'),
        '(?<=[' || link_spaceless() || '])(?=[^' || link_spaceless() || '])|(?<=[^' || link_spaceless() || '])(?=[' || link_spaceless() || '])', ' ', 'g') END;

-- Returns the question of a search, in NFKC, with its runs of such letters as phrases of pairs.
CREATE FUNCTION link_phrases(words text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (SELECT coalesce(string_agg(link_paired(CASE WHEN p.n % 2 = 0 THEN p.part ELSE -- every second part is in quotes
            regexp_replace(regexp_replace(p.part, '([' || link_spaceless() || ']{2,})', ' "\1" ', 'g'), '(^|\s)- "', '\1-"', 'g') END), '"' ORDER BY p.n), '')
        FROM string_to_table(normalize(words, NFKC), '"') WITH ORDINALITY p (part, n));

-- Returns the lexemes by which a link is found: the words of its title, description and
-- notes, its tags, and its workspace, so that a search reads no other workspace's links. Tags
-- and workspace begin with a character that no word has. Texts are stored as they were typed
-- and found in NFKC, in which ﾎﾃﾙ is ホテル; tags are in NFC.
CREATE FUNCTION link_words(workspace bigint, title text, description text, notes text, tags text[]) RETURNS tsvector LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE COST 400 AS $$
DECLARE
    own    text := E'\x01' || workspace;
    lexeme text := own || E'\x01';
    words  text := title || ' ' || description || ' ' || notes;
BEGIN
    IF octet_length(words) <> length(words) THEN
        words := public.link_paired(normalize(words, NFKC));
    END IF;
    IF tags = '{}' THEN
        RETURN to_tsvector('pg_catalog.simple', words) || array_to_tsvector(ARRAY[own]);
    END IF;
    RETURN to_tsvector('pg_catalog.simple', words)
        || array_to_tsvector(string_to_array(own || E'\x02' || lexeme || array_to_string(tags, E'\x02' || lexeme), E'\x02'));
END $$;

-- New entries gather in a short list, which is quick to read.
CREATE INDEX link_words ON link USING gin (link_words(workspace_id, title, description, notes, tags))
    WITH (gin_pending_list_limit = 1024)
    WHERE deleted_at IS NULL AND (title <> '' OR description <> '' OR notes <> '' OR tags <> '{}');

-- Returns the query on link_words for text as people type it into a search, and all of
-- the tags. NULL: the text has nothing to search for.
CREATE FUNCTION link_question(workspace bigint, words text, tags text[]) RETURNS tsquery LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    question tsquery := websearch_to_tsquery('pg_catalog.simple', link_phrases(words));
    lexeme   text;
BEGIN
    IF coalesce(words, '') <> '' AND numnode(question) = 0 THEN
        RETURN NULL;
    END IF;
    FOREACH lexeme IN ARRAY tsvector_to_array(link_words(workspace, '', '', '', coalesce(tags, '{}'))) LOOP
        question := question && ('''' || replace(replace(lexeme, '\', '\\'), '''', '''''') || '''')::tsquery;
    END LOOP;
    RETURN question;
END $$;

-- The beginnings of URLs, after "https:/" or "http://". Longer ones, or the host alone,
-- would cost creates more.
CREATE INDEX link_address ON link (workspace_id, lower(substr(original_url, 8, 49) COLLATE "C")) WHERE deleted_at IS NULL;

-- Returns the query on link_words for text that is being typed. A word or a tag begins
-- with each of its words of three characters or more, and is each shorter one; or a tag
-- begins with all of the text. A run of letters without spaces has each pair of them, or
-- begins with a single one. Beginnings that are named as common are not asked for:
-- an index would read all that begins with them. NULL: no other is left.
CREATE FUNCTION link_hint(workspace bigint, typed text, common text[] DEFAULT '{}') RETURNS tsquery LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    own     text := E'\x01' || workspace;
    whole   text := replace(replace(typed, '\', '\\'), '''', '''''');
    hint    tsquery;
    either  tsquery;
    part    tsquery;
    word    text;
    piece   text; -- of a word
    quoted  text;
    ending  text;
    lexemes text[];
BEGIN
    FOREACH word IN ARRAY regexp_split_to_array(btrim(typed), '\s+') LOOP
        either := NULL;
        FOREACH piece IN ARRAY regexp_split_to_array(btrim(link_paired(normalize(word, NFKC))), '\s+') LOOP
            quoted := replace(replace(piece, '\', '\\'), '''', '''''');
            ending := '''' || CASE WHEN length(piece) >= 3 OR piece ~ ('^[' || link_spaceless() || ']$') THEN ':*' ELSE '' END;
            part := to_tsquery('pg_catalog.simple', '''' || quoted || ending);
            lexemes := tsvector_to_array(to_tsvector('pg_catalog.simple', piece));
            IF lexemes && common THEN
                lexemes := ARRAY(SELECT l FROM unnest(lexemes) l WHERE l <> ALL (common));
                CONTINUE WHEN lexemes = '{}';
                part := array_to_string(ARRAY(SELECT '''' || replace(replace(l, '\', '\\'), '''', '''''') || ending FROM unnest(lexemes) l), ' & ')::tsquery;
            END IF;
            either := coalesce(either && part, part);
        END LOOP;
        CONTINUE WHEN either IS NULL;
        quoted := replace(replace(word, '\', '\\'), '''', '''''');
        ending := '''' || CASE WHEN length(word) >= 3 THEN ':*' ELSE '' END;
        either := either || ('''' || own || E'\x01' || quoted || ending)::tsquery;
        hint := coalesce(hint && either, either);
    END LOOP;
    RETURN ('''' || own || '''')::tsquery && (hint || ('''' || own || E'\x01' || whole || ''':*')::tsquery);
END $$;

-- Returns the lexemes that a link needs to answer a question; none if it leaves a choice.
CREATE FUNCTION link_lexemes(question tsquery) RETURNS text[] LANGUAGE sql IMMUTABLE
    RETURN (SELECT coalesce(array_agg(m[1]), '{}') FROM regexp_matches(question::text, '''([^'']+)''', 'g') m WHERE question::text !~ '[|!]');

-- Returns the lexemes that a link's words and tags need to begin with, in lower case.
CREATE FUNCTION link_beginnings(typed text) RETURNS text[] LANGUAGE sql IMMUTABLE
    RETURN (SELECT coalesce(array_agg(l.lexeme), '{}') FROM regexp_split_to_table(typed, '\s+') w (word)
        CROSS JOIN LATERAL unnest(tsvector_to_array(to_tsvector('pg_catalog.simple', link_paired(normalize(w.word, NFKC))))) l (lexeme));

-- Returns a text in NFKC, and in the same lower case in all languages. Words of a text search follow
-- the locale of the system, and lower() follows the locale of the database.
CREATE FUNCTION link_folded(words text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN lower(translate(normalize(words, NFKC), 'IİıΣς', 'iiiσσ'));

-- Returns patterns of LIKE that fit a folded text if it has the lexemes. They cost a tenth
-- of link_words, and let pass a few texts more.
CREATE FUNCTION link_patterns(lexemes text[]) RETURNS text[] LANGUAGE sql IMMUTABLE
    RETURN (SELECT coalesce(array_agg('%' || regexp_replace(link_folded(l), '([%_])', '\\\1', 'g') || '%'), '{}') FROM unnest(lexemes) l
        WHERE l !~ E'[\\\\\x01]');

-- Returns which share of all links that have words has each lexeme, or one that begins
-- with it, as ANALYZE has found in a sample. 0: fewer than one of some thousands. PostgreSQL
-- itself does not use these statistics for a role that is bound by policies.
CREATE FUNCTION link_shares(lexemes text[], beginning boolean) RETURNS double precision[] LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, public, pg_temp AS $$
    WITH often AS MATERIALIZED (
        SELECT u.lexeme, u.share FROM pg_stats s
        CROSS JOIN LATERAL unnest(s.most_common_elems::text::text[], s.most_common_elem_freqs) u (lexeme, share)
        WHERE (s.schemaname, s.tablename) = (SELECT c.relnamespace::regnamespace::text, c.relname FROM pg_class c WHERE c.oid = to_regclass('link_words'))
    )
    SELECT array_agg((SELECT least(coalesce(sum(o.share), 0), 1) FROM often o
                      WHERE CASE WHEN beginning THEN lower(regexp_replace(o.lexeme, '^\x01\d+\x01', '')) ^@ l ELSE o.lexeme = l END) ORDER BY n)
    FROM unnest(lexemes) WITH ORDINALITY q (l, n)
$$;
REVOKE EXECUTE ON FUNCTION link_shares FROM PUBLIC; -- a tenant would learn of others' words
GRANT EXECUTE ON FUNCTION link_shares TO waypost_search;

-- Which of its filters and places a list has, and the order.
CREATE TYPE link_list_shape AS (
    stage     text,    -- all, clicked or never
    ascending boolean,
    words     boolean,
    typed     boolean, -- text whose beginning is looked for
    domain    integer,
    active    boolean,
    expired   boolean,
    expiring  boolean, -- before a moment
    since     boolean, -- created then or later
    until     boolean,
    place     boolean  -- to go on from
);

-- Returns the query of a list. Its parameters: $1 workspace, $2 question, $3 domain, $4
-- the present, $5 and $6 bounds of created_at, $7 created_at, $8 clicks and $9 id of
-- the row to go on from, $10 how many rows at most, $11 how many rows to look at, $12 the
-- only ids; for typed text, $13 its hint and the beginnings of $14 codes and $15 URLs;
-- $16 a bound of expires_at; patterns $17 of words and $18 of typed text. It yields (n,
-- id, clicks, found).
--
-- Conditions with an index narrow the walk; the others are checked row by row, on $11
-- rows at most. If that limit ends the walk, its last row follows the others, as not
-- found, as a row to go on from. Words and expiry are looked up in their indexes,
-- without that limit, unless the caller asks for a quick walk.
--
-- The only ids are of a list that was chosen; the ending is that last row alone.
CREATE FUNCTION link_list_query(list link_list_shape, quick boolean, chosen boolean, ending boolean) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    bounded boolean := quick OR NOT list.words AND NOT list.expiring AND list.expired IS DISTINCT FROM true;
    walk    text := 'l.workspace_id = $1 AND l.deleted_at IS NULL'; -- on an index
    judged  text := 'true';                                        -- row by row
    way     text := CASE WHEN list.ascending THEN 'ASC' ELSE 'DESC' END;
    beyond  text := CASE WHEN list.ascending THEN '>' ELSE '<' END;
    wanted  text;
    newest  text;
    outcome text;
    -- OFFSET 0 keeps the planner from reading all links in order until it has met some of these.
    links   text := CASE WHEN chosen THEN '(SELECT * FROM link WHERE id = ANY ($12) OFFSET 0)' ELSE 'link' END;
    counts  text := CASE WHEN chosen THEN '(SELECT * FROM link_click WHERE link_id = ANY ($12) OFFSET 0)' ELSE 'link_click' END;
BEGIN
    IF list.stage <> 'clicked' AND list.place THEN
        walk := walk || format(' AND (l.created_at, l.id) %s ($7, $9)', beyond);
    END IF;
    IF list.since THEN
        walk := walk || ' AND l.created_at >= $5';
    END IF;
    IF list.until THEN
        walk := walk || ' AND l.created_at < $6';
    END IF;
    IF list.words THEN
        wanted := ' AND (l.title <> '''' OR l.description <> '''' OR l.notes <> '''' OR l.tags <> ''{}'') AND link_words(l.workspace_id, l.title, l.description, l.notes, l.tags) @@ $2';
        IF quick THEN
            judged := judged || ' AND link_folded(l.title || '' '' || l.description || '' '' || l.notes) LIKE ALL ($17)' || wanted;
        ELSE
            walk := walk || wanted;
        END IF;
    END IF;
    IF list.expiring AND quick THEN
        judged := judged || ' AND l.expires_at < $16';
    ELSIF list.expiring THEN
        walk := walk || ' AND l.expires_at < $16';
    END IF;
    IF list.typed AND NOT chosen THEN
        judged := judged || ' AND ((l.title <> '''' OR l.description <> '''' OR l.notes <> '''' OR l.tags <> ''{}'')'
            || ' AND link_folded(l.title || '' '' || l.description || '' '' || l.notes || '' '' || array_to_string(l.tags, '' '')) LIKE ALL ($18) AND link_words(l.workspace_id, l.title, l.description, l.notes, l.tags) @@ $13'
            || ' OR l.code ^@ $14 OR l.code ^@ lower($14) AND EXISTS (SELECT FROM domain d WHERE d.id = l.domain_id AND d.ignores_case) OR cardinality($15) > 0 AND lower(left(l.original_url, 300) COLLATE "C") ^@ ANY ($15))';
    END IF;
    IF list.domain <> 1 THEN
        walk := walk || ' AND l.domain_id = $3 AND l.domain_id <> 1';
    ELSIF list.domain = 1 THEN
        judged := judged || ' AND l.domain_id = 1';
    END IF;
    IF NOT list.active AND coalesce(list.domain, 1) = 1 THEN
        walk := walk || ' AND NOT l.active';
    ELSIF NOT list.active THEN
        judged := judged || ' AND NOT l.active';
    ELSIF list.active THEN
        judged := judged || ' AND l.active';
    END IF;
    IF list.expired AND quick THEN
        judged := judged || ' AND l.expires_at <= $4';
    ELSIF list.expired THEN
        walk := walk || ' AND l.expires_at <= $4';
    ELSIF NOT list.expired THEN
        judged := judged || ' AND (l.expires_at IS NULL OR l.expires_at > $4)';
    END IF;

    IF list.stage = 'clicked' THEN
        newest := 'c.workspace_id = $1' || CASE WHEN list.place THEN format(' AND (c.clicks, c.link_id) %s ($8, $9)', beyond) ELSE '' END;
        IF NOT bounded THEN
            RETURN format('SELECT row_number() OVER (), s.id, s.clicks, true FROM (SELECT l.id, c.clicks FROM link l JOIN link_click c ON c.link_id = l.id'
                || ' WHERE %s AND %s AND %s ORDER BY c.clicks %s, c.link_id %4$s LIMIT $10) s', newest, walk, judged, way);
        END IF;
        outcome := format('SELECT c.link_id AS id, c.clicks FROM %s c WHERE %s ORDER BY c.clicks %s, c.link_id %3$s', counts, newest, way);
        IF ending THEN
            RETURN 'SELECT $10::bigint + 1, s.id, s.clicks, false FROM (' || outcome || ' OFFSET $11 - 1 LIMIT 1) s';
        END IF;
        -- OFFSET 0 keeps the planner from any other order than that of the walk.
        RETURN format('SELECT row_number() OVER (), s.id, s.clicks, true FROM (SELECT w.id, w.clicks FROM (%s LIMIT $11) w'
            || ' CROSS JOIN LATERAL (SELECT FROM link l WHERE l.id = w.id AND %s AND %s OFFSET 0) j LIMIT $10) s', outcome, walk, judged);
    END IF;

    IF list.stage = 'never' THEN
        -- A scalar subquery is looked up row by row.
        judged := judged || ' AND (SELECT c.clicks FROM link_click c WHERE c.link_id = l.id) IS NULL';
    END IF;
    IF NOT bounded THEN
        RETURN format('SELECT row_number() OVER (), s.id, 0::bigint, true FROM (SELECT l.id FROM link l WHERE %s AND %s'
            || ' ORDER BY l.created_at %s, l.id %3$s LIMIT $10) s', walk, judged, way);
    END IF;
    outcome := format('SELECT l.* FROM %s l WHERE %s ORDER BY l.created_at %s, l.id %3$s', links, walk, way);
    IF ending THEN
        RETURN 'SELECT $10::bigint + 1, s.id, 0::bigint, false FROM (' || outcome || ' OFFSET $11 - 1 LIMIT 1) s';
    END IF;
    RETURN format('SELECT row_number() OVER (), s.id, 0::bigint, true FROM (SELECT l.id FROM (%s LIMIT $11) l WHERE %s LIMIT $10) s', outcome, judged);
END $$;

-- Lists links past row-level security, for one workspace, which must be one of the
-- transaction's. It returns ids only; the caller reads the links under its own
-- policies. A page is found in one of three ways:
--
--   typed text       Its index finds each reading of the text: words, a code, a URL. If
--                    fewer than 2,000 links have it, only those are looked at.
--   words or expiry  The first links are looked at; if these do not fill the page, the
--                    index finds all that answer.
--   neither          The links are walked in the order of the list.
--
-- A term that is too common for an index is looked for on a walk as well. A walk looks at
-- as many links as the budget says, half as many again for words, and a third fewer for
-- typed text.
--
-- waypost_search owns it, because that role's policies let every row pass. With other
-- policies PostgreSQL keeps @@ away from the index, since an operator might leak rows
-- of other tenants. No session logs in as waypost_search.
CREATE FUNCTION link_list(workspace bigint, stage text, ascending boolean, words text, tags text[], domain integer, active boolean, expired boolean,
                          moment timestamptz, since timestamptz, until timestamptz,
                          at_created timestamptz, at_clicks bigint, at_id bigint, most integer, budget integer, typed text DEFAULT '', expiring timestamptz DEFAULT NULL)
    RETURNS TABLE (n bigint, id bigint, clicks bigint, found boolean)
    LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 50 SET search_path = pg_catalog, public, pg_temp
    SET enable_hashjoin = off SET enable_mergejoin = off -- nested loops end early
    SET jit = off SET max_parallel_workers_per_gather = 0 -- a list is short work for one processor
    SET work_mem = '64MB' -- with less, a search for words remembers pages only, and reads every link on them
    -- Every list has its index. PostgreSQL does not know that links are stored in the order of their
    -- creation, and overestimates the cost of a walk over some weeks.
    SET enable_seqscan = off AS $$
DECLARE
    question  tsquery;
    list      CONSTANT link_list_shape := ROW(stage, ascending, coalesce(words, '') <> '' OR tags <> '{}', typed <> '', domain, active, expired,
                                              expiring IS NOT NULL, since IS NOT NULL, until IS NOT NULL, at_id IS NOT NULL);
    hint      tsquery;
    lexemes   text[];
    density   double precision := 1; -- the share of the workspace's links that answer the question
    worded    double precision := (SELECT greatest(c.reltuples, 0) FROM pg_class c WHERE c.oid = to_regclass('link_words'));
    answers   double precision := worded; -- links that answer the question, were all words independent
    share     double precision;
    looks     integer := 2000;
    many      boolean := false;
    few       CONSTANT integer := 2000; -- links that are looked up one by one
    common    text[]; -- of what is typed
    patterns  text[]; -- of words
    likely    text[]; -- patterns of typed text
    beginning text;   -- of a code
    urls      text[];
    near      bigint[]; -- links whose URLs begin as far as the index has them
    chosen    bigint[];
    quick     boolean := false;
    got       bigint := 0;
    ids       bigint[];
    counts    bigint[];
BEGIN
    IF NOT coalesce(workspace = ANY (waypost_workspaces()), false) THEN
        RAISE EXCEPTION 'this transaction may not look at workspace %', workspace USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF list.words THEN
        question := link_question(workspace, words, tags);
        IF question IS NULL THEN
            RETURN;
        END IF;
        lexemes := link_lexemes(question);
        patterns := link_patterns(lexemes);
        FOREACH share IN ARRAY coalesce(link_shares(lexemes, false), '{}') LOOP
            answers := answers * share;
        END LOOP;
        FOREACH share IN ARRAY coalesce(link_shares(array_remove(lexemes, E'\x01' || workspace), false), '{}') LOOP
            density := density * share;
        END LOOP;
        budget := budget + budget / 2; -- words are quicker to look for than what is typed
        looks := CASE WHEN lexemes = '{}' THEN looks WHEN density * budget < most THEN 0 ELSE budget END;
        many := lexemes <> '{}' AND answers > 300000; -- a second, when PostgreSQL has them in memory
    END IF;
    -- The index of words finds all links that have them, which may be millions. If the first links have
    -- enough of them, or if there are too many for the index, one link is looked at after the other.
    IF (list.words OR list.expiring) AND NOT list.typed AND looks > 0 THEN
        EXECUTE 'SELECT count(*), array_agg(q.id ORDER BY q.n), array_agg(q.clicks ORDER BY q.n) FROM ('
            || link_list_query(list, quick => true, chosen => false, ending => false) || ') q (n, id, clicks, found)'
            INTO got, ids, counts USING workspace, question, domain, moment, since, until, at_created, at_clicks, at_id, most, looks, chosen, hint, beginning, urls, expiring, patterns, likely;
        IF got >= most THEN
            RETURN QUERY SELECT q.n, q.id, q.clicks, true FROM unnest(ids, counts) WITH ORDINALITY q (id, clicks, n);
            RETURN;
        END IF;
        quick := many;
    END IF;
    IF list.typed THEN
        budget := budget - budget / 3;
        hint := link_hint(workspace, typed);
        lexemes := link_beginnings(typed);
        likely := link_patterns(lexemes);
        beginning := substring(typed FROM '^[A-Za-z0-9_-]{3,32}$');
        urls := ARRAY(SELECT scheme || regexp_replace(lower(typed COLLATE "C"), '^(https?:/*)?(www\.)?', '')
                      FROM unnest('{https://,https://www.,http://,http://www.}'::text[]) scheme);
        -- Each part reads one index. If one of them finds too much, the links are walked as for other filters.
        SELECT coalesce(array_agg(n.id) FILTER (WHERE lower(left(n.original_url, 300) COLLATE "C") ^@ ANY (urls)), '{}'), count(*) INTO near, got
            FROM (SELECT l.* FROM unnest(urls) u (url) CROSS JOIN LATERAL (
                SELECT k.id, k.original_url FROM link k WHERE k.workspace_id = workspace AND k.deleted_at IS NULL
                AND lower(substr(k.original_url, 8, 49) COLLATE "C") >= substr(u.url, 8, 49)
                AND lower(substr(k.original_url, 8, 49) COLLATE "C") < substr(u.url, 8, 49) || chr(1114111) LIMIT few) l LIMIT few) n;
        IF got = 0 THEN
            urls := '{}';
        END IF;
        common := ARRAY(SELECT l.lexeme FROM unnest(lexemes, link_shares(lexemes, true)) l (lexeme, share) WHERE l.share * worded > budget);
        IF got < few AND (common = '{}' OR NOT lexemes <@ common) THEN
            chosen := near || ARRAY(
                (SELECT l.id FROM (SELECT k.* FROM link k WHERE k.workspace_id = workspace AND k.deleted_at IS NULL AND (k.title <> '' OR k.description <> '' OR k.notes <> '' OR k.tags <> '{}')
                    AND link_words(k.workspace_id, k.title, k.description, k.notes, k.tags) @@ link_hint(workspace, typed, common) LIMIT few) l
                 WHERE common = '{}' OR link_words(l.workspace_id, l.title, l.description, l.notes, l.tags) @@ hint)
                UNION ALL (SELECT l.id FROM domain d
                    CROSS JOIN LATERAL (SELECT CASE WHEN d.ignores_case THEN lower(beginning) ELSE beginning END AS first) b
                    CROSS JOIN LATERAL (SELECT k.id, k.workspace_id, k.deleted_at FROM link k
                        WHERE k.domain_id = d.id AND k.code >= b.first AND k.code < b.first || chr(1114111)) l
                    WHERE (d.workspace_id IS NULL OR d.workspace_id = workspace) AND l.workspace_id = workspace AND l.deleted_at IS NULL LIMIT few));
            IF cardinality(chosen) >= few THEN
                chosen := NULL;
            END IF;
        END IF;
        quick := true;
    END IF;
    RETURN QUERY EXECUTE link_list_query(list, quick, chosen IS NOT NULL, ending => false)
        USING workspace, question, domain, moment, since, until, at_created, at_clicks, at_id, most, budget, chosen, hint, beginning, urls, expiring, patterns, likely;
    GET DIAGNOSTICS got = ROW_COUNT;
    IF got < most AND chosen IS NULL AND (quick OR NOT list.words AND NOT list.expiring AND expired IS DISTINCT FROM true) THEN
        RETURN QUERY EXECUTE link_list_query(list, quick, chosen => false, ending => true)
            USING workspace, question, domain, moment, since, until, at_created, at_clicks, at_id, most, budget;
    END IF;
END $$;

-- Returns the live links of a group of a workspace, which must be one of the
-- transaction's: the links that have all of some tags, under a domain, and of a creator.
-- No tags, and NULL, leave the choice open. It returns NULL alone if the group surely or
-- probably has more links than most, and looks at five times as many links as most; a
-- most of NULL returns any number. Row-level security keeps tenants from the index of
-- tags, as it does in link_list.
CREATE FUNCTION link_group(workspace bigint, tags text[], domain integer, creator text, most bigint) RETURNS TABLE (id bigint)
    LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 10000 SET search_path = pg_catalog, public, pg_temp
    SET plan_cache_mode = force_custom_plan SET jit = off SET max_parallel_workers_per_gather = 0
    SET enable_bitmapscan = on SET enable_seqscan = off SET work_mem = '64MB' AS $$
DECLARE
    looked bigint;
    ids    bigint[];
BEGIN
    IF NOT coalesce(workspace = ANY (waypost_workspaces()), false) THEN
        RAISE EXCEPTION 'this transaction may not look at workspace %', workspace USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF tags <> '{}' THEN
        IF (SELECT min(coalesce(t.links, 0)) FROM unnest(tags) u (tag) LEFT JOIN link_tag t ON t.workspace_id = workspace AND t.tag = u.tag) > most THEN
            RETURN QUERY SELECT NULL::bigint;
            RETURN;
        END IF;
        RETURN QUERY SELECT l.id FROM link l
            WHERE l.deleted_at IS NULL AND (l.title <> '' OR l.description <> '' OR l.notes <> '' OR l.tags <> '{}')
              AND link_words(l.workspace_id, l.title, l.description, l.notes, l.tags) @@ link_question(workspace, '', link_group.tags)
              AND l.workspace_id = workspace AND (domain IS NULL OR l.domain_id = domain) AND (creator IS NULL OR l.created_by = creator);
        RETURN;
    END IF;
    IF most IS NULL THEN
        RETURN QUERY SELECT l.id FROM link l WHERE l.workspace_id = workspace AND l.deleted_at IS NULL
            AND (domain IS NULL OR l.domain_id = domain) AND (creator IS NULL OR l.created_by = creator);
        RETURN;
    END IF;
    -- The walk of a domain of the workspace's own has an index that leaves out the shared domain.
    SELECT count(*), array_agg(w.id) FILTER (WHERE (domain IS NULL OR w.domain_id = domain) AND (creator IS NULL OR w.created_by = creator)) INTO looked, ids
        FROM (SELECT l.id, l.domain_id, l.created_by FROM link l WHERE l.workspace_id = workspace AND l.deleted_at IS NULL
              AND (coalesce(domain, 1) = 1 OR l.domain_id = domain AND l.domain_id <> 1) LIMIT 5 * most + 1) w;
    IF looked > 5 * most OR cardinality(ids) > most THEN
        RETURN QUERY SELECT NULL::bigint;
        RETURN;
    END IF;
    RETURN QUERY SELECT unnest(ids);
END $$;

-- Makes waypost_search the owner of the functions that search, and check and count, for
-- all tenants.
DO $$
BEGIN
    EXECUTE format('GRANT USAGE, CREATE ON SCHEMA %I TO waypost_search', current_schema());
    BEGIN
        EXECUTE format('GRANT waypost_search TO %I', current_user);
    EXCEPTION
        WHEN insufficient_privilege THEN NULL; -- it was granted before, see access/roles.sql
    END;
    ALTER FUNCTION link_check_owners OWNER TO waypost_search;
    ALTER FUNCTION link_keep_owner OWNER TO waypost_search;
    ALTER FUNCTION link_tag_change OWNER TO waypost_search;
    ALTER FUNCTION link_count_tags OWNER TO waypost_search;
    ALTER FUNCTION link_after_new OWNER TO waypost_search;
    ALTER FUNCTION link_alias_place OWNER TO waypost_search;
    ALTER FUNCTION link_list OWNER TO waypost_search;
    ALTER FUNCTION link_group OWNER TO waypost_search;
    EXECUTE format('REVOKE CREATE ON SCHEMA %I FROM waypost_search', current_schema());
    BEGIN
        -- A role's policies apply to its members too: it should have none.
        EXECUTE format('REVOKE waypost_search FROM %I', current_user);
    EXCEPTION
        WHEN insufficient_privilege THEN NULL;
    END;
END $$;

-- +goose StatementEnd
