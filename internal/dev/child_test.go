package dev

import (
	"io"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAProcessThatEndedInOrderDidSoWhoeverHoldsItsOutput(t *testing.T) {
	c := &child{cmd: exec.CommandContext(t.Context(), "sh", "-c", "sleep 1 &"), done: make(chan struct{})}
	c.cmd.Stdout = struct{ io.Writer }{io.Discard}
	c.cmd.WaitDelay = time.Millisecond
	started := make(chan error)
	go c.supervise(started)
	require.NoError(t, <-started)
	require.NoError(t, c.Err())
}
