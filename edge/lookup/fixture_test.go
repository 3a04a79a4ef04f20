package lookup_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/lookup"
)

func table(t testing.TB, budget int64) *lookup.Table {
	t.Helper()
	b := lookup.NewBudget(budget)
	table, err := lookup.New(lookup.Config{Budget: b})
	require.NoError(t, err)
	t.Cleanup(func() {
		table.Close()
		require.Zero(t, b.Used(), "all memory is given back")
	})
	return table
}

func link(code, location string) *waypost.Record {
	return &waypost.Record{
		Kind: waypost.KindLink, Status: 302, Domain: waypost.DefaultDomain, Name: []byte(code), Payload: []byte(location),
	}
}

func find(t testing.TB, table *lookup.Table, code string) (string, lookup.Answer) {
	t.Helper()
	var rec waypost.Record
	_, _, a := table.Find(waypost.DefaultDomain, []byte(code), nil, &rec)
	if a == lookup.Found && string(rec.Name) != code { // faster than require for millions
		t.Fatalf("%s is found for %s", rec.Name, code)
	}
	return string(rec.Payload), a
}

// code is called millions of times, and is faster than fmt.
func code(i int) string {
	digits := strconv.Itoa(i)
	return "code" + "000000"[min(len(digits), 6):] + digits
}

// location returns a target of the usual length, with its code and version.
func location(i, version int) string {
	const rest = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
	return "https://example.com/" + strconv.Itoa(i) + "/" + strconv.Itoa(version) + "/" + rest[:60+i%20]
}

// same is require.Equal for long loops.
func same(t testing.TB, want, got string) {
	t.Helper()
	if got != want {
		t.Fatalf("%s and not %s", got, want)
	}
}
