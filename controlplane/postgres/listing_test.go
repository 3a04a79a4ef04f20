package postgres_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/postgres"
	"waypost/test/devtest"
)

// all reads a list page by page to its end.
func all(
	t *testing.T, db *postgres.DB, ws waypost.WorkspaceID, f controlplane.LinkFilter, o controlplane.Order, limit int,
) (codes []waypost.Code) {
	t.Helper()
	stages := []controlplane.ListStage{controlplane.StageAll}
	switch o {
	case controlplane.MostClicked:
		stages = []controlplane.ListStage{controlplane.StageClicked, controlplane.StageNever}
	case controlplane.LeastClicked:
		stages = []controlplane.ListStage{controlplane.StageNever, controlplane.StageClicked}
	}
	for _, stage := range stages {
		for next := (&controlplane.ListPlace{Stage: stage}); next != nil; {
			page, err := db.ListLinks(t.Context(), ws, f, present, o, *next, limit)
			require.NoError(t, err)
			require.LessOrEqual(t, len(page.Links), limit)
			for _, l := range page.Links {
				codes = append(codes, l.Code)
			}
			next = page.Next
		}
	}
	return codes
}

var present = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// listed is a link of the model, and how often it was followed.
type listed struct {
	waypost.Link
	id     int
	clicks int64
}

func (l *listed) fits(f controlplane.LinkFilter, word string) bool {
	for _, tag := range f.Tags {
		if !slices.Contains(l.Tags, tag) {
			return false
		}
	}
	host := map[waypost.DomainID]string{1: "go.example.com", 2: "own.example"}[l.Domain]
	expired := !l.ExpiresAt.IsZero() && !l.ExpiresAt.After(present)
	return (word == "" || slices.Contains(strings.Fields(l.Title+" "+l.Description), word)) && (f.Domain == "" || f.Domain == host) &&
		(f.Active == nil || *f.Active == l.Active) && (f.Expired == nil || *f.Expired == expired) &&
		(f.CreatedAfter.IsZero() || !l.CreatedAt.Before(f.CreatedAfter)) && (f.CreatedBefore.IsZero() || l.CreatedAt.Before(f.CreatedBefore)) &&
		(f.ExpiresBefore.IsZero() || !l.ExpiresAt.IsZero() && l.ExpiresAt.Before(f.ExpiresBefore))
}

