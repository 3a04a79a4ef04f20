package node

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api"
	"waypost/edge/blocks"
	"waypost/edge/replica"
	"waypost/edge/server"
	"waypost/internal/codes/codestest"
	"waypost/replication/replicationtest"
)

// FuzzExplain_AnswersAsTheServerDoes asks an edge for paths of a domain that forgives
// what texts leave behind codes, of another one that does not, and of one that ignores
// case. All have aliases and patterns.
func FuzzExplain_AnswersAsTheServerDoes(f *testing.F) {
	for _, seed := range []string{
		"", "\x00", "\x00\x19\x11", "\x01\x11\x19", "\x03\x0e\x04\x0e", "\x06\x09\x1c", "\x00\x0e\x25", "\x03\x0e\x28", "\x00\x22\x11",
	} {
		for domain := range byte(3) {
			f.Add([]byte(seed), domain)
		}
	}
	random := rand.New(rand.NewPCG(7, 7))
	for i := range 600 {
		choice := make([]byte, 1+random.IntN(6))
		for j := range choice {
			choice[j] = byte(random.Uint32())
		}
		f.Add(choice, byte(i))
	}
	db, err := replica.Open(inMemory(vfs.NewMem()))
	require.NoError(f, err)
	f.Cleanup(func() { require.NoError(f, db.Close()) })
	records := []waypost.Record{
		{Kind: waypost.KindDomain, Name: []byte("1"), Payload: []byte(`{"host":"kind.example"}`)},
		{Kind: waypost.KindDomain, Name: []byte("7"), Payload: []byte(`{"host":"exact.example","exact_paths":true}`)},
		{Kind: waypost.KindDomain, Name: []byte("8"), Payload: []byte(`{"host":"case.example","ignores_case":true}`)},
	}
	hosts := map[waypost.DomainID]string{1: "kind.example", 7: "exact.example", 8: "case.example"}
	for domain := range hosts {
		alias := replicationtest.Link("x", "")
		alias.Domain, alias.Flags, alias.Payload = domain, waypost.AliasOf, waypost.AppendAlias(nil, domain, []byte("spring"))
		records = append(records, alias)
		for _, code := range []string{"b/{x}/c", "spring/*", "{x}/sale"} {
			pattern := replicationtest.Link(code, "https://example.com/of/")
			pattern.Kind, pattern.Domain = waypost.KindPattern, domain
			records = append(records, pattern)
		}
	}
	for code, forwards := range codestest.Codes {
		for domain := range hosts {
			r := replicationtest.Link(code, "https://example.com/"+string(waypost.AppendEncoded(nil, code)))
			if r.Domain = domain; forwards {
				r.Flags = waypost.ForwardPath | waypost.ForwardQuery
			}
			records = append(records, r)
		}
	}
	s := replicationtest.NewSource()
	s.Commit(records...)
	replicationtest.Take(f, s, db)
	e := &edge{store: &store{}, clicks: &recorder{}, blocks: blocks.New(blocks.Config{})}
	e.store.DB = db
	srv := server.New(server.Config{Links: e.store, Blocks: e.blocks, StrictHosts: true, Logger: slog.New(slog.DiscardHandler)})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(f, err)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	f.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		require.NoError(f, srv.Shutdown(ctx))
		require.NoError(f, <-served)
	})
	f.Fuzz(func(t *testing.T, choice []byte, domain byte) {
		path, host := codestest.Path(choice[:min(len(choice), 64)]), hosts[[]waypost.DomainID{1, 7, 8}[domain%3]]
		out := e.answerVisitor(t.Context(), api.EdgeOrder{Question: &api.EdgeQuestion{Host: host, Path: path, At: time.Now()}})
		require.Empty(t, out.Error)
		conn, err := net.Dial("tcp", ln.Addr().String())
		require.NoError(t, err)
		defer func() { _ = conn.Close() }()
		require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
		_, err = io.WriteString(conn, "GET /"+path+" HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n\r\n")
		require.NoError(t, err)
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		if res.StatusCode == http.StatusOK { // the root, or the preview of the answer
			return
		}
		if strings.HasPrefix(path, "/") { // the HTTP library refuses some such paths with 400
			require.Equal(t, 404, out.Explained.Status, "/%s", path)
			require.Empty(t, res.Header.Get("Location"))
			return
		}
		require.Equal(t, res.StatusCode, out.Explained.Status, "/%s", path)
		require.Equal(t, res.Header.Get("Location"), out.Explained.Location, "/%s", path)
	})
}
