package condition_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/internal/condition"
)

var update = flag.Bool("update", false, "write the alerts and the table of their pages from the list")

const (
	alertsFile  = "../../deploy/alerts.yaml"
	pages       = "../../docs/operations/alerts"
	monitorPage = "../../docs/operations/monitor.md"
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

// The last column of the tables of metrics names the conditions that look at a metric.
func TestList_IsNamedByTheTablesOfMetrics(t *testing.T) {
	read := metricsOf(t)
	have, err := os.ReadFile(monitorPage)
	require.NoError(t, err)
	lines := strings.Split(string(have), "\n")
	named, inTable := make(map[string]bool), false
	for i, line := range lines {
		cells := strings.Split(line, "|")
		if inTable = line == "| metric | worry when | condition |" || inTable && len(cells) == 5; !inTable || !strings.HasPrefix(line, "| `") {
			continue
		}
		metrics := regexp.MustCompile(`\b(?:waypost|kgs)_\w+`).FindAllString(cells[1], -1)
		var links []string
		for j := range condition.List() {
			name := condition.List()[j].Name
			if slices.ContainsFunc(metrics, func(m string) bool { return slices.Contains(read[name], m) }) {
				links = append(links, fmt.Sprintf("[%s](alerts/%s.md)", name, name))
			}
		}
		for _, m := range metrics {
			named[m] = true
		}
		cells[3] = " " + strings.Join(links, ", ") + " "
		lines[i] = strings.Join(cells, "|")
	}
	for name, metrics := range read {
		for _, m := range metrics {
			require.True(t, named[m], "%s reads %s, which no table of metrics has", name, m)
		}
	}
	require.True(t, same(t, monitorPage, strings.Join(lines, "\n")),
		"docs/operations/monitor.md does not name the conditions of its metrics: go test ./internal/condition -update")
}

// metricsOf returns the metrics that each condition of the list looks at, by the names in
// the source. It leaves out metrics that only say that another condition is true.
func metricsOf(t *testing.T) map[string][]string {
	t.Helper()
	functions := make(map[string]*ast.FuncDecl)
	var list *ast.CompositeLit
	for _, file := range []string{"list.go", "figures.go"} {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				functions[n.Name.Name] = n
			case *ast.ValueSpec:
				if n.Names[0].Name == "list" {
					list, _ = n.Values[0].(*ast.CompositeLit)
				}
			}
			return true
		})
	}
	require.NotNil(t, list)
	read := make(map[string][]string)
	for i, kind := range list.Elts {
		name := condition.List()[i].Name
		seen := make(map[string]bool)
		var collect func(n ast.Node) bool
		collect = func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.Ident); ok && f.Name == "unless" {
					ast.Inspect(n.Args[0], collect)
					return false
				}
			case *ast.Ident:
				if f := functions[n.Name]; f != nil && !seen[n.Name] {
					seen[n.Name] = true
					ast.Inspect(f.Body, collect)
				}
			case *ast.BasicLit:
				if text := strings.Trim(n.Value, `"`); regexp.MustCompile(`^(?:waypost|kgs)_\w+$`).MatchString(text) {
					read[name] = append(read[name], text)
				}
			}
			return true
		}
		ast.Inspect(kind, collect)
	}
	require.Contains(t, read["KGSPoolLow"], "kgs_pool_size", "functions are followed")
	return read
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