func TestEveryCombinationOfFiltersAndOrdersGivesWhatItShould(t *testing.T) {
	t.Parallel() // next to those that wait
	db, hand := open(t)
	exec(t, hand, `INSERT INTO workspace (id, name, slug) VALUES (7, 'Other', 'other')`)
	exec(t, hand, `INSERT INTO domain (id, workspace_id, host) VALUES (2, 1, 'own.example')`)
	random := rand.New(rand.NewPCG(1, 2))
	var model []*listed
	for i := range 160 {
		l := &listed{Link: *link(fmt.Sprintf("code-%d", i)), id: i}
		l.Workspace = waypost.WorkspaceID([]int64{1, 1, 1, 7}[random.IntN(4)])
		if l.Workspace == 1 && random.IntN(4) == 0 {
			l.Domain = 2
		}
		l.Title = []string{"", "spring sale", "autumn Sale", "it's o'clock"}[random.IntN(4)]
		l.Description = []string{"", "for members only"}[random.IntN(2)]
		for _, tag := range []string{"a", "b,c", `"'\`, "d e"} {
			if random.IntN(2) == 0 {
				l.Tags = append(l.Tags, tag)
			}
		}
		if random.IntN(3) == 0 {
			l.ExpiresAt = present.Add(time.Duration(random.IntN(3)-1) * time.Hour)
		}
		insert(t, db, &l.Link)
		l.Active = random.IntN(4) > 0
		l.CreatedAt = present.Add(-time.Duration(random.IntN(40)) * time.Hour) // several at once
		_, err := hand.Exec(t.Context(), `UPDATE link SET active = $2, created_at = $3 WHERE id = $1`, l.ID, l.Active, l.CreatedAt)
		require.NoError(t, err)
		if random.IntN(2) == 0 {
			l.clicks = int64(1 + random.IntN(5))
			_, err = hand.Exec(t.Context(), `INSERT INTO link_click (link_id, workspace_id, clicks, last_accessed_at)
				VALUES ($1, $2, $3, now())`, l.ID, l.Workspace, l.clicks)
			require.NoError(t, err)
		}
		if random.IntN(10) == 0 {
			_, err = db.DeleteLink(t.Context(), controlplane.Actor{Workspace: l.Workspace}, l.Domain, l.Code)
			require.NoError(t, err)
			continue
		}
		model = append(model, l)
	}
	yes, no := true, false
	orders := map[controlplane.Order]func(a, b *listed) int{
		controlplane.NewestFirst: func(a, b *listed) int { return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), b.id-a.id) },
		controlplane.OldestFirst: func(a, b *listed) int { return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), a.id-b.id) },
		controlplane.MostClicked: func(a, b *listed) int {
			if a.clicks == 0 && b.clicks == 0 {
				return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), b.id-a.id)
			}
			return cmp.Or(cmp.Compare(b.clicks, a.clicks), b.id-a.id)
		},
		controlplane.LeastClicked: func(a, b *listed) int {
			if a.clicks == 0 && b.clicks == 0 {
				return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), a.id-b.id)
			}
			return cmp.Or(cmp.Compare(a.clicks, b.clicks), a.id-b.id)
		},
	}
	pick := func(n int) bool { return random.IntN(n) == 0 }
	for round := range 64 {
		var f controlplane.LinkFilter
		word := ""
		if pick(2) {
			word = []string{"spring", "members", "nothing"}[random.IntN(3)]
			f.Words = strings.ToUpper(word)
		}
		for _, tag := range []string{"a", "b,c", `"'\`} {
			if pick(5) {
				f.Tags = append(f.Tags, tag)
			}
		}
		if pick(3) {
			f.Domain = []string{"go.example.com", "own.example", "unknown.example"}[random.IntN(3)]
		}
		if pick(3) {
			f.Active = []*bool{&yes, &no}[random.IntN(2)]
		}
		if pick(3) {
			f.Expired = []*bool{&yes, &no}[random.IntN(2)]
		}
		if pick(3) {
			f.CreatedAfter = present.Add(-time.Duration(random.IntN(40)) * time.Hour)
		}
		if pick(3) {
			f.CreatedBefore = present.Add(-time.Duration(random.IntN(40)) * time.Hour)
		}
		if pick(4) {
			f.ExpiresBefore = present.Add(time.Duration(random.IntN(3)) * time.Hour)
		}
		ws := waypost.WorkspaceID([]int64{1, 7}[round%2])
		o := []controlplane.Order{
			controlplane.NewestFirst, controlplane.OldestFirst, controlplane.MostClicked,
			controlplane.LeastClicked,
		}[round/2%4]
		var want []*listed
		for _, l := range model {
			if l.Workspace == ws && l.fits(f, word) {
				want = append(want, l)
			}
		}
		slices.SortFunc(want, orders[o])
		var codes []waypost.Code
		for _, l := range want {
			codes = append(codes, l.Code)
		}
		require.Equal(t, codes, all(t, db, ws, f, o, 1+random.IntN(40)), "%s %+v", o, f)
	}

	counts := map[string]int64{}
	for _, l := range model {
		for _, tag := range l.Tags {
			if l.Workspace == 1 {
				counts[tag]++
			}
		}
	}
	tags, err := db.ListTags(t.Context(), 1, "", "", 100)
	require.NoError(t, err)
	require.Len(t, tags, len(counts))
	for _, tag := range tags {
		require.Equal(t, counts[tag.Tag], tag.Links, tag.Tag)
	}
	tags, err = db.ListTags(t.Context(), 1, "d", "", 100)
	require.NoError(t, err)
	require.Len(t, tags, 1)
	exec(t, hand, `DELETE FROM link`)
	tags, err = db.ListTags(t.Context(), 1, "", "", 100)
	require.NoError(t, err)
	require.Empty(t, tags)
}

