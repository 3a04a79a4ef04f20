package controlplane

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"waypost"
	"waypost/internal/codes"
)

// CodeSwitcher changes the keys of all links of a domain.
type CodeSwitcher interface {
	// Collisions returns up to limit groups of codes of a domain that differ in case alone,
	// and the number of all groups. Of a group at least one code leads to a link that is not
	// deleted.
	Collisions(ctx context.Context, id waypost.DomainID, limit int) (found []Collision, count int, err error)

	// SwitchingDomains returns the domains that are being switched.
	SwitchingDomains(ctx context.Context) ([]waypost.Domain, error)

	// SwitchCodes changes the keys of all links of a domain as its case demands, in many
	// transactions, and ends the switch. It begins anywhere, and several may run at once.
	SwitchCodes(ctx context.Context, id waypost.DomainID) error

	// RefuseSwitch switches a domain that is being switched back to regard case.
	RefuseSwitch(ctx context.Context, id waypost.DomainID) error
}

// Collision is a group of codes that differ in case alone.
type Collision struct {
	Codes []string // as they are shown, not all of a large group
	Lives bool     // one is not deleted
}

// maxCollisions bounds the groups that an error lists.
const maxCollisions = 100

func collisionError(found []Collision, count int) error {
	groups := make([]string, len(found), len(found)+1)
	for i, c := range found {
		groups[i] = strings.Join(c.Codes, ", ")
	}
	if count > len(found) {
		groups = append(groups, fmt.Sprintf("and %d groups more", count-len(found)))
	}
	return waypost.Errorf(waypost.EConflict, "codes of the domain differ in case alone: %s", strings.Join(groups, "; "))
}

// switchPoll is the interval of looks for domains that are being switched.
const switchPoll = time.Second

// runSwitches switches domains until ctx ends, also domains that another control plane
// was switching when it stopped.
func (s *Domains) runSwitches(ctx context.Context) {
	Poll(ctx, switchPoll, s.switchDomains, func(err error) {
		s.log.Warn("cannot switch a domain between codes with and without regard to case, will try again", "error", err)
	})
}

func (s *Domains) switchDomains(ctx context.Context) error {
	all, err := s.store.SwitchingDomains(ctx)
	for i := 0; i < len(all) && err == nil; i++ {
		d := &all[i]
		count := 0
		if d.Traits&waypost.IgnoresCase != 0 {
			if _, count, err = s.store.Collisions(ctx, d.ID, 0); err != nil {
				return err
			}
		}
		if count > 0 { // links came between the request and its commit
			s.log.ErrorContext(ctx, "refused to switch a domain because codes differ in case alone", "host", d.Host, "groups", count)
			err = s.store.RefuseSwitch(ctx, d.ID)
			continue
		}
		if err = s.store.SwitchCodes(ctx, d.ID); err == nil {
			s.changed(ctx)
			s.log.InfoContext(ctx, "switched the codes of a domain", "host", d.Host, "ignores_case", d.Traits&waypost.IgnoresCase != 0)
		}
	}
	return err
}

// ErrSwitching refuses links that a domain would have to give two keys. An import waits.
var ErrSwitching = waypost.Errorf(waypost.EConflict,
	"the domain is being switched between codes with and without regard to case: try again in a moment")

// keyOf returns the key of a code.
func keyOf(code waypost.Code, ignoresCase bool) waypost.Code {
	if ignoresCase {
		return codes.Fold(code)
	}
	return code
}

// IgnoresCase reports whether all links of the domain of a host, "" for the default one,
// are found in any case.
func (s *Links) IgnoresCase(ctx context.Context, actor Actor, host string) (bool, error) {
	d, err := s.domains.named(ctx, actor, host)
	return d.Traits&(waypost.IgnoresCase|waypost.CaseSwitching) == waypost.IgnoresCase, err
}

// locate finds the domain of a host, "" for the default one, and the key of a code there.
// It returns ENotFound for a text that is no code, and the errors of named.
func (s *Domains) locate(ctx context.Context, actor Actor, host, code string) (waypost.Domain, waypost.Code, error) {
	if !waypost.ValidCode(code) {
		return waypost.Domain{}, "", waypost.ErrNoLink
	}
	d, err := s.named(ctx, actor, host)
	if err != nil {
		return d, "", err
	}
	key, err := s.keyIn(ctx, &d, waypost.Code(code))
	return d, key, err
}

// keyIn returns the key of a code in a domain. While the domain is being switched, the
// store knows it.
func (s *Domains) keyIn(ctx context.Context, d *waypost.Domain, code waypost.Code) (waypost.Code, error) {
	key := keyOf(code, d.Traits&(waypost.IgnoresCase|waypost.CaseSwitching) != 0)
	if d.Traits&waypost.CaseSwitching == 0 || key == code {
		return key, nil
	}
	held, _, err := s.store.HeldKey(ctx, d.ID, code, key)
	return cmp.Or(held, key), err
}
