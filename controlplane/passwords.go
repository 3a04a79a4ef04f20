package controlplane

import (
	"context"
	_ "embed"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"github.com/alexedwards/argon2id"
	"golang.org/x/crypto/argon2"

	"waypost"
	"waypost/internal/semaphore"
)

// passwordParams holds the minimum for argon2id in OWASP's password storage cheat sheet:
// 19 MiB, two passes, one lane.
var passwordParams = argon2id.Params{Memory: 19 << 10, Iterations: 2, Parallelism: 1, SaltLength: 16, KeyLength: 32}

// Bounds of the work on passwords: 40 MiB at a time.
const (
	passwordsAtOnce  = 2
	passwordsWaiting = 32
	places           = passwordsAtOnce + passwordsWaiting
)

// dummyHash is a hash of no known password, of the same cost as all others.
const dummyHash = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

// passwords makes and compares argon2id hashes, a few at a time. The passwords of links
// have another queue than those of sign-ins, so that neither waits for the other.
type passwords struct {
	busy          string                                // says what too many do at once
	places, turns *semaphore.Keyed[waypost.WorkspaceID] // a caller has a place while it waits for a turn, too
	runs          atomic.Int64
}

// newPasswords returns passwords of which a workspace has at most each under way.
func newPasswords(busy string, each int) *passwords {
	return &passwords{
		busy: busy, places: semaphore.NewKeyed[waypost.WorkspaceID](places, each),
		turns: semaphore.NewKeyed[waypost.WorkspaceID](passwordsAtOnce, passwordsAtOnce),
	}
}

// turn waits for a free slot for a workspace, 0 for none. It returns EUnavailable when
// too many callers wait already. The caller calls done.
func (p *passwords) turn(ctx context.Context, ws waypost.WorkspaceID) (done func(), err error) {
	if !p.places.TryAcquire(ws, 1) {
		return nil, waypost.Errorf(waypost.EUnavailable, "%s", p.busy)
	}
	if !p.turns.Acquire(ctx, ws) {
		p.places.Release(ws, 1)
		return nil, waypost.WrapError(waypost.EUnavailable, p.busy, ctx.Err())
	}
	p.runs.Add(1)
	return func() { p.turns.Release(ws, 1); p.places.Release(ws, 1) }, nil
}

// hash makes the PHC string of a password.
func (p *passwords) hash(ctx context.Context, password string) (string, error) {
	done, err := p.turn(ctx, 0)
	if err != nil {
		return "", err
	}
	defer done()
	return argon2id.CreateHash(password, &passwordParams)
}

// match compares a password with a stored hash. Without a hash, or with a hash that is
// not affordable, it takes the same time and returns false.
func (p *passwords) match(ctx context.Context, password, stored string) (bool, error) {
	done, err := p.turn(ctx, 0)
	if err != nil {
		return false, err
	}
	defer done()
	real := affordable(stored)
	if !real {
		stored = dummyHash
	}
	same, err := argon2id.ComparePasswordAndHash(password, stored)
	return same && real && err == nil, nil
}

// hashRecovery returns the stored form of recovery codes. It has the parameters of
// passwords, and one salt for all codes of a user, so that a sign-in computes one hash.
func (p *passwords) hashRecovery(ctx context.Context, salt []byte, codes ...string) ([][]byte, error) {
	done, err := p.turn(ctx, 0)
	if err != nil {
		return nil, err
	}
	defer done()
	hashes := make([][]byte, len(codes))
	for i, code := range codes {
		hashes[i] = argon2.IDKey([]byte(code), salt, passwordParams.Iterations, passwordParams.Memory,
			passwordParams.Parallelism, passwordParams.KeyLength)
	}
	return hashes, nil
}

// affordable reports whether a stored hash can be computed here: a hash that was changed
// by hand could need all memory, or make argon2 panic.
func affordable(stored string) bool {
	params, salt, key, err := argon2id.DecodeHash(stored)
	return err == nil && params.Memory >= 8 && params.Memory <= 256<<10 && params.Iterations >= 1 && params.Iterations <= 16 &&
		params.Parallelism >= 1 && params.Parallelism <= 16 && len(salt) >= 8 && len(salt) <= 64 && len(key) >= 16 && len(key) <= 64
}

// HashPassword checks a new password and returns its stored form, for commands that
// write accounts directly.
func HashPassword(password string) (string, error) {
	if err := checkPassword(password); err != nil {
		return "", err
	}
	return argon2id.CreateHash(password, &passwordParams)
}

func checkPassword(password string) error {
	switch {
	case len(password) < MinPassword:
		return waypost.Errorf(waypost.EInvalid, "a password must have at least %d characters", MinPassword)
	case len(password) > MaxPassword:
		return waypost.Errorf(waypost.EInvalid, "a password must have at most %d bytes", MaxPassword)
	case !utf8.ValidString(password) || strings.ContainsRune(password, 0):
		return waypost.Errorf(waypost.EInvalid, "a password must be UTF-8 without NUL")
	case strings.Count(password, password[:1]) == len(password):
		return waypost.Errorf(waypost.EInvalid, "a password must not be one character over and over")
	case common(strings.ToLower(password)):
		return waypost.Errorf(waypost.EInvalid, "this password is among the first that are guessed: a common one, perhaps repeated or with an ending; choose another")
	}
	return nil
}

//go:embed passwords.txt
var commonPasswords string

// common reports whether a password in lower case is one of the 10,000 most common, once
// or repeatedly, followed by at most another common password or six digits and signs.
func common(password string) bool {
	listed := func(s string) bool { return !strings.Contains(s, " ") && strings.Contains(commonPasswords, " "+s+" ") }
	for end := len(password); end > 0; end-- {
		head := password[:end]
		if !listed(head) {
			continue
		}
		tail := password
		for strings.HasPrefix(tail, head) {
			tail = tail[end:]
		}
		if tail == "" || listed(tail) || len(tail) <= 6 && strings.Trim(tail, "0123456789!?.,-_+*#$%&@=") == "" {
			return true
		}
	}
	return false
}

// ParseEmail returns the form in which addresses are stored and compared: lower case,
// printable ASCII, one @ with text on both sides. It does not check that mail arrives:
// the address is a name to sign in with.
func ParseEmail(s string) (string, error) {
	s = strings.ToLower(strings.TrimSpace(s))
	local, host, ok := strings.Cut(s, "@")
	bad := waypost.Errorf(waypost.EInvalid, "email must look like somebody@example.com, in ASCII, with at most %d bytes", MaxEmail)
	if !ok || local == "" || host == "" || strings.Contains(host, "@") || len(s) > MaxEmail {
		return "", bad
	}
	for i := range len(s) {
		if c := s[i]; c <= 0x20 || c > 0x7e || strings.IndexByte(`"(),:;<>[\]`, c) >= 0 {
			return "", bad
		}
	}
	return s, nil
}

// checkName bounds a name of a user, a key or a workspace.
func checkName(s string) error {
	n := utf8.RuneCountInString(s)
	if n < 1 || n > MaxName || strings.TrimSpace(s) != s {
		return waypost.Errorf(waypost.EInvalid, "name must have 1 to %d characters, without blanks around it", MaxName)
	}
	return CheckPrintable("name", s)
}

func CheckPrintable(field, s string) error {
	for _, r := range s {
		if r == utf8.RuneError || r < 0x20 || r >= 0x7f && r < 0xa0 {
			return waypost.Errorf(waypost.EInvalid, "%s must be UTF-8 without control characters", field)
		}
	}
	return nil
}