func TestASearchIsReadAsPeopleWriteIt(t *testing.T) {
	db, _ := open(t)
	l := link("found")
	l.Title, l.Description = "Große Frühjahrs-Auktion", "don't look at 50% of it; see example.com/path"
	insert(t, db, l, link("other"))
	for words, found := range map[string]bool{
		"FRÜHJAHRS": true, "frühjahrs auktion": true, `"auktion frühjahrs"`: false, `"frühjahrs auktion"`: true,
		"herbst or auktion": true, "auktion -große": false, "auktion -herbst": true, "früh": false, "don't": true,
		"...": false, `"`: false, "'; DROP TABLE link --": false, `\`: false, "or": false, "\x01\x021": false, "\x011": false, "50%": true,
	} {
		require.Equal(t, found, len(all(t, db, 1, controlplane.LinkFilter{Words: words}, controlplane.NewestFirst, 10)) == 1, "%q", words)
	}
}

// A walk looks at the words of links only if the patterns fit.
func TestSearch_PatternsFitTheWordsInEveryLanguage(t *testing.T) {
	_, hand := open(t)
	for _, title := range []string{"INDIRIM Istanbul", "İZMİR ısparta", "FRÜHJAHRS Größe", "ΟΔΟΣ οδος Οδός", "50% a_b"} {
		var fit bool
		require.NoError(t, hand.QueryRow(t.Context(), `SELECT link_folded($1::text) LIKE ALL (
			link_patterns(tsvector_to_array(to_tsvector('pg_catalog.simple', $1::text))))`, title).Scan(&fit))
		require.True(t, fit, title)
	}
}

func TestLinkStore_FindsWhatIsBeingTyped(t *testing.T) {
	db, hand := open(t)
	exec(t, hand, `INSERT INTO workspace (id, name, slug) VALUES (7, 'Other', 'other')`)
	l := link("Spring-sale")
	l.Title, l.Description, l.Tags = "Große Frühjahrs-Auktion", "don't look at 50% of it", []string{"news letter", `o'c\k`}
	l.OriginalURL = "https://WWW.Shop.Example:8443/A/path?q=" + strings.Repeat("long", 20) + "end"
	foreign := link("Spring-other")
	foreign.Workspace, foreign.Title, foreign.OriginalURL, foreign.Tags = 7, l.Title, l.OriginalURL, l.Tags
	insert(t, db, l, foreign, link("other"))
	long := "shop.example:8443/a/path?q=" + strings.Repeat("long", 20)
	for typed, found := range map[string]bool{
		"frü": true, "FRÜHJ": true, "auk gro": true, "auk her": false, "fr": false, "at": true, "50%": true, "don't loo": true, "...": false,
		"new": true, "news let": true, "let": false, "New": false, "o'c\\": true, "'": false, `\`: false,
		"\x01": false, "\x011": false, ":*": false, "a:* | b": false,
		"Spr": true, "Spring-sal": true, "spring": false, "Sp": false, "Spring%": false, "ring": false,
		"sh": true, "shop.ex": true, "www.shop": true, "https://www.shop": true, "http://shop.example:8443/a/P": true, "example:8443": false,
		long + "E": true, long + "x": false, strings.Repeat("a ", 128): false,
	} {
		for _, o := range []controlplane.Order{controlplane.NewestFirst, controlplane.MostClicked} {
			codes := all(t, db, 1, controlplane.LinkFilter{Typed: typed}, o, 10)
			require.Equal(t, found, slices.Contains(codes, "Spring-sale"), "%q %v", typed, codes)
			require.NotContains(t, codes, waypost.Code("Spring-other"), typed)
		}
	}
	no := false
	require.Empty(t, all(t, db, 1, controlplane.LinkFilter{Typed: "spr", Active: &no}, controlplane.NewestFirst, 10))
}

func TestTheSearchRefusesAWorkspaceThatIsNotTheTransactions(t *testing.T) {
	db, hand := open(t)
	l := link("mine")
	l.Title = "secret"
	insert(t, db, l)
	const search = `SELECT count(*) FROM link_list(%d, 'all', false, 'secret', '{}', NULL, NULL, NULL, now(), NULL, NULL, NULL, NULL,
		NULL, 10, 100)`
	tx, err := hand.Begin(t.Context())
	require.NoError(t, err)
	exec(t, tx, `SET LOCAL ROLE waypost_tenant`)
	exec(t, tx, `SET LOCAL waypost.workspaces = '1'`)
	var n int
	require.NoError(t, tx.QueryRow(t.Context(), fmt.Sprintf(search, 1)).Scan(&n))
	require.Equal(t, 1, n)
	exec(t, tx, `SET LOCAL waypost.workspaces = '7'`)
	require.ErrorContains(t, tx.QueryRow(t.Context(), fmt.Sprintf(search, 1)).Scan(&n), "may not look at workspace 1")
	require.NoError(t, tx.Rollback(t.Context()))
	exec(t, hand, `SET ROLE waypost_tenant`)
	require.ErrorContains(t, hand.QueryRow(t.Context(), fmt.Sprintf(search, 1)).Scan(&n), "may not look at workspace 1")
}

// requireTypedPages pages through links that were found by typed text among n, in one
// order each, and make test-long in all.
func requireTypedPages(t *testing.T, db *postgres.DB, hand *pgx.Conn, n int) {
	t.Helper()
	yes, no, filters := true, false, 0
	for name, c := range map[string]struct {
		f    controlplane.LinkFilter
		want string // condition on i, the number of a link
	}{
		"few":                {controlplane.LinkFilter{Typed: "seld"}, "i % 1000 = 0"},
		"one":                {controlplane.LinkFilter{Typed: "example.com/4400"}, "i = 4400 OR i BETWEEN 44000 AND 44009"},
		"many, thinned out":  {controlplane.LinkFilter{Typed: "comm", Active: &no}, "i % 200 = 0"},
		"all, thinned out":   {controlplane.LinkFilter{Typed: "exa", Active: &no}, "i % 200 = 0"},
		"common and seldom":  {controlplane.LinkFilter{Typed: "comm seld"}, "i % 1000 = 0"},
		"of many in a row":   {controlplane.LinkFilter{Typed: "comm 4400"}, "false"},
		"words":              {controlplane.LinkFilter{Words: "common seldom"}, "i % 1000 = 0"},
		"one of many":        {controlplane.LinkFilter{Words: "common", Tags: []string{"rare"}}, "i % 500 = 0"},
		"a choice of words":  {controlplane.LinkFilter{Words: "seldom or nothing"}, "i % 1000 = 0"},
		"old ones":           {controlplane.LinkFilter{Typed: "many-1"}, "i::text LIKE '1%'"},
		"with words":         {controlplane.LinkFilter{Typed: "example.com/1", Words: "seldom"}, "i % 1000 = 0 AND i::text LIKE '1%'"},
		"with a tag":         {controlplane.LinkFilter{Typed: "exa", Tags: []string{"rare"}}, "i % 500 = 0"},
		"expire":             {controlplane.LinkFilter{ExpiresBefore: present}, "i % 300 = 0"},
		"expire, are typed":  {controlplane.LinkFilter{Typed: "exa", ExpiresBefore: present}, "i % 300 = 0"},
		"expired, in domain": {controlplane.LinkFilter{Typed: "exa", Expired: &yes, Domain: "own.example"}, "i % 300 = 0"},
	} {
		t.Run(name, func(t *testing.T) {
			var want int
			require.NoError(t, hand.QueryRow(t.Context(), fmt.Sprintf(`SELECT count(*) FROM generate_series(1, %d) i WHERE %s`, n, c.want)).Scan(&want))
			filters++
			for i, o := range []controlplane.Order{
				controlplane.NewestFirst, controlplane.OldestFirst, controlplane.MostClicked, controlplane.LeastClicked,
			} {
				if !devtest.Long() && i != filters%4 {
					continue
				}
				codes := all(t, db, 1, c.f, o, 900)
				require.Len(t, codes, want, o)
				slices.Sort(codes)
				require.Len(t, slices.Compact(codes), want, "%s: a link came twice", o)
			}
		})
	}
}

func TestListing_OfManyLinks(t *testing.T) {
	t.Parallel() // next to those that wait
	db, hand := open(t)
	exec(t, hand, `INSERT INTO domain (id, workspace_id, host) VALUES (2, 1, 'own.example')`)
	n := 17_000
	if devtest.Long() {
		n = 45_000
	}
	many(t, hand, n)
	t.Run("no list reads a whole table", func(t *testing.T) { requireIndexes(t, hand) })
	t.Run("a filter that fits almost nothing is answered in parts", func(t *testing.T) { requireParts(t, db, hand, n) })
}

// requireParts changes all n links.
func requireParts(t *testing.T, db *postgres.DB, hand *pgx.Conn, n int) {
	t.Helper()
	super := psql(t, strings.Replace(hand.Config().ConnString(), "waypost@", "postgres@", 1))
	requireTypedPages(t, db, hand, n)
	exec(t, super, `UPDATE pg_class SET reltuples = 1e9 WHERE relname = 'link_words'`)
	requireTypedPages(t, db, hand, n)                        // as if there were too many links for the index of words
	exec(t, super, `SET session_replication_role = replica`) // no trigger for each link
	t.Log("all links change")                                // a slow machine is silent for long
	exec(t, super, `UPDATE link SET active = id = 2501`)
	yes := true
	var pages, links int
	for next := (&controlplane.ListPlace{}); next != nil; pages++ {
		page, err := db.ListLinks(t.Context(), 1, controlplane.LinkFilter{Active: &yes}, present, controlplane.NewestFirst, *next, 50)
		require.NoError(t, err)
		links += len(page.Links)
		next = page.Next
	}
	require.Equal(t, 1, links)
	require.Equal(t, 1+n/16_000, pages, "each looked at 16,000 links")
}

// many makes links in one statement by hand.
func many(t *testing.T, hand *pgx.Conn, n int) {
	t.Helper()
	exec(t, hand, fmt.Sprintf(`
		INSERT INTO link (workspace_id, domain_id, code, original_url, title, tags, active, expires_at, created_at)
		SELECT 1, CASE WHEN i %% 100 = 0 THEN 2 ELSE 1 END, 'many-' || i, 'https://example.com/' || i,
		       CASE WHEN i %% 2 = 0 THEN 'common' || CASE WHEN i %% 1000 = 0 THEN ' seldom' ELSE '' END ELSE '' END,
		       CASE WHEN i %% 500 = 0 THEN '{rare,all}'::text[] WHEN i %% 2 = 0 THEN '{all}' ELSE '{}' END,
		       i %% 200 <> 0, CASE WHEN i %% 300 = 0 THEN timestamptz '2029-01-01' END, timestamptz '2029-06-01' + i * interval '1 minute'
		FROM generate_series(1, %d) i`, n))
	exec(t, hand, `INSERT INTO link_click (link_id, workspace_id, clicks, last_accessed_at) SELECT id, 1, 1 + id % 1000, now() FROM link
		WHERE id % 3 = 0`)
	exec(t, hand, `VACUUM ANALYZE link, link_click, link_tag`)
}

// requireIndexes looks at the plans of lists with a quarter of the combinations of
// filters. make test-long has every one with and without a place and bounds of time.
func requireIndexes(t *testing.T, hand *pgx.Conn) {
	t.Helper()
	hand = psql(t, strings.Replace(hand.Config().ConnString(), "waypost@", "postgres@", 1))
	exec(t, hand, `SET ROLE waypost_search`) // as the function does
	for setting := range strings.SplitSeq(textOf(t, hand, `SELECT array_to_string(proconfig, ';') FROM pg_proc
		WHERE proname = 'link_list'`), ";") {
		if strings.HasPrefix(setting, "enable_") {
			exec(t, hand, `SET `+setting)
		}
	}
	truths := []string{"NULL", "true", "false"}
	plans, lists := 0, 0
	for _, stage := range []string{"all", "clicked", "never"} {
		for _, question := range []string{"", "'seldom'", "'common'", "'common' & 'seldom'", `'\x011\x01rare'`, `'\x011\x01rare' & 'common'`} {
			for _, domain := range []string{"NULL", "1", "2"} {
				for _, active := range truths {
					for _, expired := range truths {
						lists++
						for variant := range 4 { // with and without a place and bounds of time
							if !devtest.Long() && (variant != lists/4%4 || lists%4 != 0) {
								continue
							}
							ascending, place, bounds := variant%2 == 1, variant >= 2, variant == 1 || variant == 2
							quick := lists%2 == 0
							var query string
							require.NoError(t, hand.QueryRow(t.Context(), fmt.Sprintf(`SELECT link_list_query(
								ROW('%s', %t, %t, false, %s, %s, %s, false, %[7]t, %[7]t, %[8]t), %[9]t, false, false)`,
								stage, ascending, question != "", domain, active, expired, bounds, place, question != "" && quick)).Scan(&query))
							query = strings.NewReplacer(
								"$10", "51", "$11", "16000", "$17", "'{%common%}'::text[]", "$1", "1", "$2", `E'`+strings.ReplaceAll(question+` & '\x011'`, "'", "''")+`'::tsquery`,
								"$3", domain, "$4", "timestamptz '2030-01-01'", "$5", "timestamptz '2029-06-10'", "$6", "timestamptz '2029-06-20'",
								"$7", "timestamptz '2029-06-15'", "$8", "500", "$9", "16000").Replace(query)
							rows, err := hand.Query(t.Context(), "EXPLAIN "+query)
							require.NoError(t, err)
							plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
							require.NoError(t, err)
							plans++
							text := strings.Join(plan, "\n")
							require.NotContains(t, text, "Seq Scan", query)
							require.Equal(t, strings.Count(text, "Index Scan")+strings.Count(text, "Index Only Scan"), strings.Count(text, "Index Cond: "),
								"an index without a condition is read as a whole: %s\n%s", query, text)
						}
					}
				}
			}
		}
	}
	require.GreaterOrEqual(t, plans, 3*6*3*3*3/4)
}

