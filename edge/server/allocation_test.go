//go:build !race

package server_test

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/audience"
	"waypost/edge/clicks"
	"waypost/edge/replica"
	"waypost/edge/server"
	"waypost/edge/unknown"
	"waypost/replication/replicationtest"
	"waypost/rules"
)

// TestAnsweringDoesNotAllocate measures the whole process, with real sockets: a
// client with buffers made before, fasthttp, the handler between them, the replica's
// lookup table, and the journal of clicks.
func TestAnsweringDoesNotAllocate(t *testing.T) {
	memory := newMemoryLinks()
	memory.targets[waypost.DefaultDomain] = waypost.DomainTargets{CountUTM: true}
	for name, links := range map[string]server.Links{"links in memory": memory, "a replica": newReplica(t)} {
		t.Run(name, func(t *testing.T) { answerWithoutAllocating(t, links) })
	}
}

func answerWithoutAllocating(t *testing.T, links server.Links) {
	dir := t.TempDir()
	journal, err := clicks.Open(clicks.Config{Dir: dir, Node: "n1", Shards: 2, FlushInterval: time.Hour, SyncInterval: time.Hour})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, journal.Close()) })
	require.Eventually(t, func() bool {
		segments, err := filepath.Glob(filepath.Join(dir, "segment-*"))
		return err == nil && len(segments) == 3
	}, 60*time.Second, time.Millisecond, "spare segments are made in the background")
	misses := unknown.New(unknown.Config{
		Profiler: audience.New(audience.Config{Salts: oneSalt{}}), Client: http.DefaultClient, Logger: slog.New(slog.DiscardHandler),
	})
	_, addr := serve(t, server.Config{
		Links:          links,
		Clicks:         journal,
		Unknown:        misses,
		Sealer:         audience.NewSealer(oneSalt{}),
		TrustedProxies: loopback(),
		MaxStaleness:   time.Second,
		Staleness:      func() time.Duration { return time.Minute },
	})
	for name, c := range map[string]struct {
		path   string
		status string
		cookie string // a line
	}{
		"a redirect":              {"/found302", "302", ""},
		"a redirect that expires": {"/expire301", "301", ""},
		"a miss":                  {"/unknown1", "404", ""},
		"a query that goes on":    {"/queried1?utm_source=x&utm_medium=y", "302", ""},
		"a path that goes on":     {"/forward1/some/where?utm_source=x", "301", ""},
		"a pattern":               {"/docs/some/where?q=x", "302", ""},
		"a pattern with rules":    {"/docs/some/edit/x?q=1", "302", ""},
		"a path that does not":    {"/found302/some/where", "404", ""},
		"a tombstone":             {"/deleted1", "410", ""},
		"no code at all":          {"/a%20", "404", ""},
		"a code in Unicode":       {"/caf%C3%A9", "302", ""},
		"one that is decomposed":  {"/cafe%CC%81", "302", ""},
		"a code with segments":    {"/summer/2026", "302", ""},
		"an unknown one":          {"/summer/2026/x", "404", ""},
		"a rule for agents":       {"/agents01", "302", ""},
		"one for languages":       {"/speaking", "302", ""},
		"one for queries":         {"/campaign?a=b&utm_source=x", "302", ""},
		"one for addresses":       {"/networks", "302", ""},
		"a rule that refuses":     {"/unlisted", "404", ""},
		"an alias":                {"/alias001/some/where?utm_source=x", "301", ""},
		"an alias of nothing":     {"/alias003", "404", ""},
		"a split by visitors":     {"/visitors", "302", ""},
		"a split by a cookie":     {"/cookies1", "302", ""},
		"the cookie of a split":   {"/cookies1", "302", "Cookie: a=b; " + rules.VariantCookie + "=2\r\n"},
	} {
		for lane, lines := range map[string]string{
			"by the handler":                    "Host: internal\r\nX-Forwarded-Host: wayp.example\r\nX-Forwarded-For: 203.0.113.9, 2001:db8::7\r\nReferer: https://example.org/a?b\r\nSec-Purpose: none\r\n",
			"by the express lane, from a proxy": "Host: internal\r\nX-Forwarded-Host: wayp.example\r\nX-Forwarded-For: 203.0.113.9, 2001:db8::7\r\n",
			"by the express lane":               "Host: wayp.example\r\nX-Forwarded-For: 192.0.2.7\r\nReferer: https://example.org/\r\n",
		} {
			t.Run(name+" "+lane, func(t *testing.T) {
				request := []byte("GET " + c.path + " HTTP/1.1\r\n" + lines + "Accept: text/html\r\nUser-Agent: facebookexternalhit/1.1\r\n" +
					"Accept-Language: de-CH,de;q=0.9,en;q=0.4\r\n" + c.cookie + "\r\n")
				conn := dial(t, addr)
				answer := make([]byte, 8192)
				length := exchange(t, conn, request, answer, 0)
				require.Equal(t, c.status, string(answer[9:12]))
				answer = answer[:length]
				requireNoAllocation(t, func() { exchange(t, conn, request, answer, length) })
			})
		}
	}
}

// requireNoAllocation requires that none of a thousand runs allocates. The runtime counts
// for the whole process, in which other goroutines allocate now and then, for example for
// the Date of the next second. So the count has to be zero in one of a few tries.
func requireNoAllocation(t *testing.T, run func()) {
	t.Helper()
	const runs, tries = 1000, 10
	var counts []uint64
	for range tries {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range runs {
			run()
		}
		runtime.ReadMemStats(&after)
		if after.Mallocs == before.Mallocs {
			return
		}
		counts = append(counts, after.Mallocs-before.Mallocs)
	}
	require.Fail(t, "it allocates", "in each %d runs so often: %v", runs, counts)
}

// newReplica returns a replica with the links of newMemoryLinks.
func newReplica(t *testing.T) *replica.DB {
	t.Helper()
	db, err := replica.Open(replica.Config{Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	source := replicationtest.NewSource()
	records := []waypost.Record{{
		Kind: waypost.KindDomain, Name: []byte("1"), Payload: []byte(`{"host":"wayp.example"}`),
	}}
	for domain, links := range newMemoryLinks().links {
		for code, r := range links {
			r.Kind, r.Domain, r.Name = waypost.KindOf(code), domain, []byte(code)
			records = append(records, r)
		}
	}
	source.Commit(records...)
	replicationtest.Take(t, source, db)
	return db
}

// exchange sends a request and reads an answer of known length, or (0) the bytes of one
// read.
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

func TestFindingTheVisitorsAddressDoesNotAllocate(t *testing.T) {
	requireNoAllocation(t, server.FindingClient("1.2.3.4, 2001:db8::7, 10.0.0.7"))
}
