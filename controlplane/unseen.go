package controlplane

import (
	"sync"

	"waypost"
)

// maxUnseen bounds the names that are waited for one by one.
const maxUnseen = 10_000

// unseen remembers what was written through this control plane, or seen to be gone, until its
// replica has it too. Its memory is bounded: when there are too many names, everything is
// awaited up to the last of them. The zero value is ready.
type unseen struct {
	mu     sync.RWMutex
	byName map[writtenName]waypost.Revision
	floor  waypost.Revision // whatever there was up to here is awaited
}

// writtenName is what was written: a host, a domain, or a link of a domain.
type writtenName struct {
	host   string
	domain waypost.DomainID
	code   string
}

func ofHost(host string) writtenName           { return writtenName{host: host} }
func ofDomain(id waypost.DomainID) writtenName { return writtenName{domain: id} }
func ofLink(domain waypost.DomainID, code string) writtenName {
	return writtenName{domain: domain, code: code}
}

// awaited reports whether a replica that stands at a revision lacks what was written of any
// of the names.
func (u *unseen) awaited(at waypost.Revision, names ...writtenName) bool {
	u.mu.RLock()
	defer u.mu.RUnlock()
	if u.floor.Newer(at) {
		return true
	}
	for _, n := range names {
		if written, ok := u.byName[n]; ok && written.Newer(at) {
			return true
		}
	}
	return false
}

// note remembers that a name was written at a revision. The replica stands at another one.
func (u *unseen) note(name writtenName, written, at waypost.Revision) {
	if !written.Newer(at) {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.byName) >= maxUnseen {
		u.forget(at)
	}
	if u.byName == nil {
		u.byName = make(map[writtenName]waypost.Revision)
	}
	if written.Newer(u.byName[name]) {
		u.byName[name] = written
	}
}

// forget drops what the replica has, and all names if that is not enough.
func (u *unseen) forget(at waypost.Revision) {
	for name, written := range u.byName {
		if !written.Newer(at) {
			delete(u.byName, name)
		}
	}
	if len(u.byName) < maxUnseen/2 {
		return
	}
	for _, written := range u.byName {
		if written.Newer(u.floor) {
			u.floor = written
		}
	}
	u.byName = nil
}

// wrote notes what was written through this control plane.
func (s *Service) wrote(name writtenName, at waypost.Position) { s.saw(name, at.Revision()) }

// saw notes that the database has a name at a revision.
func (s *Service) saw(name writtenName, r waypost.Revision) {
	if s.cfg.Replica != nil {
		s.unseen.note(name, r, s.cfg.Replica.Position().Revision())
	}
}