func TestLinkTable_BoundsCodes(t *testing.T) {
	db, hand := open(t)
	l := link("nested")
	l.Code = "summer/café🦣"
	insert(t, db, l)
	byHand := func(code string) error {
		_, err := hand.Exec(t.Context(), `INSERT INTO link (workspace_id, domain_id, code, original_url) VALUES (1, 1, $1, 'https://example.com/')`, code)
		return err
	}
	for _, code := range []string{
		"x", "a/b", "v1.2~b_c-d", "...", strings.Repeat("x", 128),
		"*", "docs/*", "jira/{ticket}", "{year}/{_m1}/{slug}/*", "jira/{ticket}/x",
	} {
		require.NoError(t, byHand(code), code)
	}
	for _, code := range []string{
		"", "/a", "a/", "a//b", ".", "..", "a/..", "./a", "a b", "a+", "a?", "a#", "a%41", "a\\b", "a\tb", "a\x7f", "a'b",
		"a:b", "a@b", "a[b", "a^b", "a`b", "a{b",
		"*/a", "a*", "a/*b", "**", "{}", "{A}", "{1}", "{a", "a}", "{a}b", "a/{b}c",
		"{a}/", "{a}//*", "{a}/..", "{a}/b c", "{" + strings.Repeat("a", 33) + "}",
		strings.Repeat("x", 129),
	} {
		require.ErrorContains(t, byHand(code), "link_code_check", "%q", code)
	}
	require.ErrorContains(t, byHand("jira/{id}"), "link_pattern", "its shape is taken")
	var kinds []int16
	require.NoError(t, hand.QueryRow(t.Context(), `SELECT array_agg(kind ORDER BY name) FROM changelog WHERE name IN ('*', 'docs/*', 'x')`).Scan(&kinds))
	require.Equal(t, []int16{6, 6, 1}, kinds)
	_, err := hand.Exec(t.Context(), `UPDATE link SET deleted_at = now() WHERE code = 'jira/{ticket}'`)
	require.NoError(t, err)
	require.NoError(t, byHand("jira/{id}"))
	_, err = hand.Exec(t.Context(), `UPDATE link SET deleted_at = NULL WHERE code = 'jira/{ticket}'`)
	require.ErrorContains(t, err, "link_pattern")
	for _, code := range []string{"café", "cafe\u0301", "🦣"} {
		require.ErrorContains(t, byHand(code), "create their links with the API", code)
	}
}

