package memlimit

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAvailable_IsTheLeastOfControlGroupsAndMachine(t *testing.T) {
	const machine = "MemTotal:       16777216 kB\nMemFree:        1024 kB\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"unknown":     {nil, 1 << 30},
		"the machine": {map[string]string{"proc/meminfo": machine, "proc/self/cgroup": "0::/\n"}, 16 << 30},
		"a control group": {map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "268435456\n",
		}, 256 << 20},
		"a control group with more than the machine": {map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "34359738368\n",
		}, 16 << 30},
		"unreadable files": {map[string]string{
			"proc/meminfo": "MemTotal: much\n", "proc/self/cgroup": "nonsense\n0::\n", "sys/fs/cgroup/memory.max": "-1\n",
		}, 1 << 30},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, availableIn(files(c.files))) })
	}
}

func TestAvailable_IsAtMostTheGoRuntimesLimit(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	machine := files(map[string]string{"proc/meminfo": "MemTotal: 4194304 kB\n"})
	for limit, want := range map[int64]int64{64 << 20: 64 << 20, 3 << 30: 3 << 30, 5 << 30: 4 << 30} {
		debug.SetMemoryLimit(limit)
		require.Equal(t, want, availableIn(machine))
		require.Equal(t, limit, debug.SetMemoryLimit(-1), "Available changes nothing")
	}
	debug.SetMemoryLimit(64 << 20)
	require.EqualValues(t, 64<<20, Available(), "on this machine")
}
