package ledger_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waypost/api"
	"waypost/client"
)

// calm lets the edges ship all that they have, with no one in the way, and the control
// plane fold it.
func (w *world) calm() {
	w.t.Helper()
	c := w.startControl("last", "")
	require.NotNil(w.t, c, "%v", w.errors)
	w.last = c
	for _, s := range w.edges {
		s.proxy.calm.Store(true)
		s.proxy.cutOff.Store(false)
		// A stop ships for a second; what is left is the next start's.
		for tries := 0; tries == 0 || len(w.unshipped(s)) > 0; tries++ {
			require.Less(w.t, tries, 10, "%s does not ship: %v", s.node, w.unshipped(s))
			e := w.startEdge(s, shipping.limits)
			require.NotNil(w.t, e, "%v", w.errors)
			until := time.Now().Add(time.Minute)
			for w.waits(s) && time.Now().Before(until) {
				<-time.After(20 * time.Millisecond)
			}
			require.NoError(w.t, e.Stop())
			w.lookAt(s.node, e.Output())
		}
		for _, dir := range []string{"dead", "quarantine"} {
			entries, err := os.ReadDir(w.clicksDir(s) + "/" + dir)
			require.NoError(w.t, err)
			require.Empty(w.t, entries, "%s of %s", dir, s.node)
		}
	}
	hand := w.hand()
	defer func() { require.NoError(w.t, hand.Close(w.t.Context())) }()
	require.Eventually(w.t, func() bool {
		return w.counts(hand,
			`SELECT 'parts', (SELECT count(*) FROM click_part) + (SELECT count(*) FROM click_workspace_part)`)["parts"] == 0
	},
		2*time.Minute, 50*time.Millisecond, "folded")
}

func (w *world) clicksDir(s *slot) string { return s.dir + "/clicks" }

// unshipped lists the files of an edge that PostgreSQL may not have.
func (w *world) unshipped(s *slot) (names []string) {
	w.t.Helper()
	entries, err := os.ReadDir(w.clicksDir(s))
	require.NoError(w.t, err)
	for _, e := range entries {
		if !e.IsDir() && !strings.HasSuffix(e.Name(), ".shipped") {
			names = append(names, e.Name())
		}
	}
	return names
}

// waits reports whether an edge has more than segments of its own.
func (w *world) waits(s *slot) bool {
	return slices.ContainsFunc(w.unshipped(s), func(name string) bool { return !strings.HasSuffix(name, ".active") })
}

// judge compares the visitors' ledger with every place in which clicks are counted.
func (w *world) judge() {
	w.t.Helper()
	require.Empty(w.t, w.visitors.wrong)
	for _, s := range w.edges {
		require.NoError(w.t, s.proxy.wrong)
	}
	received, cut := w.visitors.received, w.visitors.cut
	hand := w.hand()
	defer func() { require.NoError(w.t, hand.Close(w.t.Context())) }()
	const byLink = ` FROM link l JOIN %s c ON c.link_id = l.id GROUP BY l.code`
	var first map[string]int64
	for _, place := range []struct{ table, clicks string }{
		{"link_click", "clicks"},
		{"click_day", "clicks"},
		{"click_event", "clicks"},
	} {
		got := w.counts(hand, fmt.Sprintf(`SELECT l.code, sum(%s)::bigint`+byLink, place.clicks, place.table))
		for n := range links {
			code := codeOf(n)
			if place.table == "click_event" {
				for _, s := range w.edges {
					got[code] += s.proxy.coarse.of(code)
				}
			}
			require.GreaterOrEqual(w.t, got[code], received[code], "clicks of %s are lost in %s", code, place.table)
			require.LessOrEqual(w.t, got[code], received[code]+cut[code], "clicks of %s are counted twice in %s", code, place.table)
		}
		if first == nil {
			first = got
		}
		require.Equal(w.t, first, got, "%s says something else than the counters", place.table)
	}
	w.judgeRules(hand)
	all := sum(first)
	for _, sql := range []string{
		`SELECT 'all', sum(clicks)::bigint FROM click_workspace_day`,
	} {
		require.Equal(w.t, all, w.counts(hand, sql)["all"], sql)
	}
	for _, sql := range []string{
		`SELECT 'all', count(*) FROM click_part`,
		`SELECT 'all', count(*) FROM click_workspace_part`,
		`SELECT 'all', count(*) FROM click_dead_letter`,
		`SELECT 'all', sum(dropped + unknown + voided)::bigint FROM click_watermark`,
	} {
		require.Zero(w.t, w.counts(hand, sql)["all"], sql)
	}
	require.Less(w.t, sum(cut), sum(received)/10, "so few are cut off that the bounds tell something")
	w.t.Logf("%d clicks counted of %d redirects and %d requests cut off", all, sum(received), sum(cut))
}

// judgeRules compares the visitors' ledger with the clicks of each rule and variant, in
// the single clicks and in the statistics.
func (w *world) judgeRules(hand *pgx.Conn) {
	w.t.Helper()
	single := w.counts(hand, `SELECT l.code || ' ' || rule || '/' || variant, sum(clicks)::bigint
		FROM link l JOIN click_event c ON c.link_id = l.id GROUP BY l.code, rule, variant`)
	cl, err := client.New(w.last.API, "")
	require.NoError(w.t, err)
	for n := range links {
		code := codeOf(n)
		stats, err := client.Get[client.Stats](w.t.Context(), cl, client.Path(api.PathLinks, code, "stats"))
		require.NoError(w.t, err)
		shown := make(map[string]int64)
		for _, r := range stats.Rules {
			shown[strings.Replace(r.Name, "none", "0", 1)+"/0"] = r.Clicks
		}
		for _, v := range stats.Variants {
			shown[v.Rule+"/"+v.Name] = v.Clicks
			shown[v.Rule+"/0"] -= v.Clicks
		}
		require.Equal(w.t, ruled(n), len(stats.Variants) > 0, code)
		for _, by := range []string{"0/0", "1/0", "2/0", "2/1", "2/2"} {
			key := code + " " + by
			got, led := single[key], w.visitors.led[key]
			for _, s := range w.edges {
				got += s.proxy.coarse.of(key)
			}
			require.GreaterOrEqual(w.t, got, led, "clicks of %s are lost", key)
			require.LessOrEqual(w.t, got, led+w.visitors.cut[code], "clicks of %s are counted twice", key)
			require.Equal(w.t, got, shown[by], "the statistics of %s say something else", key)
		}
	}
}

// counts returns what a query says of each name.
func (w *world) counts(hand *pgx.Conn, sql string) map[string]int64 {
	w.t.Helper()
	rows, err := hand.Query(w.t.Context(), sql)
	require.NoError(w.t, err)
	counts := make(map[string]int64)
	var name string
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&name, &n}, func() error {
		counts[name] = n
		return nil
	})
	require.NoError(w.t, err, sql)
	return counts
}