func TestALinkNeedsItsWorkspaceAndDomainAndKeepsThem(t *testing.T) {
	db, hand := open(t)
	exec(t, hand, `INSERT INTO workspace (id, name, slug) VALUES (7, 'Other', 'other')`)
	exec(t, hand, `INSERT INTO domain (id, workspace_id, host) VALUES (2, 7, 'own.example')`)
	l := link("owned")
	l.Workspace, l.Domain = 7, 2
	insert(t, db, l)
	for sql, says := range map[string]string{
		`INSERT INTO link (workspace_id, domain_id, code, original_url) VALUES (8, 1, 'code', 'https://example.com/')`: "no workspace 8",
		`INSERT INTO link (workspace_id, domain_id, code, original_url) VALUES (1, 9, 'code', 'https://example.com/')`: "no domain 9",
		`UPDATE link SET workspace_id = 8`:         "no workspace 8",
		`DELETE FROM domain WHERE id = 2`:          "domain 2 has links",
		`DELETE FROM workspace WHERE id = 7`:       "workspace 7 has links",
		`UPDATE workspace SET id = 8 WHERE id = 7`: "has links",
	} {
		_, err := hand.Exec(t.Context(), sql)
		require.ErrorContains(t, err, says, sql)
	}
	exec(t, hand, `DELETE FROM link`)
	exec(t, hand, `DELETE FROM domain WHERE id = 2`)
	exec(t, hand, `DELETE FROM workspace WHERE id = 7`)
}

func TestADomainThatIsDeletedWhileALinkOfItIsMadeIsNotDeleted(t *testing.T) {
	_, hand := open(t)
	exec(t, hand, `INSERT INTO domain (id, host) VALUES (2, 'brief.example')`)
	other := psql(t, hand.Config().ConnString())
	making, err := hand.Begin(t.Context())
	require.NoError(t, err)
	exec(t, making, `INSERT INTO link (workspace_id, domain_id, code, original_url) VALUES (1, 2, 'late', 'https://example.com/')`)
	deleted := make(chan error, 1)
	go func() {
		_, err := other.Exec(t.Context(), `DELETE FROM domain WHERE id = 2`)
		deleted <- err
	}()
	require.NoError(t, making.Commit(t.Context()))
	require.ErrorContains(t, <-deleted, "has links")
}
