package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/internal/linkimport"
)

func TestProgressLine_StaysBelowRefusedRows(t *testing.T) {
	screen, stderr := terminal(t)
	p := &program{stderr: stderr}
	progress, lines, finish := linksCommands{p}.importProgress(1000)
	tell := &telling{p: p, lines: lines}
	progress(10, 100)
	require.NoError(t, tell.refused(linkimport.Row{Line: 2, Reason: "no"}))
	progress(11, 200) // too soon
	require.NoError(t, tell.refused(linkimport.Row{Line: 3, Reason: "no"}))
	finish()
	tell.lines = stderr
	require.NoError(t, tell.list("in doubt", linkimport.Row{Line: 99, Reason: "unknown"}))

	require.NoError(t, screen.SetReadDeadline(time.Now().Add(time.Minute)))
	buf, text := make([]byte, 4096), ""
	for !strings.Contains(text, "line 99 in doubt: unknown\r\n") {
		n, err := screen.Read(buf)
		require.NoError(t, err, text)
		text += string(buf[:n])
	}
	require.Contains(t, text, clearLine+"10 rows so far, 10 % of the file"+clearLine+"line 2 refused: no\r\nline 3 refused: no\r\n")
}
