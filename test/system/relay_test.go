package system_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/client"
	"waypost/internal/admin"
	"waypost/replication/replicationtest"
	"waypost/test/devtest"
)

// followerEdge is an edge next to a development system, as a process of its own.
type followerEdge struct {
	t       *testing.T
	process *devtest.Process
	status  admin.Status
}

// edgeState is the part of /readyz that the tests read.
type edgeState struct {
	Position   string    `json:"position"`
	Connected  bool      `json:"connected"`
	Source     string    `json:"source"`
	Via        []string  `json:"via"`
	AgeSeconds float64   `json:"age_seconds"`
	OriginTime time.Time `json:"origin_time"`
	Digest     string    `json:"digest"`
	Degraded   string    `json:"degraded"`
}

func startFollower(t *testing.T, s *devtest.System, name, control string, extra ...string) *followerEdge {
	t.Helper()
	dir := t.TempDir()
	p := devtest.Spawn(t, append([]string{
		"WAYPOST_EDGE_ADDR=127.0.0.1:0", "WAYPOST_EDGE_ADMIN_ADDR=127.0.0.1:0", "WAYPOST_EDGE_REGION=us-east-1",
		"WAYPOST_EDGE_STRICT_HOSTS=false", "WAYPOST_EDGE_NODE=" + name, "WAYPOST_EDGE_CONTROL_URLS=" + control,
		"WAYPOST_EDGE_TOKEN_FILE=" + filepath.Join(s.DataDir(), "secrets", "edge-token"),
		"WAYPOST_EDGE_DATA_DIR=" + dir,
	}, extra...), "edge")
	return &followerEdge{t, p, devtest.AwaitStatus(t, dir, func(s admin.Status) bool { return s.PID == p.PID() })}
}

func (e *followerEdge) state() (s edgeState) {
	e.t.Helper()
	req, err := http.NewRequestWithContext(e.t.Context(), http.MethodGet, "http://"+e.status.AdminAddr+"/readyz", http.NoBody)
	require.NoError(e.t, err)
	res, err := visitor.Do(req)
	require.NoError(e.t, err)
	require.NoError(e.t, json.NewDecoder(res.Body).Decode(&s))
	require.NoError(e.t, res.Body.Close())
	return s
}

func (e *followerEdge) awaitLink(code string) {
	e.t.Helper()
	eventually(e.t, 60*time.Second, "redirected by "+e.status.Node, func() bool {
		return visit{method: http.MethodGet}.to(e.t, "http://"+e.status.Addr, code) == http.StatusFound
	})
}

func TestEdges_FollowARelayBelowItOrWhileTheControlPlaneIsAway(t *testing.T) {
	t.Parallel()
	system := oneEdge.For(t)
	state := system.State()
	api, err := client.New(state.API, state.APIKey)
	require.NoError(t, err)
	t.Cleanup(api.Close)
	control := func() string { return strings.TrimPrefix(state.Fleet, "http://") }
	create := func() string {
		t.Helper()
		var l client.Link
		persist(t, func() (err error) {
			l, err = api.Links.Create(t.Context(), client.NewLink{OriginalURL: "https://example.com/"})
			return err
		})
		return l.ShortCode
	}

	relayWire, edgeWire := replicationtest.NewWire(t, control), replicationtest.NewWire(t, control)
	relay := startFollower(t, system, "relay-1", relayWire.URL(), "WAYPOST_EDGE_RELAY_ADDR=127.0.0.1:0")
	relayURL := "http://" + relay.status.Relay
	below := startFollower(t, system, "below-1", relayURL)
	beside := startFollower(t, system, "beside-1", edgeWire.URL()+","+relayURL)
	all := []*followerEdge{relay, below, beside}
	secure := startSecureRelay(t, system)
	secure.requireRefusals(t)

	code := create()
	for _, e := range append(all, secure.relay, secure.below) {
		e.awaitLink(code)
	}
	eventually(t, 60*time.Second, "through the relay", func() bool { return slices.Equal(below.state().Via, []string{"relay-1"}) })
	eventually(t, 60*time.Second, "through the relay with TLS", func() bool {
		return slices.Equal(secure.below.state().Via, []string{"secure-1"})
	})
	eventually(t, 60*time.Second, "from the control plane", func() bool {
		s := beside.state()
		return s.Connected && s.Source == edgeWire.URL() && len(s.Via) == 0
	})
	for _, e := range secure.others {
		require.Equal(t, http.StatusServiceUnavailable, visit{method: http.MethodGet}.to(t, "http://"+e.status.Addr, code), e.status.Node)
	}
	eventually(t, 60*time.Second, "shown in the fleet view", func() bool {
		fleet := fleetOf(t, api)
		return fleet["relay-1"].Role == "relay" && fleet["below-1"].Role == "edge" && fleet["beside-1"].Role == "edge"
	})
	eventually(t, 60*time.Second, "counted, also below the relay", func() bool {
		var l client.Link
		persist(t, func() (err error) {
			l, err = api.Links.Find(t.Context(), "", code)
			return err
		})
		return l.ClickCount == 5
	})

	// Cut off, an edge follows the relay, and says so.
	edgeWire.Cut()
	eventually(t, 60*time.Second, "followed in its place", func() bool { s := beside.state(); return s.Connected && s.Source == relayURL })
	code = create()
	beside.awaitLink(code)
	eventually(t, 60*time.Second, "named", func() bool { return slices.Equal(beside.state().Via, []string{"relay-1"}) })
	eventually(t, 60*time.Second, "young", func() bool { return beside.state().AgeSeconds < 5 })

	// With the relay cut off as well, no edge looks young.
	relayWire.Cut()
	eventually(t, 60*time.Second, "older", func() bool {
		return relay.state().AgeSeconds > 3 && below.state().AgeSeconds > 3 && beside.state().AgeSeconds > 3
	})
	first := below.state().OriginTime

	relayWire.Mend()
	edgeWire.Mend()
	eventually(t, 60*time.Second, "followed again", func() bool { s := beside.state(); return s.Connected && s.Source == edgeWire.URL() })
	code = create()
	for _, e := range all {
		e.awaitLink(code)
	}
	eventually(t, 60*time.Second, "young again", func() bool { return below.state().OriginTime.After(first) })
}

