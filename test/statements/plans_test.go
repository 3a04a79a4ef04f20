package statements_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// explained are the settings by which PostgreSQL logs the plan of every statement as it
// was executed, also of those in functions and triggers.
var explained = map[string]string{
	"session_preload_libraries":          "auto_explain",
	"auto_explain.log_min_duration":      "0",
	"auto_explain.log_nested_statements": "on",
	"auto_explain.log_analyze":           "on",
	"auto_explain.log_timing":            "off",
	"auto_explain.log_buffers":           "on",
	"auto_explain.log_format":            "json",
	"logging_collector":                  "on",
	"log_destination":                    "jsonlog",
	"log_directory":                      "plans",
}

// node is a node of a plan.
type node struct {
	Cost     float64 `json:"Total Cost"`
	Hit      int64   `json:"Shared Hit Blocks"`
	Read     int64   `json:"Shared Read Blocks"`
	Type     string  `json:"Node Type"`
	Relation string  `json:"Relation Name"`
	Plans    []node
}

// scanned returns the pages that were read to find rows. It leaves out the pages of
// functions, which read the catalog when they are called for the first time; auto_explain
// logs their statements as well.
func (n *node) scanned() (pages int64) {
	if n.Relation != "" && n.Type != "ModifyTable" {
		pages = n.Hit + n.Read
	}
	for i := range n.Plans {
		pages += n.Plans[i].scanned()
	}
	return pages
}

// execution is a statement with its plan, as auto_explain logs it.
type execution struct {
	Text string `json:"Query Text"`
	Plan node
	JIT  json.RawMessage
}

// planLog reads what PostgreSQL logs.
type planLog struct {
	dir  string
	seen map[string]int64 // bytes of each file
}

// readNew returns the executions since the last call, by the statement's text. It leaves
// out those of other clients than control planes.
func (l *planLog) readNew(t *testing.T) map[string][]execution {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(l.dir, "data", "plans", "*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	all := make(map[string][]execution)
	for _, name := range files {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		text = text[l.seen[name]:]
		text = text[:bytes.LastIndexByte(text, '\n')+1]
		l.seen[name] += int64(len(text))
		for line := range bytes.Lines(text) {
			var entry struct {
				Message     string
				Application string `json:"application_name"`
			}
			require.NoError(t, json.Unmarshal(line, &entry))
			_, plan, ok := strings.Cut(entry.Message, "plan:\n")
			if !ok || entry.Application != "waypost" {
				continue
			}
			var e execution
			require.NoError(t, json.Unmarshal([]byte(plan), &e), plan)
			all[e.Text] = append(all[e.Text], e)
		}
	}
	return all
}
