//go:build linux

package main

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestTheTimeOfAProcessIsKnown(t *testing.T) {
	self := &target{pids: []int{os.Getpid()}}
	before, err := self.cpu()
	require.NoError(t, err)
	used := func() time.Duration {
		var u unix.Rusage
		require.NoError(t, unix.Getrusage(unix.RUSAGE_SELF, &u))
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	x := uint64(1)
	for start := used(); used() < start+50*time.Millisecond; {
		x = x*31 + 7
	}
	after, err := self.cpu()
	require.NoError(t, err)
	require.Greater(t, after-before, 5*time.Millisecond, "%d", x)
	memory, err := self.memory()
	require.NoError(t, err)
	require.Greater(t, memory, int64(1<<20))
	_, err = (&target{pids: []int{1 << 22}}).cpu()
	require.Error(t, err)
	_, err = kilobytes([]byte("Rss: 12 kB\n"), "Pss:")
	require.Error(t, err)
}

func TestOptions(t *testing.T) {
	o, err := parseOptions(nil)
	require.NoError(t, err)
	require.Equal(t, []string{"uniform-1m", "zipf-1m", "misses-1m", "latency-1m", "profile-1m"}, o.Only)
	o, err = parseOptions([]string{"-full"})
	require.NoError(t, err)
	require.Equal(t, names(all), o.Only)
	o, err = parseOptions([]string{"-only", "latency-10m,misses-10m"})
	require.NoError(t, err)
	require.Equal(t, []string{"latency-10m", "misses-10m"}, o.Only)
	for _, args := range [][]string{
		{"-only", "unknown"}, {"-rounds", "0"}, {"-round", "1500ms"}, {"-connections", "0"}, {"-threads", "65"}, {"more"},
	} {
		_, err := parseOptions(args)
		require.Error(t, err, args)
	}
}
