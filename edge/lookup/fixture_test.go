package lookup_test

import (
	"fmt"
	"strings"
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
	rec, _, _, a := table.Find(waypost.DefaultDomain, []byte(code), nil)
	if a == lookup.Found && string(rec.Name) != code { // quicker than require, and there are millions
		t.Fatalf("%s is found for %s", rec.Name, code)
	}
	return string(rec.Payload), a
}

func code(i int) string { return fmt.Sprintf("code%06d", i) }

// location is of the usual length, and tells its code and version.
func location(i, version int) string {
	return fmt.Sprintf("https://example.com/%d/%d/%s", i, version, strings.Repeat("x", 60+i%20))
}