// newCertificates writes PREFIX-ca.pem, PREFIX.pem and PREFIX-key.pem, of an
// authority of its own, for this machine.
func newCertificates(t *testing.T, prefix string) {
	t.Helper()
	newKey := func() *ecdsa.PrivateKey {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		require.NoError(t, err)
		return key
	}
	write := func(name, kind string, der []byte) {
		require.NoError(t, os.WriteFile(prefix+name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	}
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: prefix}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour),
		IsCA:     true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: authority.NotBefore, NotAfter: authority.NotAfter, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	signer, key := newKey(), newKey()
	der, err := x509.CreateCertificate(rand.Reader, authority, authority, signer.Public(), signer)
	require.NoError(t, err)
	write("-ca.pem", "CERTIFICATE", der)
	der, err = x509.CreateCertificate(rand.Reader, leaf, authority, key.Public(), signer)
	require.NoError(t, err)
	write(".pem", "CERTIFICATE", der)
	der, err = x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	write("-key.pem", "PRIVATE KEY", der)
}

// secureRelay is a relay that speaks TLS, and the edges below it.
type secureRelay struct {
	relay, below *followerEdge
	others       []*followerEdge // one that is not trusted, and one that does not trust
	certificate  string          // prefix of the files of those who may
	foreign      string
}

func startSecureRelay(t *testing.T, system *devtest.System) *secureRelay {
	t.Helper()
	p := &secureRelay{certificate: filepath.Join(t.TempDir(), "good"), foreign: filepath.Join(t.TempDir(), "foreign")}
	newCertificates(t, p.certificate)
	newCertificates(t, p.foreign)
	p.relay = startFollower(t, system, "secure-1", system.State().Fleet, "WAYPOST_EDGE_RELAY_ADDR=127.0.0.1:0",
		"WAYPOST_EDGE_NODE_CERT_FILE="+p.certificate+".pem", "WAYPOST_EDGE_NODE_KEY_FILE="+p.certificate+"-key.pem",
		"WAYPOST_EDGE_NODE_CA_FILE="+p.certificate+"-ca.pem")
	follow := func(name, own, authority string) *followerEdge {
		return startFollower(t, system, name, p.url(), "WAYPOST_EDGE_NODE_CERT_FILE="+own+".pem",
			"WAYPOST_EDGE_NODE_KEY_FILE="+own+"-key.pem", "WAYPOST_EDGE_NODE_CA_FILE="+authority+"-ca.pem")
	}
	p.below = follow("second-1", p.certificate, p.certificate)
	p.others = []*followerEdge{follow("stranger-1", p.foreign, p.certificate), follow("doubter-1", p.certificate, p.foreign)}
	return p
}

func (p *secureRelay) url() string { return "https://" + p.relay.status.Relay }

// requireRefusals shows that who has no certificate of the authority is refused before
// anything is asked, whatever the token, and that one alone is not enough.
func (p *secureRelay) requireRefusals(t *testing.T) {
	t.Helper()
	trusted := x509.NewCertPool()
	text, err := os.ReadFile(p.certificate + "-ca.pem")
	require.NoError(t, err)
	require.True(t, trusted.AppendCertsFromPEM(text))
	for _, own := range []string{"", p.foreign, p.certificate} {
		cfg := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: trusted}
		if own != "" {
			pair, err := tls.LoadX509KeyPair(own+".pem", own+"-key.pem")
			require.NoError(t, err)
			cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url()+"/", http.NoBody)
		require.NoError(t, err)
		web := &http.Client{Transport: &http.Transport{TLSClientConfig: cfg, DisableKeepAlives: true}}
		res, err := web.Do(req)
		if own != p.certificate {
			require.Error(t, err)
			continue
		}
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, http.StatusUnauthorized, res.StatusCode)
	}
}
