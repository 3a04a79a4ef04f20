// Package node is what every Waypost server process has beside its service: the
// admin listener, and the file in which it tells its addresses.
package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"waypost/internal/atomicfile"
)

// Status is what a server process tells once all its listeners are open.
type Status struct {
	PID       int    `json:"pid"`
	Role      string `json:"role"` // "control" or "edge"
	Node      string `json:"node"`
	Region    string `json:"region"`
	Addr      string `json:"addr"`       // HOST:PORT of the service
	AdminAddr string `json:"admin_addr"` // HOST:PORT of the admin listener

	Listen []string `json:"listen,omitempty"`    // HOST:PORT of an edge's other listeners
	TLS    []string `json:"tls,omitempty"`       // HOST:PORT of those that speak TLS
	Peer   string   `json:"peer_addr,omitempty"` // where other edges may follow this one
}

// maxStatus bounds a status file.
const maxStatus = 64 << 10

// WriteStatus renames the status into place; with an empty path it does nothing.
func WriteStatus(path string, s Status) error {
	if path == "" {
		return nil
	}
	text, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encode the status: %w", err)
	}
	return atomicfile.Write(path, append(text, '\n'), 0o600)
}

// ReadStatus reads what WriteStatus wrote; the error is fs.ErrNotExist while the
// process has not come that far.
func ReadStatus(path string) (Status, error) {
	f, err := os.Open(path)
	if err != nil {
		return Status{}, fmt.Errorf("status: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxStatus))
	if err := errors.Join(err, f.Close()); err != nil {
		return Status{}, fmt.Errorf("status: %w", err)
	}
	var s Status
	if err := json.Unmarshal(text, &s); err != nil {
		return Status{}, fmt.Errorf("status in %s: %w", path, err)
	}
	return s, nil
}
