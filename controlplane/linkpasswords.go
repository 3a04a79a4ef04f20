package controlplane

import (
	"context"
	"crypto/rand"
	"strings"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"
	"golang.org/x/text/unicode/norm"

	"waypost"
	"waypost/rules"
)

// MaxBulkPasswords bounds the links with passwords that one request creates, because
// each takes the work of a sign-in.
const MaxBulkPasswords = 10

// verifier makes the verifier of a password for a workspace. It returns EInvalid for a
// bad password, EUnavailable when too many verifiers are made at once.
func (p *passwords) verifier(ctx context.Context, ws waypost.WorkspaceID, password string) (*rules.Password, error) {
	password, err := normalPassword(password)
	if err != nil {
		return nil, err
	}
	v := rules.Password{Memory: passwordParams.Memory, Passes: uint8(passwordParams.Iterations), Lanes: passwordParams.Parallelism}
	_, _ = rand.Read(v.Salt[:]) // never fails
	_, _ = rand.Read(v.Key[:])
	done, err := p.turn(ctx, ws)
	if err != nil {
		return nil, err
	}
	defer done()
	copy(v.Hash[:], argon2.IDKey([]byte(password), v.Salt[:], uint32(v.Passes), v.Memory, v.Lanes, uint32(len(v.Hash))))
	return &v, nil
}

// request replaces the hash of a request with passwords by a slow hash. The hash is
// stored for a day, and guessing the passwords from a fast hash would be cheap.
func (p *passwords) request(ctx context.Context, ws waypost.WorkspaceID, o *Idempotency) error {
	done, err := p.turn(ctx, ws)
	if err != nil {
		return err
	}
	defer done()
	copy(o.Request[:], argon2.IDKey(o.Request[:], []byte("waypost idempotency "+o.Route+" "+o.Key), passwordParams.Iterations,
		passwordParams.Memory, passwordParams.Parallelism, uint32(len(o.Request))))
	return nil
}

// normalPassword checks the password of a link, and returns it in the form in which it
// is hashed: Unicode NFC, because keyboards differ in how they write a letter with an
// accent.
func normalPassword(password string) (string, error) {
	bad := waypost.Errorf(waypost.EInvalid, "password must be 1 to %d bytes of UTF-8 without control characters", rules.MaxPassword)
	if len(password) > rules.MaxPassword || !utf8.ValidString(password) {
		return "", bad
	}
	password = norm.NFC.String(password)
	control := func(r rune) bool { return r < ' ' || r == 0x7f }
	if password == "" || len(password) > rules.MaxPassword || strings.ContainsFunc(password, control) {
		return "", bad
	}
	return password, nil
}

// passwordOf returns the verifier of the link's password, nil for none. If the verifier
// cannot be read, passwordOf returns an invalid one, with which rules do not compile, so
// that no link loses its password.
func passwordOf(l *waypost.Link) *rules.Password {
	if !rules.HasPassword(l.Programme) {
		return nil
	}
	v, _ := rules.PasswordOf(l.Programme)
	return &v
}

// password makes the verifier of a new link's password, nil for none.
func (p *prepared) password(ctx context.Context, n *NewLink) (*rules.Password, error) {
	password := n.Password
	if password == "" && n.Import != nil && n.Import.PasswordHash != "" {
		v, err := rules.ParsePasswordHash(n.Import.PasswordHash)
		if err != nil {
			return nil, waypost.Errorf(waypost.EInvalid, "%s", err.Error())
		}
		_, _ = rand.Read(v.Key[:]) // never fails
		return &v, nil
	}
	if password == "" {
		return nil, nil //nolint:nilnil // no password is no fault
	}
	if p.passwords++; p.passwords > MaxBulkPasswords {
		return nil, waypost.Errorf(waypost.EInvalid, "password: at most %d links with passwords in one request", MaxBulkPasswords)
	}
	if p.dry {
		_, err := normalPassword(password)
		return &rules.Password{Memory: passwordParams.Memory, Passes: 1, Lanes: 1}, err
	}
	return p.s.passwords.verifier(ctx, p.actor.Workspace, password)
}
