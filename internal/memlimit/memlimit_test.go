package memlimit

import (
	"bytes"
	"log/slog"
	"runtime/debug"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func files(contents map[string]string) fstest.MapFS {
	f := fstest.MapFS{}
	for name, text := range contents {
		f[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return f
}

func TestTheLeastLimitOfAllGroupsAboveCounts(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  int64 // 0: none
	}{
		"version 2, of a service": {map[string]string{
			"proc/self/cgroup": "0::/system.slice/waypost-edge.service\n",
			"sys/fs/cgroup/system.slice/waypost-edge.service/memory.max": "1073741824\n",
			"sys/fs/cgroup/system.slice/memory.max":                      "max\n",
		}, 1 << 30},
		"version 2, of a slice above": {map[string]string{
			"proc/self/cgroup":             "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max": "max\n",
			"sys/fs/cgroup/a/memory.max":   "536870912\n",
		}, 512 << 20},
		"version 2, in a container": {map[string]string{
			"proc/self/cgroup":         "0::/\n",
			"sys/fs/cgroup/memory.max": "268435456\n",
		}, 256 << 20},
		"version 1": {map[string]string{
			"proc/self/cgroup": "5:devices:/x\n4:cpu,memory:/x\n0::/\n",
			"sys/fs/cgroup/memory/x/memory.limit_in_bytes": "1073741824\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":   "9223372036854771712\n",
		}, 1 << 30},
		"version 1, with the host's path": {map[string]string{
			"proc/self/cgroup":                           "4:memory:/docker/abc\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "1073741824\n",
		}, 1 << 30},
		"version 1 without a limit": {map[string]string{
			"proc/self/cgroup":                           "4:memory:/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
		}, 0},
		"none at all":          {nil, 0},
		"what cannot be read":  {map[string]string{"proc/self/cgroup": "x\n0::/../../etc\n", "sys/fs/cgroup/memory.max": "lots"}, 0},
		"a limit that is none": {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "-1"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := allowedBy(files(c.files))
			require.Equal(t, c.want != 0, ok)
			if ok {
				require.Equal(t, c.want, got)
			}
		})
	}
}

func TestThereIsRoomForWhatIsOutsideOfTheHeap(t *testing.T) {
	require.EqualValues(t, 900, within(1000, 0))
	require.EqualValues(t, 450, within(1000, 500))
	require.EqualValues(t, 250, within(1000, 2000), "some is left in any case")
}

func TestGOMEMLIMITIsTheOperatorsWord(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Setenv("GOMEMLIMIT", "1GiB")
	var log bytes.Buffer
	Apply(0, slog.New(slog.NewTextHandler(&log, nil)))
	require.Equal(t, before, debug.SetMemoryLimit(-1))
	require.Empty(t, log.String())
}
