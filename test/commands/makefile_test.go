package commands_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../.."

// runMake runs make with programs in the place of others, which only note that they ran,
// and returns its output and the notes.
func runMake(t *testing.T, args ...string) (output, ran string) {
	t.Helper()
	stubs := t.TempDir()
	notes := filepath.Join(stubs, "notes")
	for _, name := range []string{"go", "git", "nproc", "npm", "promtool", "apt-get"} {
		script := "#!/bin/sh\necho " + name + " \"$@\" >>" + notes + "\n"
		require.NoError(t, os.WriteFile(filepath.Join(stubs, name), []byte(script), 0o700))
	}
	cmd := exec.CommandContext(t.Context(), "make", args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "PATH="+stubs+":"+os.Getenv("PATH"), "MAKEFLAGS=", "MAKELEVEL=")
	text, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", text)
	said, err := os.ReadFile(notes)
	if !os.IsNotExist(err) {
		require.NoError(t, err)
	}
	return string(text), string(said)
}

func TestMakefile_DryRunStartsNothing(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	targets := regexp.MustCompile(`(?m)^([a-z-]+):.*## `).FindAllStringSubmatch(string(makefile), -1)
	require.Greater(t, len(targets), 20, "the targets were found")
	for _, target := range targets {
		bin := t.TempDir()
		output, ran := runMake(t, "-n", target[1], "BIN="+bin)
		require.NotEmpty(t, output, target[1])
		require.Empty(t, ran, target[1])
		made, err := os.ReadDir(bin)
		require.NoError(t, err)
		require.Empty(t, made, target[1])
	}
	output, _ := runMake(t, "-n", "run")
	require.Regexp(t, `(?s)install-missing.sh postgres.*go build .*waypost dev`, output)
}

func TestMakefile_SaysThatTheFirstBuildTakesMinutes(t *testing.T) {
	bin := t.TempDir()
	output, ran := runMake(t, "build", "BIN="+bin)
	require.Contains(t, output, "Building for the first time: this takes some minutes")
	require.Contains(t, ran, "go build")
	require.NoError(t, os.WriteFile(filepath.Join(bin, "waypost"), nil, 0o700)) //nolint:gosec // a program
	output, _ = runMake(t, "build", "BIN="+bin)
	require.NotContains(t, output, "first time")
}
