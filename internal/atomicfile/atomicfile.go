// Package atomicfile writes small files that are either there as a whole or not
// at all, whenever the process or the machine stops.
package atomicfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Write replaces the file at path by data, durably. A new file gets perm whatever
// the umask. The temporary file next to it begins with a dot.
func Write(path string, data []byte, perm os.FileMode) error {
	dir := filepath.Dir(path)
	temporary, err := writeTemporary(dir, filepath.Base(path), data, perm)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return fmt.Errorf("write %s: %w", path, errors.Join(err, os.Remove(temporary)))
	}
	d, err := os.Open(dir)
	if err == nil {
		err = errors.Join(d.Sync(), d.Close())
	}
	if err != nil {
		return fmt.Errorf("make %s durable: %w", path, err)
	}
	return nil
}

func writeTemporary(dir, base string, data []byte, perm os.FileMode) (string, error) {
	f, err := os.CreateTemp(dir, "."+base+".*") // 0600
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(perm), f.Sync(), f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}
