package report

import (
	"context"
	"time"

	"waypost/api"
)

// Limits of a report of certificates.
const (
	maxHosts  = 256
	maxReason = 256 // bytes
)

// certificates sends the state of the edge's certificates from time to time. A report
// that does not get through is dropped: the next one has everything.
func (r *Reporter) certificates(ctx context.Context) {
	if r.cfg.Certificates == nil || time.Since(r.certified) < r.cfg.CertificatesInterval {
		return
	}
	r.certified = time.Now()
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	all := api.EdgeCertificates{Node: r.cfg.Node}
	all.Hosts, all.Complete = r.cfg.Certificates(maxHosts)
	for i := range all.Hosts {
		all.Hosts[i].Error = plain(all.Hosts[i].Error, maxReason)
	}
	if _, err := r.exchange(ctx, api.PathEdgeCertificates, all); err != nil {
		r.cfg.Logger.DebugContext(ctx, "cannot report the certificates", "error", err)
	}
}
