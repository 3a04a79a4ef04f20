package controlplane

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"strings"

	"waypost"
	"waypost/api"
	"waypost/internal/hotp"
)

// Codes of the second factor: TOTP (RFC 6238) with SHA-1, six digits and steps of 30 s,
// which all authenticator apps know; and recovery codes of 80 random bits.
const (
	factorPeriod  = 30 // seconds of a step
	factorSkew    = 1  // steps by which the clock of the user may differ
	factorSecret  = 20 // bytes
	RecoveryCodes = 10 // of a user
	recoveryChars = 16
)

// StoredFactor is the record of a user's second factor.
type StoredFactor struct {
	Secret        []byte // sealed
	On            bool   // false: it is proposed, and not asked for
	LastStep      int64  // of the newest code that was accepted
	RecoveryCodes int    // left
}

// FactorProof is a code that was judged, and is to be used up.
type FactorProof struct {
	Step     int64     // of a TOTP code; 0 for other codes
	Recovery *[32]byte // hash of a recovery code; nil for other codes
}

// FactorStore keeps second factors. No code is used up twice: ErrCode for a proof that
// another call has used.
type FactorStore interface {
	// SecondFactor finds the second factor of a user, or the proposed one.
	SecondFactor(ctx context.Context, user int64) (StoredFactor, bool, error)

	// ProposeFactor stores a proposed secret, in place of an earlier one. It returns
	// EConflict when the second factor is on.
	ProposeFactor(ctx context.Context, user int64, secret []byte) error

	// ConfirmFactor turns a proposed secret on. It returns EConflict when another secret
	// is stored.
	ConfirmFactor(ctx context.Context, by Actor, secret []byte, p FactorProof, recovery [][]byte) error

	// EndFactor removes the second factor of the actor.
	EndFactor(ctx context.Context, by Actor, p FactorProof) error

	// RenewRecoveryCodes replaces the recovery codes of the actor.
	RenewRecoveryCodes(ctx context.Context, by Actor, p FactorProof, recovery [][]byte) error

	// ResetFactor removes the second factor of any user. It returns ENotFound when the
	// user has no second factor.
	ResetFactor(ctx context.Context, by Actor, user int64) (api.Account, error)
}

// Errors of the second factor.
var (
	// ErrCodeNeeded says that the password or link is right, and a code is missing.
	ErrCodeNeeded = waypost.Errorf(waypost.ESecondFactor, "send a code of your second factor, or a recovery code, as code")
	// ErrCode says that a code is wrong.
	ErrCode = waypost.Errorf(waypost.EForbidden, "code is wrong, or was used before")

	errNoFactor      = waypost.Errorf(waypost.EConflict, "the second factor is off")
	errFactorSession = waypost.Errorf(waypost.EForbidden, "managing your second factor needs a session")
)

// factorBox encrypts the secrets of second factors.
type factorBox struct{ aead cipher.AEAD }

