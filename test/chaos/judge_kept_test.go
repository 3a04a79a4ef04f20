package chaos

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// WAYPOST_CHAOS_HISTORY names the file of a run that has failed, to judge it once more.
func TestJudge_KeptHistory(t *testing.T) {
	path := os.Getenv("WAYPOST_CHAOS_HISTORY")
	if path == "" {
		t.Skip("WAYPOST_CHAOS_HISTORY names no history")
	}
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	h, err := Read(f)
	require.NoError(t, err)
	found := Judge(h)
	t.Logf("\n%s", Table(h, found))
	for _, v := range found {
		t.Error(v)
	}
}
