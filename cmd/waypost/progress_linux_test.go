package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"waypost/internal/linkimport"
)

func TestRefusedRowsStandAboveTheBar(t *testing.T) {
	screen, stderr := terminal(t)
	require.NoError(t, unix.IoctlSetWinsize(int(stderr.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 100}))
	p := &program{stderr: stderr}
	progress, lines, finish := linksCommands{p}.importProgress(1000)
	tell := &telling{p: p, lines: lines}
	require.NoError(t, screen.SetReadDeadline(time.Now().Add(time.Minute)))
	buf, text := make([]byte, 4096), ""
	await := func(what string) {
		t.Helper()
		for !strings.Contains(text, what) {
			n, err := screen.Read(buf)
			require.NoError(t, err, what)
			text += string(buf[:n])
		}
	}
	for i := range 5 {
		progress(10+i, int64(100*i))
		await(fmt.Sprintf("%d rows", 10+i)) // the bar is drawn again
		require.NoError(t, tell.refused(linkimport.Row{Line: i + 2, Reason: "no"}))
	}
	finish()
	tell.lines = stderr
	require.NoError(t, tell.list("in doubt", linkimport.Row{Line: 99, Reason: "nobody knows"}))

	// What a terminal shows: a line goes away when the cursor goes up to it, and what is
	// below is erased.
	var shown []string
	await("line 99 in doubt: nobody knows\r\n")
	for _, line := range strings.Split(text, "\n") {
		for strings.HasPrefix(line, "\x1b[") {
			end := strings.IndexAny(line[2:], "AJK") + 2
			up := 0
			if line[end] == 'A' {
				_, err := fmt.Sscanf(line[2:], "%dA", &up)
				require.NoError(t, err)
			}
			shown, line = shown[:max(len(shown)-up, 0)], line[end+1:]
		}
		shown = append(shown, strings.TrimSuffix(line, "\r"))
	}
	for i := range 5 {
		require.Contains(t, shown, fmt.Sprintf("line %d refused: no", i+2), "%q", text)
	}
}
