package lookup_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/lookup"
)

func TestTable_FindsRecordsAsTheyWerePut(t *testing.T) {
	long := make([]byte, waypost.MaxPayload)
	for i := range long {
		long[i] = 'x'
	}
	for name, c := range map[string]struct {
		change func(*waypost.Record)
		ext    string
	}{
		"plain":             {change: func(*waypost.Record) {}},
		"to a www":          {change: func(r *waypost.Record) { r.Payload = []byte("https://www.example.com/") }},
		"to plain HTTP":     {change: func(r *waypost.Record) { r.Payload = []byte("http://example.com/") }},
		"a scheme alone":    {change: func(r *waypost.Record) { r.Payload = []byte("https://") }},
		"to something else": {change: func(r *waypost.Record) { r.Payload = []byte("https:/") }},
		"of one character":  {change: func(r *waypost.Record) { r.Name = []byte("x") }},
		"the longest https": {
			change: func(r *waypost.Record) { r.Payload = append([]byte("https://"), long[8:]...) }, ext: string(long[:4096]),
		},
		"another status":      {change: func(r *waypost.Record) { r.Status = 308 }},
		"no redirect's":       {change: func(r *waypost.Record) { r.Status = 204 }},
		"of another domain":   {change: func(r *waypost.Record) { r.Domain = 4_000_000_000 }},
		"of no domain":        {change: func(r *waypost.Record) { r.Domain = 0 }},
		"one that expires":    {change: func(r *waypost.Record) { r.ExpiresAt = 1_800_000_000_001 }},
		"expired before 1970": {change: func(r *waypost.Record) { r.ExpiresAt = -1 }},
		"disabled":            {change: func(r *waypost.Record) { r.State = waypost.Disabled }},
		"a tombstone":         {change: func(r *waypost.Record) { r.State, r.Payload = waypost.Deleted, []byte{} }},
		"with extensions":     {change: func(*waypost.Record) {}, ext: "\x01\x00\x01\x00\x03"},
		"the longest": {change: func(r *waypost.Record) {
			r.Name, r.Payload, r.Domain, r.ExpiresAt, r.Status = long[:waypost.MaxName], long, 7, 1, 999
		}, ext: string(long[:4096])},
	} {
		t.Run(name, func(t *testing.T) {
			table := table(t, lookup.MinBudget)
			want := link("a-code", "https://example.com/")
			c.change(want)
			table.Put(want, []byte(c.ext))
			var got waypost.Record
			ext, grown, a := table.Find(want.Domain, want.Name, []byte("kept"), &got)
			require.Equal(t, lookup.Found, a)
			require.Equal(t, *want, got)
			require.Equal(t, c.ext, string(ext))
			require.Equal(t, "kept", string(grown[:4]))
			require.True(t, table.Finish())
			_, _, a = table.Find(want.Domain+1, want.Name, nil, new(waypost.Record))
			require.Equal(t, lookup.Absent, a, "another domain's")
		})
	}
}

func TestTable_LeavesToTheStoreWhatItCannotHold(t *testing.T) {
	for name, change := range map[string]func(*waypost.Record) []byte{
		"an unknown state":         func(r *waypost.Record) []byte { r.State = 9; return nil },
		"another kind":             func(r *waypost.Record) []byte { r.Kind = waypost.KindRange; return nil },
		"too long a location":      func(r *waypost.Record) []byte { r.Payload = make([]byte, waypost.MaxPayload+1); return nil },
		"too long extensions":      func(*waypost.Record) []byte { return make([]byte, waypost.MaxExtensions+1) },
		"too long, in a domain":    func(r *waypost.Record) []byte { r.Domain = 7; return make([]byte, waypost.MaxExtensions+1) },
		"too long, and expires":    func(r *waypost.Record) []byte { r.ExpiresAt = 7; return make([]byte, waypost.MaxExtensions+1) },
		"a state, and its details": func(r *waypost.Record) []byte { r.State, r.Domain, r.ExpiresAt = 3, 7, 7; return []byte("ext") },
	} {
		t.Run(name, func(t *testing.T) {
			table := table(t, lookup.MinBudget)
			r := link("a-code", "https://example.com/")
			ext := change(r)
			table.Put(r, ext)
			require.True(t, table.Finish())
			_, _, a := table.Find(r.Domain, r.Name, nil, new(waypost.Record))
			require.Equal(t, lookup.Unknown, a, "there is something: that is not Absent")
			_, a = find(t, table, "other-code")
			require.Equal(t, lookup.Absent, a)
		})
	}
}

