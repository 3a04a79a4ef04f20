package controlplane

import (
	"context"
	"sync/atomic"
	"time"

	"waypost"
)

// Replica is a control plane's own copy of what edges hold. All methods may be called by
// many goroutines at once.
type Replica interface {
	// Link, Domain and Targets are those of an edge's replica.
	Link(domain waypost.DomainID, code, buf []byte) (rec waypost.Record, grown []byte, found bool, err error)
	Domain(host []byte) (waypost.DomainID, bool)
	Targets(domain waypost.DomainID) waypost.DomainTargets

	// Position is zero before there is anything. Whoever reads afterwards finds what it says.
	Position() waypost.Position

	// Fresh reports whether it holds what was committed a moment ago.
	Fresh() bool
}

const (
	// patience is how long the database is asked for something that a replica knows too.
	patience = time.Second
	// silentFor is how long a database that did not answer is not asked for such things again.
	silentFor = time.Second
)

// Resolve answers a visit to a code as an edge would. Host is as the client sent it.
//
// With a replica, what that holds is answered from there: by all that was written through
// this control plane, and by what others wrote as soon as an edge has it. The database is
// asked for codes that the replica does not know, for what it cannot have yet, and while it
// is not fresh; when the database does not answer then, the replica does if it can.
func (s *Service) Resolve(ctx context.Context, host string, v *waypost.Visit) (waypost.Resolution, error) {
	host = waypost.HostName(host)
	held := s.held(host, string(v.Code), func(r Replica, domain waypost.DomainID) (waypost.Resolution, bool) {
		return s.resolveHeld(r, domain, v)
	})
	if held.enough(&s.silence) {
		return held.res, nil
	}
	bounded, cancel := held.bound(ctx)
	defer cancel()
	res, rec, err := s.resolveStored(bounded, host, v)
	if held.insteadOf(ctx, err, &s.silence) {
		return held.res, nil
	}
	if err == nil && res.Status == goneStatus {
		// Who has seen that it is gone does not see it again.
		s.saw(ofLink(rec.Domain, string(v.Code)), rec.Revision)
	}
	return res, err
}

const goneStatus = 410

// resolveHeld answers a visit to a domain from the replica; false when that does not know.
func (s *Service) resolveHeld(r Replica, domain waypost.DomainID, v *waypost.Visit) (waypost.Resolution, bool) {
	res := waypost.NotFound
	if waypost.ValidCode(v.Code) {
		rec, buf, found, err := r.Link(domain, v.Code, nil)
		if err != nil || !found {
			return res, false
		}
		res, _ = waypost.Resolve(&rec, s.cfg.Now().UnixMilli()).Follow(buf, v)
	}
	return r.Targets(domain).InsteadOf(res), true
}

// resolveStored answers a visit from the database, and gives the record by which it did.
func (s *Service) resolveStored(ctx context.Context, host string, v *waypost.Visit) (res waypost.Resolution, rec waypost.Record, err error) {
	res = waypost.NotFound
	if waypost.ValidCode(v.Code) {
		var found bool
		rec, found, err = s.links.Record(ctx, host, s.cfg.StrictHosts, waypost.Code(v.Code))
		if err != nil {
			return waypost.NotFound, rec, err
		}
		if found {
			res, _ = waypost.Resolve(&rec, s.cfg.Now().UnixMilli()).Follow(nil, v)
		}
	}
	if res.Status != waypost.NotFound.Status || s.domains == nil {
		return res, rec, nil
	}
	targets, err := s.targetsOf(ctx, host)
	if err != nil {
		return waypost.NotFound, rec, err
	}
	return targets.InsteadOf(res), rec, nil
}

// Root gives the answer to the root of the domain that a host belongs to, and false
// when it has no target. Host is as the client sent it. A host that is no domain's
// has none: that is how programs ask for the API.
func (s *Service) Root(ctx context.Context, host string) (waypost.Resolution, bool, error) {
	if s.domains == nil {
		return waypost.Resolution{}, false, nil
	}
	host = waypost.HostName(host)
	held := s.held(host, "", func(r Replica, domain waypost.DomainID) (waypost.Resolution, bool) {
		if _, known := r.Domain([]byte(host)); !known {
			return waypost.Resolution{}, true
		}
		res, _ := r.Targets(domain).AtRoot()
		return res, true
	})
	if held.enough(&s.silence) {
		return held.res, len(held.res.Location) > 0, nil
	}
	bounded, cancel := held.bound(ctx)
	defer cancel()
	d, found, err := s.domains.DomainOf(bounded, host)
	switch {
	case held.insteadOf(ctx, err, &s.silence):
		return held.res, len(held.res.Location) > 0, nil
	case err != nil || !found:
		return waypost.Resolution{}, false, err
	}
	res, ok := d.AtRoot()
	return res, ok, nil
}

// targetsOf gives the targets of the domain that a host, as waypost.HostName makes it, means.
func (s *Service) targetsOf(ctx context.Context, host string) (waypost.DomainTargets, error) {
	d, found, err := s.domains.DomainOf(ctx, host)
	if err != nil || found || s.cfg.StrictHosts {
		return d.DomainTargets, err
	}
	return s.domains.DefaultTargets(ctx)
}

// heldAnswer is what the replica says.
type heldAnswer struct {
	res   waypost.Resolution
	known bool // it says something, which may be old
	fresh bool
}

// held asks the replica about a host, and a code unless that is "". What was written here and
// is on its way is not known to it.
func (s *Service) held(host, code string, ask func(Replica, waypost.DomainID) (waypost.Resolution, bool)) (h heldAnswer) {
	r := s.cfg.Replica
	if r == nil {
		return h
	}
	at := r.Position() // before the rest, so that this holds at least what it says
	if at.IsZero() {
		return h
	}
	fresh := r.Fresh()
	domain, named := r.Domain([]byte(host))
	if !named {
		if s.cfg.StrictHosts {
			return h // it may have been added a moment ago
		}
		domain = waypost.DefaultDomain
	}
	if s.unseen.awaited(at.Revision(), ofHost(host), ofDomain(domain), ofLink(domain, code)) {
		return h
	}
	h.res, h.known = ask(r, domain)
	h.fresh = fresh && h.known
	return h
}

// enough reports whether nobody else needs to be asked, or can be.
func (h *heldAnswer) enough(s *silence) bool { return h.fresh || h.known && s.lasts(time.Now()) }

// bound is how long somebody else may be asked.
func (h *heldAnswer) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if !h.known {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, patience)
}

// insteadOf reports whether the answer is to be used because of an error of the database.
func (h *heldAnswer) insteadOf(ctx context.Context, err error, s *silence) bool {
	switch {
	case err == nil:
		s.end()
		return false
	case waypost.CodeOf(err) != waypost.EUnavailable || !h.known:
		return false
	case ctx.Err() == nil: // or it is the visitor who has left
		s.begin(time.Now())
	}
	return true
}

// silence is that of a database which did not answer.
type silence struct{ until atomic.Int64 } // Unix nanoseconds; 0: there is none

// lasts reports whether the database need not be asked now. After a time one asks for all.
func (s *silence) lasts(now time.Time) bool {
	until := s.until.Load()
	if until == 0 {
		return false
	}
	return now.UnixNano() < until || !s.until.CompareAndSwap(until, now.Add(patience+silentFor).UnixNano())
}

func (s *silence) begin(now time.Time) { s.until.Store(now.Add(silentFor).UnixNano()) }

func (s *silence) end() {
	if s.until.Load() != 0 {
		s.until.Store(0)
	}
}
