package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/internal/config"
)

func TestManPages_CoverAllCommands(t *testing.T) {
	dir := t.TempDir()
	var out, errs strings.Builder
	p := &program{stdin: strings.NewReader(""), stdout: &out, stderr: &errs}
	require.Equal(t, exitOK, p.run(t.Context(), []string{"man", dir}), errs.String())
	require.Regexp(t, `^wrote \d+ manual pages\n$`, out.String())

	page, err := os.ReadFile(filepath.Join(dir, "waypost-links-create.1"))
	require.NoError(t, err)
	for _, has := range []string{".SH NAME\nwaypost-links-create - ", "\\fB--code\\fP", "\\fBwaypost-links(1)\\fP"} {
		require.Contains(t, string(page), has)
	}

	page, err = os.ReadFile(filepath.Join(dir, "waypost-edge.1"))
	require.NoError(t, err)
	require.Contains(t, string(page), `\fB--tls-orders-per-hour\fP`)
	page, err = os.ReadFile(filepath.Join(dir, "waypost-dev.1"))
	require.NoError(t, err)
	require.Contains(t, string(page), `\fB--data-dir\fP`)
	require.NotContains(t, string(page), config.DefaultDataDir(p.getenv), "which differs between users")
	require.NoFileExists(t, filepath.Join(dir, "waypost-man.1"), "it is for packages")

	require.Equal(t, exitFailure, p.run(t.Context(), []string{"man", filepath.Join(dir, "missing")}))
}
