package controlplane_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
)

func TestCertificates_OfAllEdges(t *testing.T) {
	now := time.Unix(1_900_000_000, 0).UTC()
	c := controlplane.NewCertificates(func() time.Time { return now })
	const host = "go.example.com"
	is := func(state string, until time.Time, text string) {
		t.Helper()
		want := api.DomainCertificate{State: state, Error: text}
		if !until.IsZero() {
			want.Until = &until
		}
		require.Equal(t, want, c.Of(host))
	}
	report := func(node string, hosts ...api.HostCertificate) {
		t.Helper()
		require.NoError(t, c.Report(node, true, hosts))
	}
	soon, later := now.Add(time.Hour), now.Add(2*time.Hour)
	valid := func(name string, until time.Time) api.HostCertificate {
		return api.HostCertificate{Host: name, State: controlplane.CertificateValid, Until: &until}
	}
	is(controlplane.CertificateUnknown, time.Time{}, "")
	report("a")
	is(controlplane.CertificateNone, time.Time{}, "")
	require.NoError(t, c.Report("f", false, nil))
	is(controlplane.CertificateUnknown, time.Time{}, "") // it had no room for all
	report("f")
	report("b", api.HostCertificate{Host: host, State: controlplane.CertificateWaiting}, valid("other.example.com", soon))
	is(controlplane.CertificateWaiting, time.Time{}, "")
	report("c", valid(host, later))
	is(controlplane.CertificateValid, later, "")
	report("d", valid("*.example.com", soon))
	is(controlplane.CertificateValid, soon, "")
	require.Equal(t, controlplane.CertificateNone, c.Of("example.com").State)
	require.Equal(t, controlplane.CertificateNone, c.Of("x.go.example.com").State)
	report("e", api.HostCertificate{Host: host, State: controlplane.CertificateFailed, Error: "refused"})
	is(controlplane.CertificateFailed, soon, "refused")
	report("e", valid(host, later))
	is(controlplane.CertificateValid, soon, "") // the newest report counts

	now = now.Add(50 * time.Second)
	report("c", valid(host, later))
	now = now.Add(50 * time.Second)
	is(controlplane.CertificateValid, later, "") // an edge that is silent does not count
	now = now.Add(50 * time.Second)
	is(controlplane.CertificateUnknown, time.Time{}, "")
}

func TestCertificates_AreBounded(t *testing.T) {
	now := time.Unix(1_900_000_000, 0)
	c := controlplane.NewCertificates(func() time.Time { return now })
	hosts := make([]api.HostCertificate, controlplane.MaxHostCertificates)
	for i := range hosts {
		hosts[i] = api.HostCertificate{Host: fmt.Sprintf("%d.example.com", i), State: controlplane.CertificateValid}
	}
	var err error
	edges := 0
	for ; err == nil && edges < 1000; edges++ {
		err = c.Report(fmt.Sprint(edges), true, hosts)
	}
	require.Equal(t, waypost.EUnavailable, waypost.CodeOf(err))
	require.InDelta(t, 390, edges, 5)
	require.NoError(t, c.Report("0", true, hosts), "edges that are known still report")
	now = now.Add(time.Hour)
	require.NoError(t, c.Report("new", true, hosts))
}