// newFactorBox derives the key from the cluster's secret.
func newFactorBox(secret [32]byte) (factorBox, error) {
	key, err := hkdf.Key(sha256.New, secret[:], nil, "waypost second factor", 32)
	if err != nil {
		return factorBox{}, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return factorBox{}, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return factorBox{aead}, err
}

// seal encrypts a secret for one user: it cannot be opened as another's.
func (b factorBox) seal(user int64, secret string) []byte {
	return b.aead.Seal(nil, nil, []byte(secret), ownerOf(user))
}

func (b factorBox) open(user int64, sealed []byte) (string, error) {
	secret, err := b.aead.Open(nil, nil, sealed, ownerOf(user))
	if err != nil {
		return "", fmt.Errorf("the second factor of user %d was not encrypted with this cluster's secret: %w", user, err)
	}
	return string(secret), nil
}

func ownerOf(user int64) []byte { return fmt.Appendf(nil, "user %d", user) }

// secondFactor judges the code of a sign-in. Without a second factor it returns no proof.
func (s *Access) secondFactor(ctx context.Context, user int64, code string) (FactorProof, error) {
	f, found, err := s.factors.SecondFactor(ctx, user)
	switch {
	case err != nil || !found || !f.On:
		return FactorProof{}, err
	case code == "":
		return FactorProof{}, ErrCodeNeeded
	}
	return s.judgeCode(ctx, user, &f, code)
}

// judgeCode returns ErrCode for a code that is neither a TOTP code of about now nor of
// the form of a recovery code. The store compares the hashes of recovery codes, which are
// salted with the encrypted secret: no other factor has the same.
func (s *Access) judgeCode(ctx context.Context, user int64, f *StoredFactor, code string) (p FactorProof, err error) {
	code = strings.ToUpper(strings.NewReplacer(" ", "", "-", "").Replace(code))
	if len(code) == recoveryChars {
		hashes, err := s.passwords.hashRecovery(ctx, f.Secret, code)
		if err != nil {
			return p, err
		}
		hash := [32]byte(hashes[0])
		return FactorProof{Recovery: &hash}, nil
	}
	secret, err := s.box.open(user, f.Secret)
	if err != nil {
		return p, err
	}
	now := s.now().Unix() / factorPeriod
	for step := max(f.LastStep+1, now-factorSkew); step <= now+factorSkew; step++ {
		want, err := hotp.Code(secret, uint64(step))
		if err != nil {
			return p, err
		}
		if subtle.ConstantTimeCompare([]byte(code), []byte(want)) == 1 {
			return FactorProof{Step: step}, nil
		}
	}
	return p, ErrCode
}

// BeginSecondFactor proposes a second factor, without its QR code, to the user who has
// signed in. Sign-ins do
// not ask for its codes before ConfirmSecondFactor. It returns EConflict when a second
// factor is on, ErrPassword for a wrong password.
func (s *Access) BeginSecondFactor(ctx context.Context, actor Actor, password string) (made api.NewSecondFactor, err error) {
	account, err := s.reauthenticate(ctx, actor, password)
	if err != nil {
		return made, err
	}
	random := make([]byte, factorSecret)
	_, _ = rand.Read(random) // it never fails
	made.Secret = hotp.Secret(random)
	made.URL = hotp.URL("Waypost", account.Email, made.Secret)
	return made, s.factors.ProposeFactor(ctx, actor.UserID, s.box.seal(actor.UserID, made.Secret))
}

// reauthenticate compares the password of a session's user, unless the account has none.
func (s *Access) reauthenticate(ctx context.Context, actor Actor, password string) (Account, error) {
	if actor.SessionID == 0 {
		return Account{}, errFactorSession
	}
	account, _, err := s.sessions.AccountOf(ctx, actor.UserID)
	if err != nil || account.Password == "" {
		return account, err
	}
	ok, err := s.passwords.match(ctx, password, account.Password)
	if err == nil && !ok {
		err = ErrPassword
	}
	return account, err
}

// ConfirmSecondFactor turns the proposed second factor on with its first code, and
// returns recovery codes, to be shown once.
func (s *Access) ConfirmSecondFactor(ctx context.Context, actor Actor, code string) ([]string, error) {
	f, err := s.factorOf(ctx, actor)
	if err != nil {
		return nil, err
	}
	if f.On || len(f.Secret) == 0 {
		return nil, waypost.Errorf(waypost.EConflict, "no second factor waits to be confirmed")
	}
	p, err := s.judgeCode(ctx, actor.UserID, &f, code)
	if err != nil {
		return nil, err
	}
	if p.Step == 0 {
		return nil, ErrCode
	}
	codes, hashes, err := s.newRecoveryCodes(ctx, &f)
	if err != nil {
		return nil, err
	}
	return codes, s.factors.ConfirmFactor(ctx, actor, f.Secret, p, hashes)
}

// factorOf returns the second factor of a session's user, zero for a user without one.
func (s *Access) factorOf(ctx context.Context, actor Actor) (StoredFactor, error) {
	if actor.SessionID == 0 {
		return StoredFactor{}, errFactorSession
	}
	f, _, err := s.factors.SecondFactor(ctx, actor.UserID)
	return f, err
}

// EndSecondFactor turns the second factor off. It returns ErrPassword for a wrong
// password, ErrCode for a wrong code.
func (s *Access) EndSecondFactor(ctx context.Context, actor Actor, password, code string) error {
	if _, err := s.reauthenticate(ctx, actor, password); err != nil {
		return err
	}
	_, p, err := s.proveFactor(ctx, actor, code)
	if err != nil {
		return err
	}
	return s.factors.EndFactor(ctx, actor, p)
}

// RenewRecoveryCodes replaces the recovery codes. It returns ErrCode for a wrong code.
func (s *Access) RenewRecoveryCodes(ctx context.Context, actor Actor, code string) ([]string, error) {
	f, p, err := s.proveFactor(ctx, actor, code)
	if err != nil {
		return nil, err
	}
	codes, hashes, err := s.newRecoveryCodes(ctx, &f)
	if err != nil {
		return nil, err
	}
	return codes, s.factors.RenewRecoveryCodes(ctx, actor, p, hashes)
}

func (s *Access) proveFactor(ctx context.Context, actor Actor, code string) (f StoredFactor, p FactorProof, err error) {
	if f, err = s.factorOf(ctx, actor); err != nil {
		return f, p, err
	}
	if !f.On {
		return f, p, errNoFactor
	}
	p, err = s.judgeCode(ctx, actor.UserID, &f, code)
	return f, p, err
}

// newRecoveryCodes returns codes as people see them, and their hashes.
func (s *Access) newRecoveryCodes(ctx context.Context, f *StoredFactor) (shown []string, hashes [][]byte, err error) {
	var codes []string
	for range RecoveryCodes {
		code := rand.Text()[:recoveryChars]
		codes = append(codes, code)
		shown = append(shown, code[:4]+"-"+code[4:8]+"-"+code[8:12]+"-"+code[12:])
	}
	hashes, err = s.passwords.hashRecovery(ctx, f.Secret, codes...)
	return shown, hashes, err
}

// ResetSecondFactor removes the second factor of any user, for operators.
func (s *Workspaces) ResetSecondFactor(ctx context.Context, actor Actor, user int64) (api.Account, error) {
	if err := actor.CheckOperator(); err != nil {
		return api.Account{}, err
	}
	return s.access.factors.ResetFactor(ctx, actor, user)
}
