package lookup_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/lookup"
)

// overfull returns a bounded table that holds a few of n links, and a filter of all.
func overfull(t *testing.T, budget int64, n int) *lookup.Table {
	t.Helper()
	table := table(t, budget)
	fits := 0
	for i := range n {
		if !table.Load(link(code(i), location(i, 0)), nil) {
			break
		}
		fits++
	}
	require.Less(t, fits, n)
	require.False(t, table.Finish())
	require.True(t, table.NeedsFilter())
	require.True(t, table.StartFilter(n))
	for i := range n {
		table.Note(waypost.DefaultDomain, []byte(code(i)))
	}
	table.FilterReady()
	require.False(t, table.NeedsFilter())
	return table
}

func TestTable_BoundedKeepsItsBudgetAndIsNeverWrong(t *testing.T) {
	const budget, n = 2 << 20, 60_000
	table := overfull(t, budget, n)
	rng := rand.New(rand.NewPCG(1, 2))
	versions := make([]int, n)
	for range 60_000 {
		i := rng.IntN(n)
		if rng.IntN(4) == 0 {
			versions[i]++
			table.Put(link(code(i), location(i, versions[i])), nil)
		}
		got, a := find(t, table, code(i))
		switch a {
		case lookup.Found:
			same(t, location(i, versions[i]), got)
		case lookup.Unknown:
			table.Promote(link(code(i), location(i, versions[i])), nil)
		case lookup.Absent:
			require.Fail(t, "a link that the store has is not absent", code(i))
		}
		if st := table.Stats(); st.Bytes > budget {
			require.Fail(t, "the budget is exceeded", "%d bytes", st.Bytes)
		}
	}
}

func TestTable_NeedsAnotherFilterOnceItIsFull(t *testing.T) {
	const n = 60_000
	table := overfull(t, 4<<20, n)
	i := n
	for ; !table.NeedsFilter(); i++ {
		require.Less(t, i, 2*n)
		table.Put(link(code(i), location(i, 0)), nil)
		_, a := find(t, table, code(i))
		require.NotEqual(t, lookup.Absent, a)
	}
	require.Greater(t, i, n+n/5, "it has room for more keys than there were")
	require.True(t, table.StartFilter(i))
	for j := range i {
		table.Note(waypost.DefaultDomain, []byte(code(j)))
	}
	table.FilterReady()
	absent := 0
	for j := i; j < i+1000; j++ {
		if _, a := find(t, table, code(j)); a == lookup.Absent {
			absent++
		}
	}
	require.Greater(t, absent, 900)
	require.False(t, table.NeedsFilter())
}

func TestTable_BoundedKeepsLinksThatAreReadOften(t *testing.T) {
	const n, hot = 60_000, 2000
	table := overfull(t, 2<<20, n)
	rng := rand.New(rand.NewPCG(1, 2))
	ask := func(i int) bool {
		_, a := find(t, table, code(i))
		if a != lookup.Found {
			table.Promote(link(code(i), location(i, 0)), nil)
		}
		return a == lookup.Found
	}
	hits := 0
	for round := range 100_000 {
		if rng.IntN(5) == 0 {
			ask(rng.IntN(n))
		} else if ask(rng.IntN(hot)) && round >= 50_000 {
			hits++
		}
	}
	require.Greater(t, hits, 36_000, "of about 40,000 times that something hot was asked for")
}

func TestTable_BoundedPromotesAsDemandChanges(t *testing.T) {
	const budget, n = 2<<20 + 512<<10, 30_000
	table := overfull(t, budget, n)
	for round := range 4 {
		taken := 0
		for i := range n {
			table.Promote(link(code(i), location(i, 0)), nil)
			if _, a := find(t, table, code(i)); a == lookup.Found {
				taken++
			}
		}
		require.Greater(t, taken, n*99/100, "round %d", round)
		require.LessOrEqual(t, table.Stats().Bytes, int64(budget))
	}
}

func TestFilter_RecognisesAbsentKeys(t *testing.T) {
	const n = 30_000
	table := overfull(t, 2<<20, n)
	unknown, unsure := 0, 0
	for i := range 50_000 {
		if _, a := find(t, table, code(n+i)); a == lookup.Unknown {
			unknown++
		}
		if !table.Lacks(waypost.DefaultDomain, []byte(code(n+i))) {
			unsure++
		}
	}
	require.Less(t, unknown, 1000)
	require.Less(t, unsure, 1000, "the writer asks the filter too")
	for i := n; i < 3*n; i++ { // far more than the filter is made for
		table.Put(link(code(i), location(i, 0)), nil)
		if _, a := find(t, table, code(i)); a == lookup.Absent {
			t.Fatal("absent: ", i)
		}
	}
	for i := range 3 * n {
		if _, a := find(t, table, code(i)); a == lookup.Absent || table.Lacks(waypost.DefaultDomain, []byte(code(i))) {
			t.Fatal("absent: ", i)
		}
	}
}

func TestTable_ThatOutgrowsItsBudgetIsNotComplete(t *testing.T) {
	table := table(t, 2<<20)
	require.True(t, table.Finish())
	for i := 0; table.IsComplete(); i++ {
		table.Put(link(code(i), location(i, 0)), nil)
		require.Less(t, i, 60_000)
	}
	_, a := find(t, table, "no-such")
	require.Equal(t, lookup.Unknown, a)
	require.True(t, table.NeedsFilter())
	require.False(t, table.Finish())
}

func TestTable_LoadsAgainAfterResume(t *testing.T) {
	const n = 5000
	budget := lookup.NewBudget(4 << 20)
	old, err := lookup.New(lookup.Config{Budget: budget})
	require.NoError(t, err)
	for i := 0; old.Load(link(code(i), location(i, 0)), nil); i++ {
		require.Less(t, i, 60_000)
	}
	require.False(t, old.StartFilter(1<<30), "too many for the budget")
	require.False(t, old.NeedsFilter())
	_, err = lookup.New(lookup.Config{Budget: budget})
	require.Error(t, err, "the other table has it all")
	old.Close()

	fresh, err := lookup.New(lookup.Config{Budget: budget, Leave: 7 << 19})
	require.NoError(t, err)
	defer fresh.Close()
	for i := range n {
		fresh.Put(link(code(i), location(i, 0)), nil)
	}
	require.False(t, fresh.Finish())
	fresh.Resume(0)
	for i := range n {
		require.True(t, fresh.Load(link(code(i), location(i, 0)), nil))
	}
	require.True(t, fresh.Finish())
	require.True(t, fresh.IsComplete())
}
