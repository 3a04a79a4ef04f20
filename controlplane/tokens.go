package controlplane

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"hash/crc32"
	"math/big"
	"strings"
)

// An API key is "wp_live_", 27 base62 characters of 160 random bits, and 6 base62
// characters of CRC-32 (IEEE) over all before, so that a mistyped key is detected without
// the database, and a scanner finds leaked keys. The tokens of sessions, invitations and
// sign-in links differ in their prefixes alone.
const (
	keyPrefix        = "wp_live_"
	sessionPrefix    = "wp_sess_"
	invitationPrefix = "wp_invt_"
	signInPrefix     = "wp_once_" // of a sign-in link
	keySecret        = 27
	keyChecksum      = 6
	keyLength        = len(keyPrefix) + keySecret + keyChecksum
	// KeyDisplay is the number of characters of a key that may be shown later.
	KeyDisplay = len(keyPrefix) + 4
)

// NewKey creates an API key from the system's random source. Its text is to be shown
// once and never stored; HashKey returns the stored form.
func NewKey() string { return NewToken(keyPrefix) }

// NewSignInToken is NewKey for the token of a sign-in link.
func NewSignInToken() string { return NewToken(signInPrefix) }

func NewToken(prefix string) string {
	var b [20]byte
	_, _ = rand.Read(b[:]) // never fails
	body := prefix + base62(new(big.Int).SetBytes(b[:]), keySecret)
	return body + checksum(body)
}

// HashKey returns the stored form of a key.
func HashKey(key string) [32]byte { return sha256.Sum256([]byte(key)) }

// ValidKey reports whether key has the form and checksum of an API key.
func ValidKey(key string) bool { return ValidToken(keyPrefix, key) }

// IsSession reports whether a credential is meant to be the token of a session.
func IsSession(credential string) bool { return strings.HasPrefix(credential, sessionPrefix) }

func ValidToken(prefix, key string) bool {
	if len(key) != keyLength || !strings.HasPrefix(key, prefix) {
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
