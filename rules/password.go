package rules

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"strconv"
)

// MaxPassword bounds the password of a link, in bytes, after normalisation (NFC).
const MaxPassword = 128

// Bounds of the cost of a verifier, so that no record can take an edge's memory.
const (
	minPasswordMemory = 8        // KiB, for each lane
	maxPasswordMemory = 64 << 10 // KiB
	maxPasswordPasses = 4
	maxPasswordLanes  = 4
	minBcryptCost     = 4  // of bcrypt itself
	maxBcryptCost     = 12 // a quarter of a second of a processor
)

// Password verifies the password of a link. The zero value is invalid.
type Password struct {
	Memory uint32   // of argon2id, in KiB; 0: the hash is bcrypt's
	Passes uint8    // of argon2id; the cost of bcrypt
	Lanes  uint8    // of argon2id; 0 with bcrypt
	Salt   [16]byte // random
	Hash   [32]byte // of the password: argon2id, or the 23 bytes of bcrypt and zeros
	Key    [32]byte // random: authenticates the cookies of visitors who gave the password
}

// passwordSize is the size of a verifier in a programme, where it follows the head, so
// that PostgreSQL can compare it: memory (4), passes, lanes, salt, hash, key.
const passwordSize = 4 + 1 + 1 + 16 + 32 + 32

func (p *Password) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, p.Memory)
	b = append(b, p.Passes, p.Lanes)
	b = append(b, p.Salt[:]...)
	b = append(b, p.Hash[:]...)
	return append(b, p.Key[:]...)
}

// affordable reports whether an edge may compute the hash of a verifier.
func affordable(b []byte) bool {
	memory, passes, lanes := binary.LittleEndian.Uint32(b), b[4], b[5]
	if memory == 0 {
		return lanes == 0 && passes >= minBcryptCost && passes <= maxBcryptCost
	}
	return passes >= 1 && passes <= maxPasswordPasses && lanes >= 1 && lanes <= maxPasswordLanes &&
		memory >= minPasswordMemory*uint32(lanes) && memory <= maxPasswordMemory
}

// PasswordOf returns the verifier of the link of a programme; false if the link has no
// password, or one that is not affordable.
func PasswordOf(b []byte) (v Password, ok bool) {
	var p programme
	if !p.parse(b) || p.password == nil || !affordable(p.password) {
		return v, false
	}
	b = p.password
	v = Password{Memory: binary.LittleEndian.Uint32(b), Passes: b[4], Lanes: b[5]}
	copy(v.Salt[:], b[6:])
	copy(v.Hash[:], b[22:])
	copy(v.Key[:], b[54:])
	return v, true
}

// HasPassword reports whether the link of a programme has a password.
func HasPassword(b []byte) bool { return len(b) >= headSize && b[1]&gatePassword != 0 }

// PassCookie is the name of the cookie of a visitor who gave the password of a link, for
// the link's path, or for all paths if the link has aliases. Its value is the time of its
// expiry in Unix seconds, a full stop and the HMAC-SHA-256 of that time under the
// password's own key, in hexadecimal. It is the same for all visitors who come at one
// second.
const PassCookie = "waypost_pass"

// SecurePrefix begins the names of cookies that are set over TLS. Browsers take such
// a cookie over TLS alone. These cookies count before those without the prefix.
const SecurePrefix = "__Secure-"

// AppendPass appends the value of a cookie that lets visitors pass until expires, in Unix
// seconds.
func (p *Password) AppendPass(dst []byte, expires int64) []byte {
	mac := passMAC(p.Key[:], uint64(expires))
	dst = append(strconv.AppendInt(dst, expires, 10), '.')
	return hex.AppendEncode(dst, mac[:])
}

// maxPasses bounds how many cookies of one request are checked. Browsers send one.
const maxPasses = 4

// passes reports whether a visitor's Cookie header has a valid pass at the time.
// It does not allocate, and compares in constant time.
func passes(verifier []byte, f *Facts) bool {
	var name cookieName
	return passesAs(AppendCookieName(name[:0], PassCookie, f.Link, true), verifier, f) ||
		passesAs(AppendCookieName(name[:0], PassCookie, f.Link, false), verifier, f)
}

// passesAs is passes for the cookies of one name.
func passesAs(prefix, verifier []byte, f *Facts) bool {
	key, header, at := verifier[passwordSize-len(Password{}.Key):], f.Cookie, f.At
	for tried := 0; len(header) > 0 && tried < maxPasses; {
		var pair []byte
		pair, header = cutCookie(header)
		if len(pair) <= len(prefix) || !bytes.HasPrefix(pair, prefix) {
			continue
		}
		tried++
		if expires, mac, ok := parsePass(pair[len(prefix):]); ok && expires > at/1000 {
			want := passMAC(key, uint64(expires))
			if subtle.ConstantTimeCompare(mac[:], want[:]) == 1 {
				return true
			}
		}
	}
	return false
}

// parsePass reads the value of a cookie.
func parsePass(value []byte) (expires int64, mac [sha256.Size]byte, ok bool) {
	const maxDigits = 12
	i := 0
	for ; i < len(value) && '0' <= value[i] && value[i] <= '9'; i++ {
		expires = expires*10 + int64(value[i]-'0')
		if i == maxDigits {
			return 0, mac, false
		}
	}
	if i == 0 || len(value) != i+1+hex.EncodedLen(len(mac)) || value[i] != '.' {
		return 0, mac, false
	}
	_, err := hex.Decode(mac[:], value[i+1:])
	return expires, mac, err == nil
}

// passMAC returns HMAC-SHA-256 (RFC 2104) of a number. Unlike crypto/hmac it does not
// allocate.
func passMAC(key []byte, n uint64) [sha256.Size]byte {
	var inner [sha256.BlockSize + 8]byte
	var outer [sha256.BlockSize + sha256.Size]byte
	copy(inner[:], key)
	copy(outer[:], key)
	for i := range sha256.BlockSize {
		inner[i] ^= 0x36
		outer[i] ^= 0x5c
	}
	binary.BigEndian.PutUint64(inner[sha256.BlockSize:], n)
	sum := sha256.Sum256(inner[:])
	copy(outer[sha256.BlockSize:], sum[:])
	return sha256.Sum256(outer[:])
}
