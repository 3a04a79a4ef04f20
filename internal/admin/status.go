// Package admin is the operators' side of a server process: the admin listener, and the
// status file with the addresses of the process.
package admin

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"waypost/internal/atomicfile"
)

// StatusFile is the name of the file in a data directory that holds the status of the
// last process there.
const StatusFile = "status"

// Status describes a server process once all its listeners are open.
type Status struct {
	PID       int    `json:"pid"`
	Role      string `json:"role"` // "control" or "edge"
	Node      string `json:"node"`
	Region    string `json:"region"`
	Addr      string `json:"addr"`       // HOST:PORT of the service, of an edge the first
	AdminAddr string `json:"admin_addr"` // HOST:PORT of the admin listener

	Fleet string `json:"fleet_addr,omitempty"` // HOST:PORT of a control plane for edges alone

	Boot   string   `json:"boot,omitempty"`       // of an edge: differs after each start of the program
	Listen []string `json:"listen,omitempty"`     // HOST:PORT of an edge's further listeners without TLS
	TLS    []string `json:"tls,omitempty"`        // HOST:PORT of the TLS listeners
	Relay  string   `json:"relay_addr,omitempty"` // HOST:PORT at which other edges may follow this one
}

// maxStatus bounds a status file, in bytes.
const maxStatus = 64 << 10

// WriteStatus renames the status into place in a data directory.
func WriteStatus(dir string, s Status) error {
	text, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encode the status: %w", err)
	}
	return atomicfile.Write(filepath.Join(dir, StatusFile), append(text, '\n'), 0o600)
}

// ReadStatus reads the status in a data directory. The error is fs.ErrNotExist while no
// process has written one.
func ReadStatus(dir string) (Status, error) {
	path := filepath.Join(dir, StatusFile)
	text, err := atomicfile.Read(path, maxStatus)
	if err != nil {
		return Status{}, fmt.Errorf("status: %w", err)
	}
	var s Status
	if err := json.Unmarshal(text, &s); err != nil {
		return Status{}, fmt.Errorf("status in %s: %w", path, err)
	}
	return s, nil
}
