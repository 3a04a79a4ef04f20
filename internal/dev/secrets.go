package dev

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"waypost/controlplane"
	"waypost/internal/atomicfile"
	"waypost/internal/config"
)

// secrets of a system, made at its first start and kept in files of mode 0600.
type secrets struct {
	cluster, edgeToken, gossipKey config.Secret
	apiKey, apiKeyFile            string
}

func loadSecrets(dir string, database bool) (secrets, error) {
	if _, err := os.Stat(filepath.Join(dir, "cluster")); database && errors.Is(err, fs.ErrNotExist) {
		return secrets{}, fmt.Errorf("%s is missing, and the database next to it was made with it: restore the file, or use another --data-dir",
			filepath.Join(dir, "cluster"))
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return secrets{}, fmt.Errorf("secrets: %w", err)
	}
	cluster, err1 := loadSecret(filepath.Join(dir, "cluster"), randomHex)
	token, err2 := loadSecret(filepath.Join(dir, "edge-token"), randomHex)
	gossip, err3 := loadSecret(filepath.Join(dir, "gossip-key"), randomHex)
	s := secrets{cluster: config.Secret(cluster), edgeToken: config.Secret(token), gossipKey: config.Secret(gossip)}
	s.apiKeyFile = filepath.Join(dir, "api-key")
	key, err4 := loadSecret(s.apiKeyFile, controlplane.NewKey)
	s.apiKey = key
	return s, errors.Join(err1, err2, err3, err4)
}

// loadSecret reads a secret, or makes and keeps one.
func loadSecret(path string, generate func() string) (string, error) {
	text, err := os.ReadFile(path)
	if err == nil {
		secret := strings.TrimSpace(string(text))
		if secret == "" {
			return "", fmt.Errorf("secret %s is empty: remove the file to have a new one made", path)
		}
		return secret, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("secret: %w", err)
	}
	secret := generate()
	return secret, atomicfile.Write(path, []byte(secret+"\n"), 0o600)
}

// randomHex returns 32 random bytes in hex.
func randomHex() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
