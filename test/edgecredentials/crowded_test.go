package edgecredentials_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/replication"
	"waypost/test/devtest"
)

// Clients of other addresses take all connections that a control plane has for them. An
// edge that starts then gets its replica, ships its clicks and hears of changes, on
// connections that no later client can end. A client without an edge's credential gets
// none of them.
func TestControl_KeepsConnectionsForEdges(t *testing.T) {
	root := t.TempDir()
	control, err := devtest.StartControl(t, devtest.ControlConfig{
		Database: databases.Database(t), DataDir: filepath.Join(root, "control", "data"), Region: "eu-west-1", Node: "one",
		Env: []string{"FAILPOINT=connections of the API@100;connections of the API of an address@40"},
	})
	require.NoError(t, err)
	ready, err := control.Ready()
	require.NoError(t, err)
	require.True(t, ready, control.Output())
	host := strings.TrimPrefix(control.API, "http://")

	// ask opens a connection, and returns the status of the answer; 0: there was none.
	ask := func(from, path string) int {
		t.Helper()
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		c, err := d.DialContext(t.Context(), "tcp", host)
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		require.NoError(t, c.SetDeadline(time.Now().Add(10*time.Second)))
		if _, err := io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer guess\r\n\r\n"); err != nil {
			return 0
		}
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return 0
		}
		require.NoError(t, res.Body.Close())
		return res.StatusCode
	}
	crowd := func(from string) int { t.Helper(); return ask(from, "/health") }
	for i := range 200 {
		status := crowd("127.0.0.2")
		require.Equal(t, map[bool]int{true: 200, false: 503}[i < 40], status, "connection %d of one address", i)
	}
	require.Equal(t, 200, crowd("127.0.0.5"), "another client is served")
	for range 50 {
		crowd("127.0.0.3")
		crowd("127.0.0.4")
	}
	require.Equal(t, 503, crowd("127.0.0.5"), "all general places are taken")
	require.Equal(t, 401, ask("127.0.0.5", replication.PathStream))
	const proven, hellos = `waypost_http_connections{of="edges"}`, `waypost_replication_frames_sent_total{type="hello"}`
	require.Equal(t, "0", sample(t, control, proven), "a guess is no proof")

	e, err := devtest.StartEdge(t, devtest.EdgeConfig{
		Control: control.API, DataDir: filepath.Join(root, "edge"), Region: "eu-west-1", Node: "eu-1",
	})
	require.NoError(t, err)
	ready, err = e.Ready()
	require.NoError(t, err)
	require.True(t, ready, e.Output())
	require.Eventually(t, func() bool { return strings.Contains(metricsOf(t, control), `waypost_replication_followers 1`) },
		time.Minute, 20*time.Millisecond, "the edge follows")
	begun := sample(t, control, hellos)
	for range 50 {
		crowd("127.0.0.6")
	}
	require.NotEqual(t, "0", sample(t, control, proven), "the edge has proved its connection")
	require.Equal(t, begun, sample(t, control, hellos), "and has kept it")
}

// sample returns the value of a metric.
func sample(t *testing.T, c *devtest.Control, metric string) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(metric) + ` (.*)$`).FindStringSubmatch(metricsOf(t, c))
	require.NotEmpty(t, found, metric)
	return found[1]
}

func metricsOf(t *testing.T, c *devtest.Control) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.Admin+"/metrics", http.NoBody)
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	return string(text)
}
