package fleet_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/gossip"
	"waypost/edge/node"
	"waypost/edge/replica"
	"waypost/internal/admin"
	"waypost/test/devtest"
)

// edge is one of the fleet: a process of its own, or a node in the process of the test.
type edge struct {
	f       *fleet
	name    string
	region  string
	number  int // of its addresses
	process bool
	dir     string

	// up is held for reading during a visit, so that no request is under way when the edge
	// is told to stop.
	up     sync.RWMutex
	serves bool
	status admin.Status

	proc *devtest.Process // nil: it runs here
	stop context.CancelFunc
	done chan error
}

func (e *edge) dataDir() string { return filepath.Join(e.dir, "data") }

// start starts the edge, and waits until it serves.
func (e *edge) start() {
	e.f.t.Helper()
	if e.process {
		e.startProcess()
	} else {
		e.startHere()
	}
	e.up.Lock()
	defer e.up.Unlock()
	e.serves = true
}

func (e *edge) startProcess() {
	own, shown := e.f.net.own(e.number), e.f.net.shown(e.number)
	env := []string{
		"WAYPOST_EDGE_ADDR=127.0.0.1:0", "WAYPOST_EDGE_ADMIN_ADDR=127.0.0.1:0", "WAYPOST_EDGE_REGION=" + e.region, "WAYPOST_EDGE_NODE=" + e.name,
		"WAYPOST_EDGE_CONTROL_URLS=" + strings.Join(e.f.controlURLs(e.region), ","), "WAYPOST_EDGE_TOKEN=" + token,
		"WAYPOST_EDGE_DATA_DIR=" + e.dataDir(), "WAYPOST_EDGE_STRICT_HOSTS=false",
		"WAYPOST_GOSSIP_ADDR=" + own.String(), "WAYPOST_GOSSIP_ADVERTISE=" + shown.String(),
		"WAYPOST_GOSSIP_SEEDS=" + strings.Join(e.f.seeds(), ","),
		"WAYPOST_GOSSIP_KEY=" + gossipKey,
	}
	if e.name == relay {
		env = append(env, "WAYPOST_EDGE_RELAY_ADDR="+e.f.relayAddr())
	}
	e.proc = devtest.Spawn(e.f.t, env, "edge")
	status := devtest.AwaitStatus(e.f.t, e.dataDir(), func(s admin.Status) bool { return s.PID == e.proc.PID() })
	e.up.Lock()
	e.status = status
	e.up.Unlock()
}

func (e *edge) startHere() {
	_ = os.Remove(filepath.Join(e.dataDir(), admin.StatusFile)) // the one before has left it
	keys, err := gossip.ParseKeys(gossipKey)
	require.NoError(e.f.t, err)
	cfg := node.Config{
		Version: "0.0.0", Region: waypost.Region(e.region), Node: e.name, DataDir: e.dataDir(),
		Control: node.Control{URLs: e.f.controlURLs(e.region), Token: token},
		Listen:  node.Listen{Addr: []string{"127.0.0.1:0"}, Admin: "127.0.0.1:0"},
		Replica: replica.Config{CacheBytes: 4 << 20, LookupBytes: 1 << 20, VerifyInterval: -1},
		Gossip: gossip.Config{
			Bind: e.f.net.own(e.number).String(), Advertise: e.f.net.shown(e.number).String(), Seeds: e.f.seeds(), Keys: keys,
			Rejoin: 2 * time.Second,
		},
		ClickJournal: 64 << 20, ShutdownTimeout: time.Minute,
	}
	ctx, stop := context.WithCancel(context.Background())
	e.stop, e.done = stop, make(chan error, 1)
	done := e.done
	go func() { done <- node.Run(ctx, cfg, slog.New(slog.DiscardHandler)) }()
	e.up.Lock()
	defer e.up.Unlock()
	e.status = devtest.AwaitStatus(e.f.t, e.dataDir(), func(admin.Status) bool { return true })
}

// down lets no more visitors in, and waits for those who are there.
func (e *edge) down() {
	e.up.Lock()
	defer e.up.Unlock()
	e.serves = false
}

// restart lets a process restart without a lost request, and stops and starts an edge
// that runs here.
func (e *edge) restart() {
	if !e.process {
		e.end()
		e.start()
		return
	}
	e.proc.Signal(syscall.SIGHUP)
	status := devtest.AwaitStatus(e.f.t, e.dataDir(), func(s admin.Status) bool { return s.Boot != e.status.Boot })
	e.up.Lock()
	defer e.up.Unlock()
	e.status = status
}

// end stops the edge in order.
func (e *edge) end() {
	e.down()
	switch {
	case e.process && e.proc != nil:
		e.proc.Signal(syscall.SIGTERM)
		require.Zero(e.f.t, e.proc.ExitCode(), e.proc.Output())
		e.proc = nil
	case e.stop != nil:
		e.stop()
		require.NoError(e.f.t, <-e.done)
		e.stop = nil
	}
}

// kill ends a process without a warning.
func (e *edge) kill() {
	e.down()
	e.proc.Signal(syscall.SIGKILL)
	e.proc.ExitCode()
	e.proc = nil
}

// ask asks for a code once, on a connection of its own. It asks nothing of an edge that
// is down, and returns status 0.
func (e *edge) ask(method, code string) (status int, location string, err error) {
	e.up.RLock()
	defer e.up.RUnlock()
	if !e.serves {
		return 0, "", nil
	}
	c, err := net.DialTimeout("tcp", e.status.Addr, time.Minute)
	if err != nil {
		return 0, "", err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return 0, "", err
	}
	if _, err := io.WriteString(c, method+" /"+code+" HTTP/1.1\r\nHost: "+e.status.Addr+"\r\nConnection: close\r\n\r\n"); err != nil {
		return 0, "", err
	}
	res, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		return 0, "", err
	}
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, res.Header.Get("Location"), err
}

// readiness is the part of /readyz that the tests read.
type readiness struct {
	Position  string
	Connected bool
	Source    string
	Digest    string
}

// shows asks the edge's admin listener. Without an answer, into stays as it is.
func (e *edge) shows(path string, into any) {
	e.up.RLock()
	addr := e.status.AdminAddr
	e.up.RUnlock()
	req, err := http.NewRequestWithContext(e.f.t.Context(), http.MethodGet, "http://"+addr+path, http.NoBody)
	if err != nil {
		return
	}
	res, err := e.f.web.Do(req)
	if err != nil {
		return
	}
	defer res.Body.Close()
	_ = json.NewDecoder(res.Body).Decode(into) // it may be ending
}

func (e *edge) state() (r readiness) {
	e.shows("/readyz", &r)
	return r
}
