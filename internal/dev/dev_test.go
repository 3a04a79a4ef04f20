package dev

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/internal/datadir"
)

func TestNextSteps_NameTheDataDirectory(t *testing.T) {
	at := filepath.Join(t.TempDir(), "data")
	dir, err := datadir.Open(at, datadir.Dev, 0o711)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, dir.Close()) })
	s := &system{cfg: Config{Settings: settings(t), Executable: "/usr/bin/waypost"}, dir: dir, state: newStateFile(StateFile(at))}
	s.cfg.Settings.Dev.DataDir = at
	s.plan, err = makePlan(s.cfg.Settings)
	require.NoError(t, err)
	require.NoError(t, s.state.setConsole("http://localhost:8080/console/sign-in#x"))
	require.Contains(t, s.nextSteps(), "`waypost admin sign-in --email dev@localhost --data-dir "+at+"` makes another")
}
