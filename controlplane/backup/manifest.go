package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"waypost"
	"waypost/internal/atomicfile"
	"waypost/migrations"
)

// Names of a backup's files.
const (
	ManifestFile = "manifest.json"
	DumpFile     = "waypost.dump"
	RolesFile    = "roles.sql"
)

// format is the version of the layout of a backup.
const format = 1

// maxManifest bounds a manifest, and maxRoles the SQL of the roles, in bytes.
const (
	maxManifest = 64 << 10
	maxRoles    = 64 << 10
)

// Manifest describes a backup. It holds no secret.
type Manifest struct {
	Format          int       `json:"format"`
	Version         string    `json:"version"` // of the product
	Made            time.Time `json:"made"`
	PostgreSQL      string    `json:"postgresql"` // version of the server
	PostgreSQLMajor int       `json:"postgresql_major"`
	DumpMajor       int       `json:"pg_dump_major"`
	SchemaVersion   int       `json:"schema_version"`
	Database        string    `json:"database"`
	Owner           string    `json:"owner"` // of the tables
	Roles           []string  `json:"roles"` // of PostgreSQL that the dump names
	Cluster         string    `json:"cluster"`
	SecretCheck     string    `json:"secret_check"` // check value of the cluster secret, in hex
	// Position, Digest, Rows, Records and Links are of the moment of the dump: the head of
	// the changelog, the sum that the replicated rows really have, and their numbers.
	Position string         `json:"position"`
	Digest   string         `json:"digest"`
	Rows     string         `json:"rows_digest"`
	Records  int64          `json:"records"`
	Links    int64          `json:"links"`
	Files    map[string]Sum `json:"files"` // by name
}

// Sum identifies the content of a file.
type Sum struct {
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Open reads the manifest of a backup, and compares all files with it.
func Open(ctx context.Context, dir string) (m Manifest, err error) {
	m, err = readManifest(filepath.Join(dir, ManifestFile))
	if errors.Is(err, fs.ErrNotExist) {
		return m, fmt.Errorf("%s is no backup: it has no %s", dir, ManifestFile)
	}
	if err != nil {
		return m, err
	}
	have, err := sumsOf(ctx, dir)
	if err != nil {
		return m, fmt.Errorf("the backup is not whole: %w", err)
	}
	for _, name := range []string{DumpFile, RolesFile} {
		switch want := m.Files[name]; {
		case want.Size != have[name].Size:
			return m, fmt.Errorf("the backup is damaged: %s has %d bytes, and the manifest says %d", name, have[name].Size, want.Size)
		case want.SHA256 != have[name].SHA256:
			return m, fmt.Errorf("the backup is damaged: %s does not have the SHA-256 of the manifest", name)
		}
	}
	return m, nil
}

func readManifest(path string) (m Manifest, err error) {
	text, err := atomicfile.Read(path, maxManifest)
	if err != nil {
		return m, fmt.Errorf("read the manifest: %w", err)
	}
	// The format comes first, because another one may have other fields.
	var made struct {
		Format  int    `json:"format"`
		Version string `json:"version"`
	}
	if err := json.Unmarshal(text, &made); err != nil {
		return m, fmt.Errorf("the manifest is damaged: %w", err)
	}
	if made.Format != format {
		return m, fmt.Errorf("the backup has format %d, made by Waypost %.40q, and this program reads format %d: use the program that made it",
			made.Format, made.Version, format)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return m, fmt.Errorf("the manifest is damaged: %w", err)
	}
	return m, m.check()
}

// check validates the fields that a restore uses.
func (m Manifest) check() error {
	isHex := func(text string, n int) bool {
		b, err := hex.DecodeString(text)
		return err == nil && len(b) == n
	}
	_, owner := migrations.Roles(m.Owner)
	_, position := waypost.ParsePosition(m.Position)
	switch {
	case m.SchemaVersion > migrations.Newest:
		return fmt.Errorf("the backup has schema version %d, made by Waypost %.40q, and this program knows up to %d: use a newer waypost",
			m.SchemaVersion, m.Version, migrations.Newest)
	case m.SchemaVersion < 1, m.PostgreSQLMajor < 1, m.PostgreSQLMajor > 1000, m.DumpMajor < 1, m.DumpMajor > 1000,
		m.Records < 0, m.Links < 0, position != nil, len(m.Roles) > 1000, owner != nil,
		!isHex(m.Cluster, 16), !isHex(m.SecretCheck, sha256.Size), !isHex(m.Digest, 8), !isHex(m.Rows, 8), len(m.Files) != 2,
		!isHex(m.Files[DumpFile].SHA256, sha256.Size), !isHex(m.Files[RolesFile].SHA256, sha256.Size):
		return errors.New("the manifest is damaged: a field is missing or has an impossible value")
	}
	return nil
}

// sumsOf reads the files of a backup.
func sumsOf(ctx context.Context, dir string) (map[string]Sum, error) {
	sums := make(map[string]Sum)
	for name, begins := range map[string]string{DumpFile: magic, RolesFile: ""} {
		s, err := sumOf(ctx, filepath.Join(dir, name), begins)
		if err != nil {
			return nil, err
		}
		sums[name] = s
	}
	if sums[RolesFile].Size > maxRoles {
		return nil, fmt.Errorf("%s is too large", RolesFile)
	}
	return sums, nil
}

func sumOf(ctx context.Context, path, begins string) (s Sum, err error) {
	f, err := os.Open(path)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return s, errors.Join(err, fmt.Errorf("%s is no regular file", path))
	}
	hash := sha256.New()
	first := make([]byte, len(begins))
	if _, err := io.ReadFull(io.TeeReader(f, hash), first); err != nil || string(first) != begins {
		return s, fmt.Errorf("%s is no dump", path)
	}
	rest, err := io.Copy(hash, untilDone{ctx, f})
	return Sum{Size: int64(len(begins)) + rest, SHA256: hex.EncodeToString(hash.Sum(nil))}, err
}

// untilDone ends the reading of a large file with its context.
type untilDone struct {
	ctx context.Context
	r   io.Reader
}

func (u untilDone) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.r.Read(p)
}

// finish writes the manifest and renames the directory, durably.
func finish(dir, out string, m Manifest) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(dir, ManifestFile), append(text, '\n')); err != nil {
		return err
	}
	if err := syncDir(dir); err != nil {
		return err
	}
	err = unix.Renameat2(unix.AT_FDCWD, dir, unix.AT_FDCWD, out, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) { // a file system without it; rename replaces no directory with files in it
		err = os.Rename(dir, out)
	}
	if err != nil {
		return fmt.Errorf("name the backup %s: %w", out, err)
	}
	return syncDir(filepath.Dir(out))
}

func writeFile(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("write the backup: %w", err)
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write the backup: %w", err)
	}
	return nil
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err == nil {
		err = errors.Join(f.Sync(), f.Close())
	}
	if err != nil {
		return fmt.Errorf("make %s durable: %w", dir, err)
	}
	return nil
}
