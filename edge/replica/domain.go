package replica

import (
	"encoding/json"
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
	var body struct {
		Host string `json:"host"`
	}
	if err := json.Unmarshal(r.Payload, &body); err != nil || body.Host == "" {
		st.health.log.Error("a domain record names no host", "domain", domain, "error", err)
		return
	}
	st.domains[domain] = waypost.HostName(body.Host)
}

// publishDomains lets readers see the writer's map. Of two domains that claim one
// host, the older has it.
func (st *store) publishDomains() {
	hosts := make(map[string]waypost.DomainID, len(st.domains))
	for id, host := range st.domains {
		if other, taken := hosts[host]; !taken || id < other {
			hosts[host] = id
		}
	}
	st.hosts.Store(&hosts)
}

// Domain gives the domain that a host belongs to. The host is in its canonical
// form, as waypost.HostName makes it. It does not allocate and does not wait.
func (db *DB) Domain(host []byte) (waypost.DomainID, bool) {
	st := db.live.Load()
	if st == nil {
		return 0, false
	}
	hosts := st.hosts.Load()
	id, ok := (*hosts)[string(host)]
	return id, ok
}
