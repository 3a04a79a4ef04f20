package broken_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

var head = regexp.MustCompile(`\ADefect: .+\nBreaks: .+\nTest: \./(\S+) (Test\w+)\n\n`)

func TestDefects_FitTheSourceAndNameATest(t *testing.T) {
	patches, err := filepath.Glob("defects/*.patch")
	require.NoError(t, err)
	require.NotEmpty(t, patches)
	for _, patch := range patches {
		t.Run(filepath.Base(patch), func(t *testing.T) {
			text, err := os.ReadFile(patch)
			require.NoError(t, err)
			named := head.FindSubmatch(text)
			require.NotNil(t, named, "it begins with Defect, Breaks and Test")
			require.True(t, hasTest(t, filepath.Join("../..", string(named[1])), string(named[2])), "there is a %s in %s", named[2], named[1])
			apply := exec.CommandContext(t.Context(), "git", "apply", "--check", filepath.Join("test/broken", patch))
			apply.Dir = "../.."
			out, err := apply.CombinedOutput()
			require.NoError(t, err, "%s", out)
		})
	}
}

// hasTest reports whether a directory has a test function.
func hasTest(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	require.NoError(t, err)
	function := regexp.MustCompile(`(?m)^func ` + name + `\(`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		if function.Match(text) {
			return true
		}
	}
	return false
}
