package credentials_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/internal/credentials"
)

func place(t *testing.T) string {
	t.Helper()
	file, err := credentials.File(func(name string) string {
		return map[string]string{"XDG_CONFIG_HOME": filepath.Join(t.TempDir(), "config")}[name]
	})
	require.NoError(t, err)
	return file
}

func TestCredentialsAreForTheirOwnerOnly(t *testing.T) {
	file := place(t)
	empty, err := credentials.Read(file)
	require.NoError(t, err)
	require.Empty(t, empty.Servers)
	server := credentials.Server("https://go.example.com/")
	require.NoError(t, credentials.Change(file, func(s *credentials.Store) { s.Servers[server] = credentials.Login{Token: "t"} }))
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	dir, err := os.Stat(filepath.Dir(file))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), dir.Mode().Perm())
	s, err := credentials.Read(file)
	require.NoError(t, err)
	require.Equal(t, "t", s.Servers["https://go.example.com"].Token)

	require.NoError(t, os.Chmod(file, 0o640))
	_, err = credentials.Read(file)
	require.ErrorContains(t, err, "chmod 600")
}

func TestASpoiltFileIsSetAside(t *testing.T) {
	file := place(t)
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
	require.NoError(t, os.WriteFile(file, []byte(`{"servers": [`), 0o600))
	_, err := credentials.Read(file)
	require.ErrorContains(t, err, "waypost login")
	require.NoError(t, credentials.Change(file, func(s *credentials.Store) { s.Current = "x" }))
	aside, err := filepath.Glob(file + ".unreadable-*")
	require.NoError(t, err)
	require.Len(t, aside, 1)
	text, err := os.ReadFile(aside[0])
	require.NoError(t, err)
	require.Equal(t, `{"servers": [`, string(text))
}

func TestTwoLoginsAtOnceAreBothKept(t *testing.T) {
	file := place(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			name := string(rune('a' + i))
			require.NoError(t, credentials.Change(file, func(s *credentials.Store) { s.Servers[name] = credentials.Login{Token: name} }))
		})
	}
	wg.Wait()
	s, err := credentials.Read(file)
	require.NoError(t, err)
	require.Len(t, s.Servers, 8)
}

func FuzzNoFileEndsTheProgram(f *testing.F) {
	f.Add([]byte(`{"current": "x", "servers": {"x": {"token": "t"}}}`))
	f.Add([]byte(`{"servers": null}`))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte) {
		file := filepath.Join(dir, "c.json")
		require.NoError(t, os.WriteFile(file, text, 0o600))
		if s, err := credentials.Read(file); err == nil {
			require.NotNil(t, s.Servers)
		}
	})
}
