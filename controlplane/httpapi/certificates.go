package httpapi

import (
	"log/slog"
	"net/http"
	"strings"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
)

// Bounds on a report of certificates, in bytes.
const (
	maxCertificates     = 256 << 10
	maxCertificateError = 256
	maxHost             = 253
)

// Certificates knows the certificates that visitors of domains are shown.
type Certificates interface {
	// Of returns the certificate of a domain's host. It must not block.
	Of(host string) controlplane.HostCertificate
}

// CertificateTaker takes the reports of edges about their certificates. EUnavailable:
// there are too many.
type CertificateTaker interface {
	Report(node string, complete bool, hosts []controlplane.HostCertificate) error
}

// EdgeCertificates takes the certificates of edges, one [api.EdgeCertificates] a POST of
// at most 256 KiB, and answers 204.
func EdgeCertificates(to CertificateTaker, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body api.EdgeCertificates
		var hosts []controlplane.HostCertificate
		err := readPosted(w, r, maxCertificates, &body)
		if err == nil {
			hosts, err = certificatesOf(&body)
		}
		if err == nil {
			err = edgeFrom(r.Context()).maySpeak(r.Context(), body.Node)
		}
		if err == nil {
			err = to.Report(body.Node, body.Complete, hosts)
		}
		if err != nil {
			refuseEdge(w, r, log, "refused an edge's report of certificates", err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
}

// certificatesOf accepts only texts that can be shown to the owners of domains as they
// are.
func certificatesOf(b *api.EdgeCertificates) ([]controlplane.HostCertificate, error) {
	if !waypost.ValidNode(b.Node) || len(b.Hosts) > controlplane.MaxHostCertificates {
		return nil, waypost.Errorf(waypost.EInvalid, "the report needs the name of the edge, and at most %d hosts", controlplane.MaxHostCertificates)
	}
	hosts := make([]controlplane.HostCertificate, len(b.Hosts))
	for i, h := range b.Hosts {
		state := controlplane.CertificateState(h.State)
		switch {
		case h.Host == "" || len(h.Host) > maxHost || !waypost.Printable(h.Host):
			return nil, waypost.Errorf(waypost.EInvalid, "a host must be 1 to %d printable characters", maxHost)
		case state != controlplane.CertificateWaiting && state != controlplane.CertificateValid && state != controlplane.CertificateFailed:
			return nil, waypost.Errorf(waypost.EInvalid, "the state of a certificate must be waiting, valid or failed")
		case len(h.Error) > maxCertificateError || !waypost.Printable(strings.ReplaceAll(h.Error, " ", "")):
			return nil, waypost.Errorf(waypost.EInvalid, "an error must be at most %d printable characters", maxCertificateError)
		case h.Until != nil && !plausible(*h.Until):
			return nil, waypost.Errorf(waypost.EInvalid, "until must be between 1970 and 9999, or left out")
		}
		hosts[i] = controlplane.HostCertificate{Host: h.Host, State: state, Error: h.Error}
		if h.Until != nil {
			hosts[i].Until = *h.Until
		}
	}
	return hosts, nil
}
