package controlplane

import (
	"context"
	"errors"
	"net"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"waypost"
)

// DomainState says whether a domain is served, and why.
type DomainState string

const (
	DomainApproved  DomainState = "approved"  // served: it is an operator's, or an operator has approved it
	DomainProved    DomainState = "proved"    // served: its owner has proved it by DNS
	DomainPending   DomainState = "pending"   // not served: it was never proved
	DomainSuspended DomainState = "suspended" // not served: its proof was lost
)

// OwnedDomain is a domain as its owner sees it. Its host is the host that the owner asked
// for, even while the domain is not served.
type OwnedDomain struct {
	waypost.Domain
	State DomainState

	// Proof is the text of the TXT record at ProofName(Host) that proves the domain; "" for
	// an approved one.
	Proof         string
	CheckedAt     time.Time // when the record was last looked for; zero: never
	UnprovedSince time.Time // since when the record is known to be missing; zero: it is not
}

// Served reports whether edges answer for the domain.
func (d *OwnedDomain) Served() bool { return d.State == DomainApproved || d.State == DomainProved }

// SuspendedAt returns the time at which the domain is suspended unless its record comes
// back. It returns zero when no suspension is due.
func (d *OwnedDomain) SuspendedAt() time.Time {
	if d.State != DomainProved || d.UnprovedSince.IsZero() {
		return time.Time{}
	}
	return d.UnprovedSince.Add(ProofGrace)
}

// ProofName is the name of the TXT record that proves who owns a host.
func ProofName(host string) string { return "_waypost." + host }

// ProofGrace is the time for which a served domain outlives its record, so that no
// printed link dies of a mistake in a zone file. It ends at once when another workspace
// proves the host.
const ProofGrace = 30 * 24 * time.Hour

// Resolver looks up TXT records; [net.Resolver] is one. A *net.DNSError with IsNotFound
// says that the name has no records.
type Resolver interface {
	LookupTXT(ctx context.Context, name string) ([]string, error)
}

const (
	proofInterval = 24 * time.Hour  // between two looks at the record of a domain
	proofPause    = time.Minute     // between two rounds
	proofBatch    = 200             // domains of a round
	proofsAtOnce  = 8               // domains that are checked at a time: DNS may be slow for all domains of one workspace
	proofTimeout  = 5 * time.Second // for DNS

	proofLookups      = 16 // at a time, for all clients of the API
	proofLookupsOfOne = 4  // at a time, for the clients of one workspace
)

// Verify looks up the record of a domain now, and returns the domain, which is served if
// DNS has the record. If the record is missing, Verify returns EInvalid and names the
// records that DNS has. It returns EUnavailable when DNS does not answer, and EConflict
// when another domain has the host.
func (s *Domains) Verify(ctx context.Context, actor Actor, id waypost.DomainID) (now OwnedDomain, at waypost.Position, err error) {
	d, err := s.changeable(ctx, actor, id)
	switch {
	case err != nil:
		return now, at, err
	case d.State == DomainApproved:
		return now, at, waypost.Errorf(waypost.EInvalid, "the domain %s needs no proof: it is approved", d.Host)
	}
	if !s.lookups.TryAcquire(actor.Workspace, 1) {
		return now, at, waypost.Errorf(waypost.EUnavailable, "too many domains are being verified: try again in a moment")
	}
	defer s.lookups.Release(actor.Workspace, 1)
	found, err := s.lookUp(ctx, d.Host)
	if err != nil {
		s.log.WarnContext(ctx, "cannot look up the proof of a domain", "host", d.Host, "error", err)
		return now, at, err
	}
	now, at, err = s.store.NoteProof(ctx, actor, id, found)
	if err != nil {
		return now, at, err
	}
	s.changed(ctx)
	if !slices.Contains(found, now.Proof) {
		return now, at, missing(&now, found)
	}
	return now, at, nil
}

// missing says to the owner of a domain which record DNS lacks.
func missing(d *OwnedDomain, found []string) error {
	has := "which has no TXT record"
	if len(found) > 0 {
		has = "which has other TXT records"
	}
	return waypost.Errorf(waypost.EInvalid, "%s is not proved: add a TXT record with the text %s at %s, %s so far as DNS knows, "+
		"and which resolvers remember for a while", d.Host, d.Proof, ProofName(d.Host), has)
}

// lookUp returns the TXT records that prove who owns a host, none when DNS says so. The
// error is EUnavailable when DNS does not answer.
func (s *Domains) lookUp(ctx context.Context, host string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, proofTimeout)
	defer cancel()
	found, err := s.resolver.LookupTXT(ctx, ProofName(host)+".")
	if is, ok := errors.AsType[*net.DNSError](err); ok && is.IsNotFound {
		return nil, nil
	}
	if err != nil {
		said := "does not answer"
		if wrong, ok := errors.AsType[*net.DNSError](err); ok && !wrong.IsTimeout {
			said = "answers: " + wrong.Err
		}
		return nil, waypost.WrapError(waypost.EUnavailable, "DNS does not say whether "+ProofName(host)+" has a TXT record, because the "+
			"resolver of the control plane "+said+"; its log has the address. Try again later", err)
	}
	return found, nil
}

// Approve makes a domain served without a proof, for names that public DNS does not know.
// That needs [Actor.CheckOperator]. Approve returns EConflict when another domain has the
// host.
func (s *Domains) Approve(ctx context.Context, actor Actor, id waypost.DomainID) (OwnedDomain, waypost.Position, error) {
	if err := actor.CheckOperator(); err != nil {
		return OwnedDomain{}, waypost.Position{}, err
	}
	d, at, err := s.store.ApproveDomain(ctx, actor, id)
	if err == nil {
		s.changed(ctx)
	}
	return d, at, err
}

// run looks for the records of all domains, each once a day, until ctx ends.
func (s *Domains) run(ctx context.Context) {
	Poll(ctx, proofPause, s.CheckProofs, func(err error) {
		s.log.Warn("cannot look for the records that prove domains, will try again", "error", err)
	})
}

// CheckProofs looks up the records of the domains that are due. When DNS does not answer
// for a domain, nothing changes until the domain is due again.
func (s *Domains) CheckProofs(ctx context.Context) error {
	due, err := s.store.DueProofs(ctx, proofInterval, proofBatch)
	if err != nil {
		return err
	}
	var group errgroup.Group
	group.SetLimit(proofsAtOnce)
	for i := range due {
		group.Go(func() error { return s.checkProof(ctx, &due[i]) })
	}
	return group.Wait()
}

func (s *Domains) checkProof(ctx context.Context, d *OwnedDomain) error {
	found, err := s.lookUp(ctx, d.Host)
	if err != nil {
		s.log.Info("cannot look up the record that proves a domain, will try again", "host", d.Host, "error", err)
		return ctx.Err()
	}
	now, _, err := s.store.NoteProof(ctx, Actor{Workspace: d.Workspace, Name: "daily check"}, d.ID, found)
	switch {
	case waypost.CodeOf(err) == waypost.EConflict, waypost.CodeOf(err) == waypost.ENotFound:
		return nil // another workspace has the host, or the domain was removed a moment ago
	case err != nil:
		return err
	case now.State != d.State:
		s.changed(ctx)
		s.log.Warn("changed the state of a domain after a look at its record", "host", d.Host, "workspace", d.Workspace, "state", now.State)
	case !now.SuspendedAt().IsZero():
		s.log.Warn("found no record that proves a domain", "host", d.Host, "workspace", d.Workspace, "record", ProofName(d.Host),
			"since", now.UnprovedSince, "suspended_at", now.SuspendedAt())
	}
	return nil
}
