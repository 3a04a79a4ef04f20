package waypost_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// namedTest finds tests like `edge/clicks.TestJournal_IsOfOneProcess`.
var namedTest = regexp.MustCompile("`([a-z][a-z/]*)\\.((?:Test|Fuzz)\\w+)`")

func TestReliability_NamesTestsThatExist(t *testing.T) {
	page, err := os.ReadFile("docs/reliability.md")
	require.NoError(t, err)
	known := map[string]map[string]bool{} // tests by package
	named := namedTest.FindAllStringSubmatch(string(page), -1)
	require.Greater(t, len(named), 100, "the page was read")
	for _, name := range named {
		dir, test := name[1], name[2]
		if known[dir] == nil {
			known[dir] = testsIn(t, dir)
		}
		if !known[dir][test] {
			t.Errorf("docs/reliability.md names %s, which %s does not have", test, dir)
		}
	}
}

// testsIn returns the tests of a package.
func testsIn(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(filepath.FromSlash(dir), "*_test.go"))
	require.NoError(t, err)
	tests := map[string]bool{}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, decl := range parsed.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil {
				tests[f.Name.Name] = true
			}
		}
	}
	return tests
}
