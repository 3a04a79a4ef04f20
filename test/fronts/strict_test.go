package fronts_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
)

const strict = "Strict-Transport-Security"

// An answer over TLS has the header once, whether or not the node has set it, and also
// when no node answers. An answer over plain HTTP has none.
func TestFronts_AnswersOverTLSAreStrict(t *testing.T) {
	certificate, key, roots := newCertificate(t)
	client := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "go.example.com"}, DisableKeepAlives: true}
	headers := func(url string) (int, []string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		require.NoError(t, err)
		res, err := client.RoundTrip(r)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		return res.StatusCode, res.Header.Values(strict)
	}
	pair, err := tls.X509KeyPair([]byte(certificate), []byte(key))
	require.NoError(t, err)
	var plain string // where nginx and HAProxy listen for requests without TLS
	for name, start := range map[string]func(t *testing.T, edge, control string) *front{
		"nginx": func(t *testing.T, edge, control string) *front {
			return startFront(t, "nginx", nginxArgs, func(edges, api, dir string) map[string]string {
				plain = freeAddress(t)
				pair := "\n    ssl_certificate " + dir + "/cert.pem;\n    ssl_certificate_key " + dir + "/key.pem;"
				return map[string]string{
					"cert.pem": certificate, "key.pem": key, "nginx.conf": nginxMain(dir),
					"waypost.conf": configure(t, "nginx/waypost.conf",
						"listen 80;", "listen "+plain+";", "# listen 443 ssl http2;", "listen "+edges+" ssl http2;"+pair,
						"listen 8080;", "listen "+api+" ssl http2;"+pair,
						"10.0.0.2:8081", edge, "10.0.0.4:8081", edge, "10.0.0.1:8080", control, "10.0.0.3:8080", control,
						"/etc/nginx/waypost-authority.pem", dir+"/cert.pem"),
				}
			})
		},
		"haproxy": func(t *testing.T, edge, control string) *front {
			return startFront(t, "haproxy", haproxyArgs, func(edges, api, _ string) map[string]string {
				plain = freeAddress(t)
				return map[string]string{
					"pair.pem": certificate + key, "cert.pem": certificate, "haproxy.cfg": haproxyMain,
					"waypost.cfg": configure(t, "haproxy/waypost.cfg", "bind :80\n", "bind "+plain+"\n", "bind :8080\n", "",
						"# bind :443 ssl crt /etc/haproxy/certs/", "bind "+edges+" ssl crt pair.pem",
						"# bind :8443 ssl crt /etc/haproxy/certs/", "bind "+api+" ssl crt pair.pem", "send-proxy-v2", "",
						"10.0.0.2:8081 port 9081", edge, "10.0.0.4:8081 port 9081", edge,
						"10.0.0.1:8080 port 9080", control, "10.0.0.3:8080 port 9080", control,
						"/etc/haproxy/waypost-authority.pem", "cert.pem"),
				}
			})
		},
		"caddy": func(t *testing.T, edge, control string) *front {
			return startFront(t, "caddy", caddyArgs, func(edges, api, _ string) map[string]string {
				const site = " {\n\tbind 127.0.0.1\n\ttls cert.pem key.pem"
				return map[string]string{
					"cert.pem": certificate, "key.pem": key,
					"Caddyfile": configure(t, "caddy/Caddyfile",
						"\n{\n", "\n{\n\tadmin off\n\tauto_https off\n",
						"\ngo.example.com {", "\nhttps://:"+portOf(edges)+site, "\ncontrol.example.com {", "\nhttps://:"+portOf(api)+site,
						"10.0.0.2:8081 10.0.0.4:8081", edge, "health_port 9081", "health_port "+portOf(edge),
						"10.0.0.1:8080 https://10.0.0.3:8080", control, "/etc/caddy/waypost-authority.pem", "cert.pem"),
				}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			plain = ""
			node := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/strict" {
					w.Header().Set(strict, "max-age=1")
				}
			})
			edge, control := httptest.NewServer(node), httptest.NewUnstartedServer(node)
			defer edge.Close()
			control.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
			control.StartTLS()
			defer control.Close()
			f := start(t, hostOf(edge.URL), hostOf(control.URL))
			bases := []string{"https://" + f.host, "https://" + hostOf(f.api)}
			for _, base := range bases {
				for _, path := range []string{"/abcd", "/strict"} {
					status, got := headers(base + path)
					require.Equal(t, http.StatusOK, status, path)
					require.Equal(t, []string{waypost.StrictTransport}, got, path)
				}
			}
			if plain != "" {
				status, got := headers("http://" + plain + "/abcd")
				require.Equal(t, http.StatusOK, status)
				require.Empty(t, got)
			}
			edge.Close()
			control.Close()
			for _, base := range bases {
				status, got := headers(base + "/abcd")
				require.GreaterOrEqual(t, status, http.StatusBadGateway)
				require.Equal(t, []string{waypost.StrictTransport}, got)
			}
		})
	}
}

// newCertificate returns a certificate and its key, in PEM, and the pool with its
// authority.
func newCertificate(t *testing.T) (certificate, key string, roots *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"go.example.com", "control.example.com"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	require.NoError(t, err)
	bits, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	parsed, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	roots = x509.NewCertPool()
	roots.AddCert(parsed)
	encoded := func(kind string, bytes []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}))
	}
	return encoded("CERTIFICATE", der), encoded("PRIVATE KEY", bits), roots
}
