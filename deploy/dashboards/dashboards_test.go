package dashboards

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDashboards_AreTheFiles compares the files with the lists of panels, or writes
// them.
func TestDashboards_AreTheFiles(t *testing.T) {
	names := make(map[string]bool)
	for _, d := range all() {
		text, err := d.file()
		require.NoError(t, err)
		name := d.ID + ".json"
		names[name] = true
		if os.Getenv("WAYPOST_WRITE_DASHBOARDS") != "" {
			require.NoError(t, os.WriteFile(name, text, 0o644))
		}
		have, err := os.ReadFile(name)
		require.NoError(t, err)
		require.Equal(t, string(text), string(have), "WAYPOST_WRITE_DASHBOARDS=1 go test ./deploy/dashboards")
	}
	files, err := filepath.Glob("*.json")
	require.NoError(t, err)
	require.Len(t, files, len(names))
}

// TestDashboards_HaveExpressionsThatParse asks the parser of Prometheus, which
// `make test-alerts` names.
func TestDashboards_HaveExpressionsThatParse(t *testing.T) {
	promtool := os.Getenv("PROMTOOL")
	if promtool == "" {
		t.Skip("make test-alerts runs it, with PROMTOOL")
	}
	rules := "groups:\n- name: dashboards\n  rules:\n"
	n := 0
	for _, d := range all() {
		for _, p := range d.Panels {
			for _, q := range p.Queries {
				rules += fmt.Sprintf("  - {record: 'panel:%d', expr: '%s'}\n", n, strings.ReplaceAll(q.Expr, "$instance", ".*"))
				n++
			}
		}
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(file, []byte(rules), 0o600))
	out, err := exec.CommandContext(t.Context(), promtool, "check", "rules", file).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), fmt.Sprintf("%d rules found", n))
}
