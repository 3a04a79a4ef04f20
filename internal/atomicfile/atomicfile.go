// Package atomicfile writes small files that are either there as a whole or not
// at all, whenever the process or the machine stops, and reads small files.
package atomicfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Write replaces the file at path by data, durably. A new file gets perm whatever
// the umask. The temporary file next to it begins with a dot.
func Write(path string, data []byte, perm os.FileMode) error {
	return WriteWith(path, perm, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// WriteWith is Write with the contents that a function writes. An error of the function
// leaves the file as it was.
func WriteWith(path string, perm os.FileMode, write func(io.Writer) error) error {
	dir := filepath.Dir(path)
	temporary, err := writeTemporary(dir, filepath.Base(path), perm, write)
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

func writeTemporary(dir, base string, perm os.FileMode, write func(io.Writer) error) (string, error) {
	f, err := os.CreateTemp(dir, "."+base+".*") // 0600
	if err != nil {
		return "", err
	}
	if err = errors.Join(write(f), f.Chmod(perm), f.Sync(), f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

// Read reads a file of at most that many bytes. A larger file is an error.
func Read(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if int64(len(text)) > most {
		return nil, &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("larger than %d bytes", most)}
	}
	return text, nil
}

// SetAside renames a file that cannot be read, for people to look at. Its name then ends
// with the time.
func SetAside(path string) error {
	return os.Rename(path, path+time.Now().UTC().Format(".unreadable-20060102T150405.000000000"))
}
