package clicks_test

import (
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The runtime ends a process that gets no memory, where it is and without a word to
// anybody.
func TestJournal_ProcessWithoutMemoryLosesNoClickAndCountsNoneTwice(t *testing.T) {
	control, dir := newControlPlane(t), t.TempDir()
	const ends = 5
	var recorded [recorders]uint64
	for range ends {
		got, said := endAfter(t, dir, control.url, 1+rand.N(4000), func(p *os.Process) error {
			none := &unix.Rlimit{Cur: 1 << 20, Max: 1 << 20} // of its addresses: less than it has
			if err := unix.Prlimit(p.Pid, unix.RLIMIT_AS, none, nil); err != nil {
				return err
			}
			return p.Signal(starve)
		})
		require.NotEmpty(t, said, "the runtime's last words, which differ by where it was")
		for r, n := range got {
			recorded[r] += n
		}
	}
	shipAll(t, open(t, config(dir)), control)
	requireCounted(t, dir, control, recorded, ends)
}
