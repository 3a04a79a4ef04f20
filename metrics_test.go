package waypost_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// metricName finds the name of a metric, also a part of it.
var metricName = regexp.MustCompile(`^(?:waypost|kgs)_[a-z0-9_]*$`)

// Operators find each metric in the documentation, in an alert or on a dashboard.
func TestMetrics_AreDocumented(t *testing.T) {
	files, err := sources()
	require.NoError(t, err)
	named := make(map[string]string) // files by metric
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		if !slices.ContainsFunc(parsed.Imports, func(i *ast.ImportSpec) bool {
			return strings.HasPrefix(i.Path.Value, `"github.com/prometheus/client_golang/prometheus`)
		}) {
			continue
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if name, err := strconv.Unquote(lit.Value); err == nil && metricName.MatchString(name) {
					named[name] = file
				}
			}
			return true
		})
	}
	require.Greater(t, len(named), 80, "the tree was found")
	var documented strings.Builder
	for _, dir := range []string{"docs", "deploy"} {
		require.NoError(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil || !slices.Contains([]string{".md", ".yaml", ".json"}, filepath.Ext(name)) {
				return err
			}
			text, err := os.ReadFile(name)
			documented.Write(text)
			return err
		}))
	}
	for name, file := range named {
		switch {
		case strings.HasSuffix(name, "_"):
			t.Errorf("%s puts the name of a metric together from %s: write it in full, so that a search finds it", file, name)
		case !regexp.MustCompile(`\b` + name + `(?:_bucket|_sum|_count)?\b`).MatchString(documented.String()):
			t.Errorf("%s registers %s, which is in no page of docs and nowhere in deploy", file, name)
		}
	}
}
