package keys_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/controlplane/keys"
	"waypost/internal/datadir"
)

func TestMemory_IsAFileThatNoOtherUserReads(t *testing.T) {
	root := t.TempDir()
	dir, err := datadir.Open(root, datadir.Control, 0o700)
	require.NoError(t, err)
	defer func() { require.NoError(t, dir.Close()) }()
	m := keys.Memory{Dir: dir}
	nothing, err := m.Load()
	require.NoError(t, err)
	require.Nil(t, nothing)
	for _, document := range []string{"first", "second"} {
		require.NoError(t, m.Save([]byte(document)))
		got, err := m.Load()
		require.NoError(t, err)
		require.Equal(t, document, string(got))
	}
	info, err := os.Stat(dir.Path("keys.witness"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	require.NoError(t, m.SetAside())
	nothing, err = m.Load()
	require.NoError(t, err)
	require.Nil(t, nothing)
	entries, err := os.ReadDir(root)
	require.NoError(t, err)
	var kept []byte
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "keys.witness.unreadable-") {
			kept, err = os.ReadFile(dir.Path(e.Name()))
			require.NoError(t, err)
		}
	}
	require.Equal(t, "second", string(kept), "what cannot be read is kept for people to look at")
}
