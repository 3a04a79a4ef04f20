package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/api"
)

func TestProgressLine_StaysBelowOtherLines(t *testing.T) {
	screen, stderr := terminal(t)
	l := newProgressLine(stderr)
	im := api.Import{State: api.ImportRunning, Rows: 1000, Counts: api.ImportCounts{Left: 500}, Speed: 100, TimeLeft: 5}
	l.show(time.Now(), "%s", progressText(&im))
	_, _ = fmt.Fprintln(l, "a line")
	l.show(time.Now(), "too soon")
	l.finish()
	_, _ = fmt.Fprintln(stderr, "the end")

	require.NoError(t, screen.SetReadDeadline(time.Now().Add(time.Minute)))
	buf, text := make([]byte, 4096), ""
	for !strings.Contains(text, "the end\r\n") {
		n, err := screen.Read(buf)
		require.NoError(t, err, text)
		text += string(buf[:n])
	}
	require.Contains(t, text, clearLine+"[############............] 500 of 1000 rows imported, 100 a second, 5s left"+clearLine+"a line\r\nthe end")
}
