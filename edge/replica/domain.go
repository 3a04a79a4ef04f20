package replica

import (
	"strconv"

	"waypost"
)

// noteDomain takes a domain record into the writer's map. What cannot be read as
// one is as good as no domain, and a line in the log.
func (st *store) noteDomain(r *waypost.Record) {
	id, err := strconv.ParseUint(string(r.Name), 10, 32)
	if err != nil {
		st.health.log.Error("a domain record has no number for a name", "name", strconv.QuoteToASCII(string(r.Name)))
		return
	}
	domain := waypost.DomainID(id)
	delete(st.domains, domain)
	if r.State != waypost.Live {
		return
	}
	d, err := waypost.DecodeDomain(r.Payload)
	if err != nil {
		st.health.log.Error("a domain record cannot be used as a whole", "domain", domain, "host", d.Host, "error", err)
	}
	if d.Host != "" {
		st.domains[domain] = d
	}
}

// domainMap is what readers see of the domains. It never changes.
type domainMap struct {
	byHost  map[string]waypost.DomainID
	targets map[waypost.DomainID]waypost.DomainTargets
}

// publishDomains lets readers see the writer's map. Of two domains that claim one
// host, the older has it.
func (st *store) publishDomains() {
	m := &domainMap{byHost: make(map[string]waypost.DomainID, len(st.domains)), targets: map[waypost.DomainID]waypost.DomainTargets{}}
	for id, d := range st.domains {
		if other, taken := m.byHost[d.Host]; !taken || id < other {
			m.byHost[d.Host] = id
		}
		if len(d.Root)+len(d.NotFound) > 0 {
			m.targets[id] = d.DomainTargets
		}
	}
	st.hosts.Store(m)
}

// Domain gives the domain that a host belongs to. The host is in its canonical
// form, as waypost.HostName makes it. It does not allocate and does not wait.
func (db *DB) Domain(host []byte) (waypost.DomainID, bool) {
	st := db.live.Load()
	if st == nil {
		return 0, false
	}
	id, ok := st.hosts.Load().byHost[string(host)]
	return id, ok
}

// Targets gives where a domain leads visitors who follow no link of it. The bytes
// must not be changed. It does not allocate and does not wait.
func (db *DB) Targets(domain waypost.DomainID) waypost.DomainTargets {
	st := db.live.Load()
	if st == nil {
		return waypost.DomainTargets{}
	}
	return st.hosts.Load().targets[domain]
}
