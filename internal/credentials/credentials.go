// Package credentials keeps the credentials of `waypost login`, per server, in a file
// that only its owner can read. It does not know which rights the credentials carry.
package credentials

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"waypost/internal/atomicfile"
)

// Login holds the credentials for one server.
type Login struct {
	Token     string    `json:"token"`
	Email     string    `json:"email"`
	Workspace string    `json:"workspace,omitempty"` // slug; "" for the user's only one
	ExpiresAt time.Time `json:"expires_at"`          // unless it is used before
}

// Store is all logins.
type Store struct {
	Current string           `json:"current,omitempty"` // the server of the newest login
	Servers map[string]Login `json:"servers"`           // by base URL, in the form of Server
}

// maxFile bounds the bytes that Read reads.
const maxFile = 1 << 20

// File returns the path of the credentials: below XDG_CONFIG_HOME, or else ~/.config.
func File(getenv func(string) string) (string, error) {
	base := getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(base) {
		home := getenv("HOME")
		if !filepath.IsAbs(home) {
			return "", errors.New("there is no place for credentials: set HOME or XDG_CONFIG_HOME")
		}
		base = filepath.Join(home, ".config")
	}
	return filepath.Join(base, "waypost", "credentials.json"), nil
}

// Server is the form of a base URL under which its login is kept.
func Server(base string) string { return strings.TrimRight(base, "/") }

// errSpoilt says that a file holds no credentials.
var errSpoilt = errors.New("cannot be read as credentials")

// Read returns the contents of a file, and an empty Store when the file is missing. It
// refuses a file that others can read.
func Read(file string) (Store, error) {
	s := Store{Servers: map[string]Login{}}
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, fmt.Errorf("read credentials: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return s, fmt.Errorf("read credentials: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return s, fmt.Errorf("others can read %s: run `chmod 600 %s`, and sign in again if somebody may have", file, file)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return s, fmt.Errorf("read credentials: %w", err)
	}
	if len(text) > maxFile || json.Unmarshal(text, &s) != nil {
		return Store{Servers: map[string]Login{}}, fmt.Errorf("%s %w: run `waypost login`, which sets it aside", file, errSpoilt)
	}
	if s.Servers == nil {
		s.Servers = map[string]Login{}
	}
	return s, nil
}

// Change edits the contents of a file, one process at a time. A file that cannot be read
// as credentials is renamed, never lost.
func Change(file string, edit func(*Store)) (err error) {
	dir := filepath.Dir(file)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make a place for credentials: %w", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return fmt.Errorf("keep credentials from others: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("lock credentials: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock credentials: %w", err)
	}
	s, err := Read(file)
	if errors.Is(err, errSpoilt) {
		err = atomicfile.SetAside(file)
	}
	if err != nil {
		return err
	}
	edit(&s)
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("encode credentials: %w", err)
	}
	return atomicfile.Write(file, append(text, '\n'), 0o600)
}
