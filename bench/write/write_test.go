//go:build linux

package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/test/devtest"
)

const realLinks = "../../testdata/links.csv"

func TestProgram_Try(t *testing.T) {
	binary, out := devtest.Binary(t), t.TempDir()
	require.NoError(t, measure(t.Context(), []string{"-try", "-waypost", binary, "-targets", realLinks, "-out", out, "-only", "create,import,lag,snapshot,clicks,lasting"}))
	require.NoFileExists(t, out+"/RESULTS.md")
	require.Error(t, measure(t.Context(), []string{"-only", "unknown", "-targets", realLinks}))
}