func TestTable_KnowsAbsentLinksOnlyWhenComplete(t *testing.T) {
	table := table(t, lookup.MinBudget)
	_, a := find(t, table, "no-such")
	require.Equal(t, lookup.Unknown, a, "it is still loading")
	lacks := func(code string) bool { return table.Lacks(waypost.DefaultDomain, []byte(code)) }
	require.False(t, lacks("no-such"), "the writer does not know better")
	table.Put(link("one", "https://one.example/"), nil)
	require.True(t, table.Finish())
	_, a = find(t, table, "no-such")
	require.Equal(t, lookup.Absent, a)
	require.True(t, lacks("no-such"))
	require.False(t, lacks("one"))
	table.Damage(waypost.DefaultDomain, []byte("one"))
	require.False(t, lacks("one"), "a trace of it is left")
	table.Put(link("one", "https://one.example/"), nil)
	table.Remove(waypost.DefaultDomain, []byte("one"))
	table.Remove(waypost.DefaultDomain, []byte("no-such"))
	_, a = find(t, table, "one")
	require.Equal(t, lookup.Absent, a)
	require.Zero(t, table.Stats().Entries)
}

func TestTable_LoadChangesNoHeldLink(t *testing.T) {
	table := table(t, lookup.MinBudget)
	table.Put(link("a-code", "https://new.example/"), nil)
	require.True(t, table.Load(link("a-code", "https://old.example/"), nil))
	table.Promote(link("a-code", "https://old.example/"), nil)
	got, _ := find(t, table, "a-code")
	require.Equal(t, "https://new.example/", got)
	table.Put(link("a-code", "https://newest.example/"), nil)
	got, _ = find(t, table, "a-code")
	require.Equal(t, "https://newest.example/", got)
}

func TestTable_GrowsAndKeepsAllLinks(t *testing.T) {
	table := table(t, 64<<20)
	const n = 100_000
	for i := range n {
		table.Put(link(code(i), location(i, 0)), nil)
	}
	require.True(t, table.Finish())
	for i := range n {
		got, a := find(t, table, code(i))
		if a != lookup.Found {
			t.Fatalf("%s: answer %d", code(i), a)
		}
		same(t, location(i, 0), got)
	}
	st := table.Stats()
	require.EqualValues(t, n, st.Entries)
	require.EqualValues(t, n, st.Hits)
	require.Zero(t, st.Unknown+st.Damaged)
}

func TestTable_NeedsFewBytesBesidesTheRecord(t *testing.T) {
	const n = 150_000
	table := table(t, 64<<20)
	table.Reserve(n)
	name, target := 10, 0
	for i := range n {
		r := link(code(i), fmt.Sprintf("https://www.example.com/articles/%057d", i)) // 90 bytes
		target = len(r.Payload)
		table.Put(r, nil)
	}
	require.Equal(t, 90, target)
	each := float64(table.Stats().Bytes) / n
	require.Less(t, each, float64(name+target-len("https://www."))+33, "8 of them a head, 21 slots and free memory: a table as small as this one has spare room")
}

func TestTable_ReusesMemoryOfReplacedRecords(t *testing.T) {
	table := table(t, 8<<20)
	const n = 10_000
	for version := range 20 { // many times the budget
		for i := range n {
			table.Put(link(code(i), location(i, version)), nil)
		}
	}
	require.True(t, table.Finish(), "nothing had to make way")
	for i := range n {
		got, _ := find(t, table, code(i))
		same(t, location(i, 19), got)
	}
	require.Less(t, table.Stats().Bytes, int64(3<<20))
}

func TestTable_ClosedAnswersUnknown(t *testing.T) {
	table := table(t, lookup.MinBudget)
	table.Put(link("a-code", "https://example.com/"), nil)
	table.Finish()
	table.Close()
	table.Close()
	_, a := find(t, table, "a-code")
	require.Equal(t, lookup.Unknown, a)
	table.Put(link("a-code", "https://example.com/"), nil) // a late writer
	table.Remove(waypost.DefaultDomain, []byte("a-code"))
	table.Note(waypost.DefaultDomain, []byte("a-code"))
	table.Reserve(10)
	require.False(t, table.StartFilter(10))
}

func TestTable_GivesMemoryBackInPieces(t *testing.T) {
	const most = 2 << 20
	budget := lookup.NewBudget(64 << 20)
	table, err := lookup.New(lookup.Config{Budget: budget})
	require.NoError(t, err)
	for i := range 100_000 {
		table.Put(link(code(i), location(i, 0)), nil)
	}
	held := budget.Used()
	require.Greater(t, held, int64(4*most))
	table.CloseSlowly(func() {
		require.LessOrEqual(t, held-budget.Used(), int64(most))
		held = budget.Used()
	})
	require.Zero(t, held)
}

func TestNew_RefusesASmallBudget(t *testing.T) {
	_, err := lookup.New(lookup.Config{Budget: lookup.NewBudget(lookup.MinBudget - 1)})
	require.Error(t, err)
	shared := lookup.NewBudget(lookup.MinBudget)
	_, err = lookup.New(lookup.Config{Budget: shared, Leave: lookup.MinBudget})
	require.Error(t, err)
	require.Zero(t, shared.Used())
}
