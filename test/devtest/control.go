package devtest

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"testing"
)

// ClusterSecret is the secret of every cluster that ControlConfig describes.
var ClusterSecret = [32]byte{31: 7}

// ControlConfig says how a control plane runs. It lets everybody in.
type ControlConfig struct {
	Database string // its URL
	DataDir  string // of this control plane alone
	Region   string
	Node     string
	Env      []string // further WAYPOST_* variables
}

// Control is a `waypost control` that was started as a process of its own.
type Control struct {
	Node       string
	API, Admin string // base URLs, once Ready has said so
	Fleet      string // base URL for edges; the API's unless they have a listener of their own
	child
}

// StartControl starts a control plane, without waiting for it. It is killed when
// the test ends, should it still run then. Any goroutine may call it.
func StartControl(t testing.TB, cfg ControlConfig) (*Control, error) {
	t.Helper()
	c := &Control{Node: cfg.Node}
	c.describe("control plane", cfg.Node, cfg.DataDir)
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return nil, err
	}
	err := c.start(t, append([]string{
		"WAYPOST_CONTROL_DATABASE_URL=" + cfg.Database,
		"WAYPOST_CONTROL_CLUSTER_SECRET=" + fmt.Sprintf("%x", ClusterSecret),
		"WAYPOST_CONTROL_EDGE_TOKEN=" + strings.Repeat("e", 32),
		"WAYPOST_CONTROL_BASE_URL=https://go.example.com",
		"WAYPOST_CONTROL_STRICT_HOSTS=false", // tests ask it by its address
		"WAYPOST_CONTROL_ANONYMOUS_WORKSPACE=true",
		"WAYPOST_CONTROL_DATA_DIR=" + cfg.DataDir,
	}, cfg.Env...), "control", "--addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0", "--region", cfg.Region, "--node", cfg.Node)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Ready waits until the control plane answers, and returns false when it ended instead.
func (c *Control) Ready() (bool, error) {
	status, ok, err := c.ready()
	if ok {
		c.API, c.Admin = "http://"+status.Addr, "http://"+status.AdminAddr
		c.Fleet = "http://" + cmp.Or(status.Fleet, status.Addr)
	}
	return ok, err
}
