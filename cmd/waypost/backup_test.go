package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/controlplane/backup"
)

func TestRestore_SaysThatTheRowsOfABackupDidNotAddUp(t *testing.T) {
	whole := backup.Restored{Manifest: backup.Manifest{Digest: "00000000000000aa", Rows: "00000000000000aa"}}
	require.Contains(t, restoredText(whole, true), "the rows add up to the digest of the manifest\n")
	require.NotContains(t, restoredText(whole, true), "WARNING")

	damaged := backup.Restored{Manifest: backup.Manifest{Digest: "00000000000000aa", Rows: "00000000000000bb"}}
	require.NotContains(t, restoredText(damaged, true), "the rows add up")
	require.Contains(t, restoredText(damaged, true), "WARNING: they do not add up to the digest of the changelog")
	require.Contains(t, restoredText(damaged, true), "waypost verify --source --recompute")
}
