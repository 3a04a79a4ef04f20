package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// acting makes the tests below do what the runner is to find, in processes of their own.
const acting = "WAYPOST_RUNNER_ACTS"

func act(t *testing.T, as string) {
	if os.Getenv(acting) == "" {
		t.Skip("runs in the process that TestRunner_EndsATestThatHangs starts")
	}
	switch as {
	case "hang":
		time.Sleep(time.Minute)
	case "pause":
		t.Parallel()
	}
}

func TestActor1_Passes(t *testing.T) { act(t, "pass") }
func TestActor2_Pauses(t *testing.T) { act(t, "pause") }
func TestActor3_Hangs(t *testing.T)  { t.Run("inside", func(t *testing.T) { act(t, "hang") }) }
func TestActor4_Passes(t *testing.T) { act(t, "pass") }

func TestRunner_EndsATestThatHangs(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	t.Setenv(acting, "yes")
	var out bytes.Buffer
	code := runAll([]string{os.Args[0], "-test.v=test2json", "-test.run=^TestActor"}, 3*time.Second, &out)
	text := out.String()
	require.Equal(t, 1, code, text)
	require.Contains(t, text, "SIGQUIT: quit")
	require.Contains(t, text, "runner.act(", "the stack of the test")
	for line, times := range map[string]int{
		"--- PASS: TestActor1_Passes": 1,
		"--- PASS: TestActor2_Pauses": 1,
		"--- FAIL: TestActor3_Hangs":  1,
		"--- PASS: TestActor4_Passes": 1,
	} {
		require.Equal(t, times, strings.Count(text, mark+line+" ("), "%s in:\n%s", line, text)
	}
}

func TestRunner_ReturnsTheExitCode(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	for script, code := range map[string]int{"exit 0": 0, "exit 3": 3, "kill -9 $$": 1} {
		var out bytes.Buffer
		require.Equal(t, code, runAll([]string{"/bin/sh", "-c", "echo said; " + script}, time.Minute, &out), script)
		require.Equal(t, "said\n", out.String())
	}
}
