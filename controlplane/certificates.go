package controlplane

import (
	"strings"
	"sync"
	"time"

	"waypost"
	"waypost/api"
)

// The states of certificates.
const (
	CertificateUnknown = "unknown" // no edge has reported lately, or not about all names
	CertificateNone    = "none"
	CertificateWaiting = "waiting" // for the authority
	CertificateValid   = "valid"
	CertificateFailed  = "failed" // on an edge, lately
)

const (
	// MaxHostCertificates bounds the hosts in a report of an edge.
	MaxHostCertificates = 256

	maxHostCertificates = 100_000     // of all edges
	certificatesLast    = time.Minute // without another report of the edge
)

// Certificates remembers, in memory, the newest report of each edge about its
// certificates. All methods may be called by many goroutines at once.
type Certificates struct {
	now func() time.Time

	mu    sync.Mutex
	edges map[string]edgeCertificates // by node
}

type edgeCertificates struct {
	at       time.Time
	complete bool // other hosts have no certificate
	hosts    map[string]api.HostCertificate
}

// NewCertificates returns a memory without reports. Nil for now means time.Now.
func NewCertificates(now func() time.Time) *Certificates {
	if now == nil {
		now = time.Now
	}
	return &Certificates{now: now, edges: map[string]edgeCertificates{}}
}

// Report replaces the stored report of an edge. Complete says that the edge has no
// certificates for other hosts. Report returns EUnavailable when all edges together have
// too many.
func (c *Certificates) Report(node string, complete bool, hosts []api.HostCertificate) error {
	e := edgeCertificates{complete: complete, hosts: make(map[string]api.HostCertificate, len(hosts))}
	for _, h := range hosts {
		e.hosts[h.Host] = h
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e.at = c.now()
	sum := len(e.hosts)
	for other, known := range c.edges {
		switch {
		case e.at.Sub(known.at) > certificatesLast:
			delete(c.edges, other)
		case other != node:
			sum += 1 + len(known.hosts)
		}
	}
	if sum >= maxHostCertificates {
		return waypost.Errorf(waypost.EUnavailable, "the fleet has %d certificates already", maxHostCertificates)
	}
	c.edges[node] = e
	return nil
}

// Of returns the certificate of a domain: failed if it has failed on any edge, else
// valid, waiting or none. Only hosts that are asked for are shown, whatever edges report.
func (c *Certificates) Of(host string) api.DomainCertificate {
	rank := map[string]int{CertificateUnknown: 1, CertificateWaiting: 2, CertificateValid: 3, CertificateFailed: 4}
	of := api.DomainCertificate{State: CertificateNone}
	c.mu.Lock()
	defer c.mu.Unlock()
	now, heard := c.now(), false
	first := "" // of the edges that failed, by name
	for node, e := range c.edges {
		if now.Sub(e.at) > certificatesLast {
			continue
		}
		heard = true
		h, known := e.of(host)
		switch {
		case !known && !e.complete:
			h.State = CertificateUnknown
		case !known:
			continue
		}
		if rank[h.State] > rank[of.State] {
			of.State = h.State
		}
		if h.Until != nil && (of.Until == nil || h.Until.Before(*of.Until)) {
			of.Until = new(h.Until.UTC())
		}
		if h.State == CertificateFailed && (first == "" || node < first) {
			first, of.Error = node, h.Error
		}
	}
	if !heard {
		of.State = CertificateUnknown
	}
	return of
}

// of finds an edge's certificate for a host: the host's own, or the wildcard certificate
// of its parent.
func (e *edgeCertificates) of(host string) (api.HostCertificate, bool) {
	if h, known := e.hosts[host]; known {
		return h, true
	}
	_, parent, _ := strings.Cut(host, ".")
	h, known := e.hosts["*."+parent]
	return h, known
}
