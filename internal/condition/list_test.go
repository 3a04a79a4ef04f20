package condition_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/internal/condition"
)

var update = flag.Bool("update", false, "write the alerts and the table of their pages from the list")

const (
	alertsFile = "../../deploy/alerts.yaml"
	pages      = "../../docs/operations/alerts"
)

// groups of alerts, by the metric's job for nodes that are down.
var groups = []struct {
	name, title string
	has         func(k *condition.Kind) bool
}{
	{"waypost-nodes", "Nodes that are down", func(k *condition.Kind) bool { return k.On == 0 }},
	{"waypost-edges", "Edges", func(k *condition.Kind) bool { return k.On&condition.Edge != 0 }},
	{"waypost-control", "Control planes", func(k *condition.Kind) bool { return k.On == condition.Control && !strings.HasPrefix(k.Name, "KGS") }},
	{"waypost-keys", "Keys", func(k *condition.Kind) bool { return strings.HasPrefix(k.Name, "KGS") }},
}

// jobs of Prometheus by the conditions of nodes that are down.
var jobs = map[string]string{"EdgeDown": "waypost-edge", "ControlPlaneDown": "waypost-control"}

func TestList_IsTheAlerts(t *testing.T) {
	var b strings.Builder
	b.WriteString(`# Alerts for Prometheus: name this file under rule_files, and scrape the admin listener of
# every control plane (job waypost-control) and every edge (job waypost-edge), as
# prometheus.yaml does. Each rule links to its runbook below the external label runbooks,
# which prometheus.yaml sets. Nodes evaluate the conditions: internal/condition has the
# list, from which "go test ./internal/condition -update" writes this file.
# alerts_test.yaml tests it (make test-alerts).
groups:
`)
	for _, g := range groups {
		fmt.Fprintf(&b, "  - name: %s\n    rules:\n", g.name)
		for i := range condition.List() {
			if k := &condition.List()[i]; g.has(k) {
				writeRule(&b, k)
			}
		}
	}
	require.True(t, same(t, alertsFile, strings.ReplaceAll(b.String(), "\n\n  - name", "\n  - name")),
		"deploy/alerts.yaml is not what the list says: go test ./internal/condition -update")
}

// A control plane takes no report with a text that it cannot show to an operator.
func TestList_HasTextsThatReportsMayHave(t *testing.T) {
	for i := range condition.List() {
		k := &condition.List()[i]
		require.Regexp(t, `^[ -~]+$`, k.What+k.Do, k.Name)
	}
}

func writeRule(b *strings.Builder, k *condition.Kind) {
	expr, subject := fmt.Sprintf(`waypost_condition{name="%s"} == 1`, k.Name), "{{ $labels.instance }}"
	switch {
	case k.On == 0:
		expr = fmt.Sprintf(`up{job="%s"} == 0`, jobs[k.Name])
	case k.Cluster: // every control plane says it
		expr, subject = fmt.Sprintf(`max by (name, of) (waypost_condition{name="%s"}) == 1`, k.Name), `{{ or $labels.of "The cluster" }}`
	}
	fmt.Fprintf(b, "      - alert: %s\n        expr: %s\n", k.Name, expr)
	if k.For > 0 {
		fmt.Fprintf(b, "        for: %s\n", duration(k.For))
	}
	quoted := func(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
	fmt.Fprintf(b, "        labels:\n          severity: %s\n        annotations:\n          summary: %s\n          description: %s\n"+
		"          runbook_url: '{{ $externalLabels.runbooks }}/%s.md'\n\n",
		k.Severity, quoted(subject+" "+k.What), quoted(strings.ReplaceAll(k.Do, "REGION", "{{ $labels.of }}")), k.Name)
}

// duration writes whole hours or minutes as Prometheus reads them.
func duration(d time.Duration) string {
	if d%time.Hour == 0 {
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dm", d/time.Minute)
}

func TestList_IsTheTableOfThePages(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Alerts\n\n" +
		"Nodes evaluate these conditions, and show them as `waypost_condition{name, severity}`, in their `/readyz` and in their reports.\n" +
		"`waypost doctor` and the console read the reports; `deploy/alerts.yaml` has a rule for each condition, which links to its page here (`runbook_url`), and `deploy/prometheus.yaml` scrapes for them.\n" +
		"*Critical* should wake somebody, *warning* can wait until morning.\n" +
		"An alert fires once the condition has lasted for the time in the table.\n")
	for _, g := range groups {
		fmt.Fprintf(&b, "\n## %s\n\n| condition | severity | alert after | the node |\n|---|---|---|---|\n", g.title)
		for i := range condition.List() {
			if k := &condition.List()[i]; g.has(k) {
				after := "at once"
				if k.For > 0 {
					after = duration(k.For)
				}
				fmt.Fprintf(&b, "| [%s](%s.md) | %s | %s | %s |\n", k.Name, k.Name, k.Severity, after, k.What)
			}
		}
	}
	require.True(t, same(t, filepath.Join(pages, "README.md"), b.String()),
		"docs/operations/alerts/README.md is not what the list says: go test ./internal/condition -update")

	named := map[string]bool{"README.md": true}
	for i := range condition.List() {
		k := &condition.List()[i]
		named[k.Name+".md"] = true
		text, err := os.ReadFile(filepath.Join(pages, k.Name+".md"))
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(string(text), "# "+k.Name+"\n"), k.Name)
		for _, part := range []string{"**What is noticed.**", "**Look.**", "**Do.**"} {
			require.Contains(t, string(text), part, k.Name)
		}
	}
	there, err := os.ReadDir(pages)
	require.NoError(t, err)
	for _, f := range there {
		require.True(t, named[f.Name()], "%s is a page without a condition", f.Name())
	}
}

// same compares a file with a text, after it has written it for -update.
func same(t *testing.T, file, text string) bool {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	have, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(have) == text
}
