package dev

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"waypost/internal/atomicfile"
)

// State is dev.json: where a running development system can be reached, for
// tools and tests. It exists while the system is ready, and holds a secret.
type State struct {
	API         string    `json:"api"`
	Fleet       string    `json:"fleet"`             // where edges reach the control plane
	Console     string    `json:"console,omitempty"` // signs in once
	APIKey      string    `json:"api_key"`
	PID         PID       `json:"pid"` // of `waypost dev` itself
	DatabaseURL string    `json:"database_url"`
	Postgres    Postgres  `json:"postgres"`
	Control     Control   `json:"control"`
	Edges       []EdgeRef `json:"edges"`
}

// Postgres is the private PostgreSQL in dev.json.
type Postgres struct {
	PID PID `json:"pid"`
}

// Control is the control plane in dev.json.
type Control struct {
	PID      PID    `json:"pid"`
	AdminURL string `json:"admin_url"` // "" while it is down
}

// EdgeRef is an edge in dev.json.
type EdgeRef struct {
	Node     string `json:"node"`
	Region   string `json:"region"`
	URL      string `json:"url"`
	AdminURL string `json:"admin_url"` // "" while it is down
	PID      PID    `json:"pid"`
}

// PID is a process id; 0, which stands for a process that is down, is null in
// JSON, so that no script signals process 0 by mistake.
type PID int

// MarshalJSON writes null for 0.
func (p PID) MarshalJSON() ([]byte, error) {
	if p == 0 {
		return []byte("null"), nil
	}
	return json.Marshal(int(p))
}

// StateFile returns the path of the state of the system in a data directory.
func StateFile(dataDir string) string { return filepath.Join(dataDir, "dev.json") }

// ReadState reads dev.json; the error is fs.ErrNotExist when no system is ready
// there.
func ReadState(dataDir string) (State, error) {
	text, err := atomicfile.Read(StateFile(dataDir), 1<<20)
	if err != nil {
		return State{}, fmt.Errorf("state of the development system: %w", err)
	}
	var s State
	if err := json.Unmarshal(text, &s); err != nil {
		return State{}, fmt.Errorf("%s: %w", StateFile(dataDir), err)
	}
	return s, nil
}

// stateFile keeps dev.json true from publish to remove.
type stateFile struct {
	path string

	mu        sync.Mutex
	state     State
	published bool
}

func newStateFile(path string) *stateFile {
	return &stateFile{path: path, state: State{PID: PID(os.Getpid()), Edges: []EdgeRef{}}}
}

// publish writes the file; from then on every change does.
func (f *stateFile) publish() error {
	return f.change(func(*State) { f.published = true })
}

// remove takes the file away, if it is there, until the next publish.
func (f *stateFile) remove() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.published = false
	if err := os.Remove(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the state of the development system: %w", err)
	}
	return nil
}

func (f *stateFile) change(edit func(*State)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	edit(&f.state)
	if !f.published {
		return nil
	}
	text, err := json.MarshalIndent(f.state, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the state: %w", err)
	}
	return atomicfile.Write(f.path, append(text, '\n'), 0o600)
}

func (f *stateFile) setSystem(api, fleet, key, databaseURL string) error {
	return f.change(func(s *State) { s.API, s.Fleet, s.APIKey, s.DatabaseURL = api, fleet, key, databaseURL })
}

func (f *stateFile) setConsole(url string) error {
	return f.change(func(s *State) { s.Console = url })
}

func (f *stateFile) setPostgres(p process) error {
	return f.change(func(s *State) { s.Postgres.PID = pidOf(p) })
}

func (f *stateFile) setControl(p process) error {
	return f.change(func(s *State) { s.Control = Control{PID: pidOf(p), AdminURL: adminOf(p)} })
}

// setEdge sets the i-th edge. The node's name outlives its process.
func (f *stateFile) setEdge(i int, e edge, p process) error {
	return f.change(func(s *State) {
		for len(s.Edges) <= i {
			s.Edges = append(s.Edges, EdgeRef{})
		}
		ref := EdgeRef{Node: s.Edges[i].Node, Region: string(e.Region), URL: urlOf(e.Addr), AdminURL: adminOf(p), PID: pidOf(p)}
		if c, ok := p.(*child); ok {
			ref.Node = c.status.Node
		}
		s.Edges[i] = ref
	})
}

func pidOf(p process) PID {
	if p == nil {
		return 0
	}
	return PID(p.PID())
}

func adminOf(p process) string {
	if c, ok := p.(*child); ok {
		return urlOf(c.status.AdminAddr)
	}
	return ""
}
