package keys_test

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waypost"
)

// lease is a block as PostgreSQL has it in the end.
type lease struct {
	ID, Range  int64
	Prefix     int
	Lo, Hi     int64
	Generation int64
	Node       string
}

// judge compares what clients received with what PostgreSQL holds.
func (f *fleet) judge() {
	t := f.t
	t.Helper()
	hand := psql(t, f.database)
	rows, err := hand.Query(t.Context(), `
		SELECT l.id, l.range_id, l.prefix, l.lo, l.hi, l.generation, l.node FROM key_lease l
		JOIN key_range r ON r.id = l.range_id AND r.prefix = l.prefix AND r.lo <= l.lo AND l.hi <= r.hi AND l.generation <= r.generation
		JOIN changelog_head h ON h.epoch = l.epoch ORDER BY l.prefix, l.lo`)
	require.NoError(t, err)
	leases, err := pgx.CollectRows(rows, pgx.RowToStructByPos[lease])
	require.NoError(t, err)

	wrong := 0
	for code, e := range f.keys.keys {
		if e.node == "" {
			continue // chosen by a client
		}
		// A request that failed half-way has given its keys back, and another node issued them.
		l := leaseOf(f, leases, waypost.Code(code))
		if l == nil || !e.reserved && !strings.HasPrefix(l.Node, e.node+"/") {
			if wrong++; wrong < 5 {
				t.Errorf("%s of %s lies in no lease of it, but in %+v", code, e.node, l)
			}
		}
	}
	require.Zero(t, wrong)
	f.judgeTimes(hand, leases)

	for question, sql := range map[string]string{
		"leases that overlap": `SELECT count(*) FROM key_lease a JOIN key_lease b ON a.id < b.id AND a.prefix = b.prefix AND a.lo < b.hi AND b.lo < a.hi`,
		"ranges that overlap": `SELECT count(*) FROM key_range a JOIN key_range b
			ON a.id < b.id AND a.prefix = b.prefix AND a.lo < b.hi AND b.lo < a.hi
			WHERE a.state <> 'retired' AND b.state <> 'retired'`,
		"keys that two have":          `SELECT count(*) FROM link l JOIN reserved_key r USING (code) WHERE NOT l.custom OR r.state <> 'used'`,
		"keys outside of their lease": `SELECT count(*) FROM reserved_key k LEFT JOIN key_lease l ON l.id = k.lease_id WHERE l.node IS NULL OR l.state = 'free'`,
	} {
		var n int
		require.NoError(t, hand.QueryRow(t.Context(), sql).Scan(&n), question)
		require.Zero(t, n, question)
	}
}

// leaseOf finds the lease that a code's counter lies in, nil when there is none.
func leaseOf(f *fleet, leases []lease, code waypost.Code) *lease {
	prefix, counter, ok := f.coder.Decode(code)
	if !ok {
		return nil
	}
	i, found := slices.BinarySearchFunc(leases, counter, func(l lease, n int64) int {
		switch {
		case l.Prefix != prefix:
			return l.Prefix - prefix
		case l.Hi <= n:
			return -1
		case l.Lo > n:
			return 1
		}
		return 0
	})
	if !found {
		return nil
	}
	return &leases[i]
}

// state is a row of key_range or key_lease from a sequence of the changelog on.
type state struct {
	seq        int64
	Generation int64
	State      string
	Node       string
}

// judgeTimes asks the changelog whether every minted link was written while its lease
// was good: held, or closed, by who issued it, and of its range's generation of then.
func (f *fleet) judgeTimes(hand *pgx.Conn, leases []lease) {
	t := f.t
	t.Helper()
	history := map[string][]state{}
	rows, err := hand.Query(t.Context(), `SELECT kind, name, seq, payload FROM changelog WHERE kind IN (3, 4) ORDER BY seq, ord`)
	require.NoError(t, err)
	var kind int
	var name, payload string
	var seq int64
	_, err = pgx.ForEachRow(rows, []any{&kind, &name, &seq, &payload}, func() error {
		s := state{seq: seq}
		if err := json.Unmarshal([]byte(payload), &s); err != nil {
			return err
		}
		key := strconv.Itoa(kind) + "/" + name
		history[key] = append(history[key], s)
		return nil
	})
	require.NoError(t, err)
	at := func(kind int, id, seq int64) (found state) {
		for _, s := range history[strconv.Itoa(kind)+"/"+strconv.FormatInt(id, 10)] {
			if s.seq > seq {
				break
			}
			found = s
		}
		return found
	}
	rows, err = hand.Query(t.Context(), `SELECT code, rev_seq FROM link WHERE NOT custom AND domain_id = 1`)
	require.NoError(t, err)
	var code string
	minted := 0
	_, err = pgx.ForEachRow(rows, []any{&code, &seq}, func() error {
		minted++
		l := leaseOf(f, leases, waypost.Code(code))
		require.NotNil(t, l, code)
		then, of := at(4, l.ID, seq), at(3, l.Range, seq)
		require.Contains(t, []string{"held", "closed"}, then.State, "the lease of %s when it was written", code)
		require.Equal(t, then.Generation, of.Generation, "the generations of lease and range of %s when it was written", code)
		require.NotEqual(t, "retired", of.State, code)
		return nil
	})
	require.NoError(t, err)
	require.Positive(t, minted)
	t.Logf("%d links were written while their leases were good", minted)
}
