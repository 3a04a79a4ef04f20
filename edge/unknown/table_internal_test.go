package unknown

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
)

func TestTable_KeepsWhatSeveralWantInAFloodOfManyNetworks(t *testing.T) {
	all := newTable()
	wanted := address{domain: 7, path: "wanted"}
	for visitor := range uint64(2) {
		require.Equal(t, counted, all.count(wanted, visitor+1, false, visitor, 0))
	}
	for n := range uint64(100_000) {
		require.Equal(t, counted, all.count(address{domain: 7, path: fmt.Sprint("random-", n)}, 99, false, n, 0))
		require.LessOrEqual(t, len(all.tallies), maxAddresses)
	}
	for visitor := range uint64(3) {
		require.Equal(t, counted, all.count(wanted, visitor+3, false, visitor, 0))
	}
	require.Len(t, all.tallies[wanted].visitors, waypost.UnknownVisitors)
	require.EqualValues(t, 5, all.tallies[wanted].people)

	for of := range all.tallies {
		all.count(of, 100, false, 0, 0)
	}
	require.Equal(t, full, all.count(address{domain: 7, path: "late"}, 1, false, 5, 0), "two people want each of the others")
	require.Equal(t, counted, all.count(wanted, 6, false, 5, 0))
}

func TestTable_ForgetsADayOnceItIsReported(t *testing.T) {
	all := newTable()
	for n := range uint64(3) {
		all.count(address{domain: 7, day: int32(n), path: "hr"}, 1, false, 1, 0)
	}
	require.Len(t, all.takeNews(2, 2), 2, "a report has room for two")
	require.Len(t, all.takeNews(2, 2), 1)
	require.Empty(t, all.takeNews(2, 2))
	require.Len(t, all.tallies, 1)
	require.Contains(t, all.tallies, address{domain: 7, day: 2, path: "hr"})
}
