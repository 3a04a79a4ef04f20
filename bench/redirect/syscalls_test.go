//go:build linux

package main

import (
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseCalls(t *testing.T) {
	got, err := parseCalls([]byte("\n327323,,syscalls:sys_enter_recvfrom,3425199685,100.00,,\n13,,syscalls:sys_enter_read,1,100.00,,\n" +
		"327340,,raw_syscalls:sys_enter,3425199685,100.00,,\n"))
	require.NoError(t, err)
	require.Equal(t, calls{"recvfrom": 327323, "read": 13, otherCalls: 4}, got)
	for name, report := range map[string]string{
		"nothing":     "",
		"no total":    "13,,syscalls:sys_enter_read,1,100.00,,\n",
		"not counted": "<not counted>,,raw_syscalls:sys_enter,0,0.00,,\n",
	} {
		_, err := parseCalls([]byte(report))
		require.Error(t, err, name)
	}
}

func TestCallsAreCountedByName(t *testing.T) {
	const reads = 1000
	null, err := os.Open("/dev/null")
	require.NoError(t, err)
	defer func() { _ = null.Close() }()
	got, err := countCalls(t.Context(), os.Getpid(), func() error {
		for range reads {
			if _, err := null.Read(make([]byte, 1)); err == nil {
				return errors.New("there is something in /dev/null")
			}
		}
		return nil
	})
	if errors.Is(err, errCannotCount) {
		t.Skip(err)
	}
	require.NoError(t, err)
	require.GreaterOrEqual(t, got["read"], int64(reads))
	require.Less(t, got["read"], int64(2*reads), "those of other goroutines are few")
}

func TestNothingIsDoneWherePerfIsMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := countCalls(t.Context(), os.Getpid(), func() error {
		t.Error("it was done")
		return nil
	})
	require.ErrorIs(t, err, errCannotCount)
}

func TestWhatFailsWhileCallsAreCountedFails(t *testing.T) {
	if _, err := countCalls(t.Context(), os.Getpid(), func() error { return nil }); errors.Is(err, errCannotCount) {
		t.Skip(err)
	}
	_, err := countCalls(t.Context(), os.Getpid(), func() error { return os.ErrClosed })
	require.ErrorIs(t, err, os.ErrClosed)
	require.NotErrorIs(t, err, errCannotCount)
}

func TestCallsThatAreSeldomHaveNoRow(t *testing.T) {
	servers := []*caller{
		{name: "bare", rounds: []calls{{"recvfrom": 2000, "write": 1000, "futex": 0}}, requests: []int64{1000}},
		{name: "edge", rounds: []calls{{"recvfrom": 1500, "write": 1000, "futex": 40, "close": 1}}, requests: []int64{2000}},
	}
	require.Equal(t, []string{"recvfrom", "write", "futex"}, shown(servers))
	row := callsCase("receive", servers, func(name string) bool { return name == "recvfrom" })
	require.Equal(t, []float64{2}, row.Measures[0].Rounds)
	require.Equal(t, []float64{0.75}, row.Measures[1].Rounds)
}
