package lookup_test

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/edge/lookup"
)

func TestAvailable_IsTheLeastLimitOfControlGroupsAndMachine(t *testing.T) {
	const machine = "MemTotal:       16777216 kB\nMemFree:        1024 kB\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"nobody tells": {nil, 1 << 30},
		"the machine":  {map[string]string{"proc/meminfo": machine, "proc/self/cgroup": "0::/\n"}, 16 << 30},
		"version 2, a group above": {map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/memory.max": "536870912\n",
		}, 512 << 20},
		"version 2, in a container": {map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "268435456\n",
		}, 256 << 20},
		"version 1": {map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "3:cpu,cpuacct:/x\n2:memory:/docker/y\n0::/\n",
			"sys/fs/cgroup/memory/docker/y/memory.limit_in_bytes": "1073741824\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":          "9223372036854771712\n",
		}, 1 << 30},
		"version 1, in a container": {map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "2:memory:/docker/y\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "2147483648\n",
		}, 2 << 30},
		"unreadable files": {map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "nonsense\n0::\n", "sys/fs/cgroup/memory.max": "-1\n",
		}, 16 << 30},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for file, text := range c.files {
				require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, file)), 0o700))
				require.NoError(t, os.WriteFile(filepath.Join(root, file), []byte(text), 0o600))
			}
			require.Equal(t, c.want, lookup.AvailableAt(root))
		})
	}
}

func TestAvailable_IsAtMostTheGoRuntimesLimit(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	root := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(root, "proc"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(root, "proc", "meminfo"), []byte("MemTotal: 4194304 kB\n"), 0o600))
	for limit, want := range map[int64]int64{64 << 20: 64 << 20, 3 << 30: 3 << 30, 5 << 30: 4 << 30} {
		debug.SetMemoryLimit(limit)
		require.Equal(t, want, lookup.AvailableAt(root))
		require.Equal(t, limit, debug.SetMemoryLimit(-1), "Available changes nothing")
	}
	debug.SetMemoryLimit(64 << 20)
	require.EqualValues(t, 64<<20, lookup.Available(), "on this machine")
}
