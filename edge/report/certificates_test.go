package report_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/httpapi"
	"waypost/edge/report"
)

// inspector takes certificates as the control plane does.
type inspector chan []api.HostCertificate

func (i inspector) Report(node string, complete bool, hosts []api.HostCertificate) error {
	if node == "edge-a" && !complete {
		i <- hosts
	}
	return nil
}

func TestReporter_SendsTheLargestListOfCertificates(t *testing.T) {
	arrived := make(inspector, 10_000)
	mux := http.NewServeMux()
	mux.HandleFunc(api.PathEdgeReports, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.Handle(api.PathEdgeCertificates, httpapi.EdgeCertificates(arrived, slog.New(slog.DiscardHandler)))
	until := time.Date(2031, 5, 6, 7, 8, 9, 123456789, time.UTC)
	certificates := func(most int) (hosts []api.HostCertificate, complete bool) {
		for i := range most {
			name := fmt.Sprintf("%d.", i)
			name += strings.Repeat("h", 253-len(name))
			hosts = append(hosts, api.HostCertificate{Host: name, State: "failed", Until: &until, Error: "no\n" + strings.Repeat("\"", 1000)})
		}
		return hosts, false
	}
	_, stop := run(t, report.Config{
		URL: serve(t, mux), Interval: time.Millisecond, Timeout: time.Minute, Certificates: certificates, CertificatesInterval: time.Millisecond,
	})
	var first []api.HostCertificate
	select {
	case first = <-arrived:
	case <-time.After(time.Minute):
		t.Fatal("nothing has arrived")
	}
	require.Len(t, first, controlplane.MaxHostCertificates)
	require.Equal(t, until, *first[0].Until)
	require.Equal(t, controlplane.CertificateFailed, first[0].State)
	require.True(t, strings.HasPrefix(first[0].Error, `no?"`) && strings.HasSuffix(first[0].Error, `"...`))
	stop()
}
