package httpapi

import (
	"context"
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
	Of(host string) api.DomainCertificate
}

// CertificateTaker takes the reports of edges about their certificates. EUnavailable:
// there are too many.
type CertificateTaker interface {
	Report(node string, complete bool, hosts []api.HostCertificate) error
}

// EdgeCertificates takes the certificates of edges, one [api.EdgeCertificates] a POST of
// at most 256 KiB, and answers 204.
func EdgeCertificates(to CertificateTaker, log *slog.Logger) http.Handler {
	const refusal = "refused an edge's report of certificates"
	return edgePosts(maxCertificates, refusal, log, func(ctx context.Context, body *api.EdgeCertificates) (any, error) {
		err := checkCertificates(body)
		if err == nil {
			err = edgeFrom(ctx).maySpeak(ctx, body.Node)
		}
		if err == nil {
			err = to.Report(body.Node, body.Complete, body.Hosts)
		}
		return nil, err
	})
}

// checkCertificates accepts only texts that can be shown to the owners of domains as they
// are.
func checkCertificates(b *api.EdgeCertificates) error {
	if !waypost.ValidNode(b.Node) || len(b.Hosts) > controlplane.MaxHostCertificates {
		return waypost.Errorf(waypost.EInvalid, "the report needs the name of the edge, and at most %d hosts", controlplane.MaxHostCertificates)
	}
	for _, h := range b.Hosts {
		switch {
		case h.Host == "" || len(h.Host) > maxHost || !waypost.Printable(h.Host):
			return waypost.Errorf(waypost.EInvalid, "a host must be 1 to %d printable characters", maxHost)
		case h.State != controlplane.CertificateWaiting && h.State != controlplane.CertificateValid && h.State != controlplane.CertificateFailed:
			return waypost.Errorf(waypost.EInvalid, "the state of a certificate must be waiting, valid or failed")
		case len(h.Error) > maxCertificateError || !waypost.Printable(strings.ReplaceAll(h.Error, " ", "")):
			return waypost.Errorf(waypost.EInvalid, "an error must be at most %d printable characters", maxCertificateError)
		case h.Until != nil && !plausible(*h.Until):
			return waypost.Errorf(waypost.EInvalid, "until must be between 1970 and 9999, or left out")
		}
	}
	return nil
}
