package keys

import (
	"errors"
	"io/fs"
	"os"

	"waypost/internal/atomicfile"
	"waypost/internal/datadir"
)

// Memory is the file in which a control plane remembers which keys were issued.
type Memory struct{ Dir *datadir.Dir }

func (m Memory) path() string { return m.Dir.Path("keys.witness") }

// Load returns what Save has written, nil if nothing was ever saved.
func (m Memory) Load() ([]byte, error) {
	b, err := os.ReadFile(m.path())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return b, err
}

// Save is durable, and all or nothing, when it returns.
func (m Memory) Save(document []byte) error { return atomicfile.Write(m.path(), document, 0o600) }

// SetAside keeps a document that cannot be read out of the way, for people to look at.
func (m Memory) SetAside() error { return atomicfile.SetAside(m.path()) }
