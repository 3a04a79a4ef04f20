package devtest

import (
	"strings"
	"testing"
)

// EdgeConfig says how an edge runs.
type EdgeConfig struct {
	Control string // base URL of the control plane, as ControlConfig describes it
	DataDir string // of this edge alone
	Region  string
	Node    string
	Addr    string   // HOST:PORT of the redirects; default: a free port of 127.0.0.1
	Env     []string // further variables
}

// Edge is a `waypost edge` that was started as a process of its own.
type Edge struct {
	Node  string
	Addr  string   // HOST:PORT of the redirects, once Ready has said so
	Admin string   // base URL of the admin listener, likewise
	TLS   []string // HOST:PORT of the redirects over TLS, likewise
	Relay string   // HOST:PORT at which other edges may follow this one, likewise
	child
}

// StartEdge starts an edge, without waiting for it. It is killed when the test ends,
// should it still run then. Any goroutine may call it.
func StartEdge(t testing.TB, cfg EdgeConfig) (*Edge, error) {
	t.Helper()
	e := &Edge{Node: cfg.Node}
	e.describe("edge", cfg.Node, cfg.DataDir)
	if cfg.Addr == "" {
		cfg.Addr = "127.0.0.1:0"
	}
	err := e.start(t, append([]string{
		"WAYPOST_EDGE_CONTROL_URLS=" + cfg.Control,
		"WAYPOST_EDGE_STRICT_HOSTS=false", // tests ask it by its address
		"WAYPOST_EDGE_TOKEN=" + strings.Repeat("e", 32),
		"WAYPOST_EDGE_DATA_DIR=" + cfg.DataDir,
	}, cfg.Env...), "edge", "--addr", cfg.Addr, "--admin-addr", "127.0.0.1:0", "--region", cfg.Region, "--node", cfg.Node)
	if err != nil {
		return nil, err
	}
	return e, nil
}

// Ready waits until the edge answers, and returns false when it ended instead.
func (e *Edge) Ready() (bool, error) {
	status, ok, err := e.ready()
	if ok {
		e.Addr, e.Admin, e.TLS, e.Relay = status.Addr, "http://"+status.AdminAddr, status.TLS, status.Relay
	}
	return ok, err
}
