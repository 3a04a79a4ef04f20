package controlplane

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"hash/crc32"
	"math/big"
	"strings"
	"sync"
	"time"

	"waypost"
)

// An API key is "wp_live_", 27 base62 characters of 160 random bits, and 6 base62
// characters of CRC-32 (IEEE) over all before, so that a mistyped key is told
// without asking the database, and a leaked one is easy to scan for.
const (
	keyPrefix   = "wp_live_"
	keySecret   = 27
	keyChecksum = 6
	keyLength   = len(keyPrefix) + keySecret + keyChecksum
	// KeyDisplay is how many characters of a key may be shown afterwards.
	KeyDisplay = len(keyPrefix) + 4
)

// NewKey makes an API key from the system's random source. Its text is to be shown
// once and never stored; HashKey is what is stored.
func NewKey() (string, error) {
	var b [20]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", err
	}
	body := keyPrefix + base62(new(big.Int).SetBytes(b[:]), keySecret)
	return body + checksum(body), nil
}

// HashKey is what the database keeps of a key.
func HashKey(key string) [32]byte { return sha256.Sum256([]byte(key)) }

// ValidKey reports whether key has the form and checksum of an API key.
func ValidKey(key string) bool {
	if len(key) != keyLength || !strings.HasPrefix(key, keyPrefix) {
		return false
	}
	body := key[:keyLength-keyChecksum]
	return subtle.ConstantTimeCompare([]byte(checksum(body)), []byte(key[len(body):])) == 1
}

func checksum(body string) string {
	return base62(big.NewInt(int64(crc32.ChecksumIEEE([]byte(body)))), keyChecksum)
}

func base62(n *big.Int, width int) string {
	s := n.Text(62)
	return strings.Repeat("0", width-len(s)) + s
}

// authenticator answers who holds a key. What the database said is believed for
// a second, so that a revocation takes effect within that time.
type authenticator struct {
	store KeyStore
	now   func() time.Time

	mu    sync.Mutex
	known map[[32]byte]knownKey // bounded by maxKnownKeys
}

type knownKey struct {
	key   StoredKey
	until time.Time
}

const (
	keyBelief    = time.Second
	maxKnownKeys = 10_000
)

func (a *authenticator) authenticate(ctx context.Context, key string) (Actor, error) {
	wrong := waypost.Errorf(waypost.EUnauthorized, "the API key is not valid")
	if !ValidKey(key) {
		return Actor{}, wrong
	}
	hash, now := HashKey(key), a.now()
	stored, ok := a.recall(hash, now)
	if !ok {
		var err error
		if stored, ok, err = a.store.APIKey(ctx, hash); err != nil {
			return Actor{}, err
		}
		if !ok || subtle.ConstantTimeCompare(stored.Hash[:], hash[:]) != 1 {
			return Actor{}, wrong
		}
		a.remember(hash, stored, now)
	}
	if !stored.ExpiresAt.IsZero() && !now.Before(stored.ExpiresAt) {
		return Actor{}, waypost.Errorf(waypost.EUnauthorized, "the API key has expired")
	}
	return Actor{Workspace: stored.Workspace, KeyID: stored.ID, Name: stored.Name, Scopes: stored.Scopes}, nil
}

func (a *authenticator) recall(hash [32]byte, now time.Time) (StoredKey, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	k, ok := a.known[hash]
	return k.key, ok && now.Before(k.until)
}

func (a *authenticator) remember(hash [32]byte, key StoredKey, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.known == nil || len(a.known) >= maxKnownKeys {
		a.known = make(map[[32]byte]knownKey)
	}
	a.known[hash] = knownKey{key: key, until: now.Add(keyBelief)}
}
