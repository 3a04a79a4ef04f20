package httpapi_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/httpapi"
)

func TestEdgeCertificates_TakesOnlyWhatCanBeShown(t *testing.T) {
	now := time.Unix(1_900_000_000, 0)
	to := controlplane.NewCertificates(func() time.Time { return now })
	send := func(method, body string) answer {
		req := httptest.NewRequestWithContext(t.Context(), method, api.PathEdgeCertificates, strings.NewReader(body))
		req.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		httpapi.EdgeCertificates(to, slog.New(slog.DiscardHandler)).ServeHTTP(w, req)
		return answer{w.Result(), w.Body.String()}
	}
	host := func(fields string) string { return `{"node": "a", "complete": true, "hosts": [` + fields + `]}` }
	const good = `{"host": "go.example", "state": "failed", "until": "2031-05-06T06:08:09Z", "error": "DNS has no address"}`
	many, err := json.Marshal(make([]api.HostCertificate, controlplane.MaxHostCertificates+1))
	require.NoError(t, err)
	for name, body := range map[string]string{
		"no node":                  strings.Replace(host(good), `"a"`, `""`, 1),
		"no host":                  host(strings.Replace(good, "go.example", "", 1)),
		"a host that steers":       host(strings.Replace(good, "go.example", `\u001b[2J`, 1)),
		"a long host":              host(strings.Replace(good, "go.example", strings.Repeat("h", 254), 1)),
		"another state":            host(strings.Replace(good, "failed", "none", 1)),
		"a time in the year 10000": host(strings.Replace(good, "2031-05-06T06:08:09Z", "9999-12-31T23:59:59-10:00", 1)),
		"an error in two lines":    host(strings.Replace(good, "DNS", `D\nS`, 1)),
		"a long error":             host(strings.Replace(good, "DNS", strings.Repeat("e", 257), 1)),
		"too many hosts":           `{"node": "a", "hosts": ` + string(many) + `}`,
	} {
		requireProblem(t, send(http.MethodPost, body), 422, "invalid")
		require.Equal(t, controlplane.CertificateUnknown, to.Of("go.example").State, name)
	}
	requireProblem(t, send(http.MethodGet, host(good)), 405, "method-not-allowed")
	requireProblem(t, send(http.MethodPost, host(good)+strings.Repeat(" ", 256<<10)), 413, "too-large")
	require.Equal(t, http.StatusNoContent, send(http.MethodPost, host(good)).StatusCode)
	require.Equal(t, api.DomainCertificate{
		State: controlplane.CertificateFailed, Until: new(time.Date(2031, 5, 6, 6, 8, 9, 0, time.UTC)), Error: "DNS has no address",
	}, to.Of("go.example"))
}
