package dev

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLinesOfSeveralProcessesAreNeverMixed(t *testing.T) {
	var to bytes.Buffer
	out := newOutput(&to, false)
	a, b := out.named("control"), out.named("edge us-east-1")
	for _, w := range []struct {
		lines *lines
		text  string
	}{{a, "first "}, {b, "one\ntwo\nthr"}, {a, "line\n"}, {b, "ee\n"}, {a, "unfinished"}} {
		n, err := w.lines.Write([]byte(w.text))
		require.NoError(t, err)
		require.Equal(t, len(w.text), n)
	}
	require.Equal(t, "first line", a.lastLine())
	require.NoError(t, out.flush())
	require.Equal(t, "edge us-east-1  | one\nedge us-east-1  | two\ncontrol         | first line\nedge us-east-1  | three\ncontrol         | unfinished\n", to.String())
	require.Same(t, a, out.named("control"), "a process that is started again goes on with the same writer")
}

func TestAnEndlessLineIsBrokenUp(t *testing.T) {
	var to bytes.Buffer
	out := newOutput(&to, true)
	_, err := out.named("x").Write([]byte(strings.Repeat("y", maxLine+1)))
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(to.String(), "\x1b[36mx"), "a color on a terminal")
	require.Equal(t, 1, strings.Count(to.String(), "\n"))
	require.Empty(t, out.named("x").partial)
}
