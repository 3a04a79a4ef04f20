package edge_test

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/edge"
	"waypost/edge/clicks"
)

// TestAnsweringDoesNotAllocate measures the whole process, with real sockets: a
// client with buffers made before, fasthttp, the handler between them, and the journal
// of clicks.
func TestAnsweringDoesNotAllocate(t *testing.T) {
	journal, err := clicks.Open(clicks.Config{Dir: t.TempDir(), Node: "n1", FlushInterval: time.Hour, SyncInterval: time.Hour})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, journal.Close()) })
	_, addr := serve(t, edge.Config{
		Clicks:         journal,
		TrustedProxies: loopback(),
		MaxStaleness:   time.Second,
		Staleness:      func() time.Duration { return time.Minute },
	})
	for name, path := range map[string]string{
		"a redirect":              "/found302",
		"a redirect that expires": "/expire301",
		"a miss":                  "/unknown1",
		"a query that goes on":    "/queried1?utm_source=x&utm_medium=y",
		"a path that goes on":     "/forward1/some/where?utm_source=x",
		"a path that does not":    "/found302/some/where",
		"a tombstone":             "/deleted1",
		"no code at all":          "/a",
	} {
		t.Run(name, func(t *testing.T) {
			request := []byte("GET " + path + " HTTP/1.1\r\nHost: internal\r\nX-Forwarded-Host: wayp.example\r\nAccept: text/html\r\nUser-Agent: facebookexternalhit/1.1\r\nSec-Purpose: none\r\n\r\n")
			conn := dial(t, addr)
			length := exchange(t, conn, request, make([]byte, 8192), 0)
			answer := make([]byte, length)
			require.Zero(t, testing.AllocsPerRun(200, func() { exchange(t, conn, request, answer, length) }))
		})
	}
}

// exchange sends a request and reads its answer of known length; 0: whatever one
// read gives.
func exchange(t *testing.T, conn net.Conn, request, answer []byte, length int) int {
	if _, err := conn.Write(request); err != nil {
		t.Fatal(err)
	}
	if length == 0 {
		n, err := conn.Read(answer)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if _, err := io.ReadFull(conn, answer[:length]); err != nil {
		t.Fatal(err)
	}
	return length
}
