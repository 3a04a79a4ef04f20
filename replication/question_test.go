package replication_test

import (
	"context"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/keyrange"
	"waypost/replication"
	"waypost/replication/replicationtest"
)

// oneLink is a source that knows one link.
type oneLink struct {
	head replication.Head
	err  error
}

func (s oneLink) RecordAt(_ context.Context, domain waypost.DomainID, code []byte) ([]byte, replication.Head, error) {
	if s.err != nil || domain != 7 || string(code) != "abcd123" {
		return nil, s.head, s.err
	}
	r := replicationtest.Link(string(code), "https://example.com/")
	r.Domain = domain
	return replication.AppendRecord(nil, &r), s.head, nil
}

func asker(t *testing.T, h http.Handler) *replication.Asker {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return &replication.Asker{URL: server.URL + "/", Token: "secret", Client: server.Client()}
}

func TestAQuestionForARecordIsAnsweredWithItsPosition(t *testing.T) {
	head := replication.Head{Cluster: replication.Cluster{1, 2}, Position: waypost.Position{Epoch: waypost.Epoch{Ordinal: 4}, Seq: 99, Stamp: 5}}
	a := asker(t, replication.RecordHandler(oneLink{head: head}, nil, slog.New(slog.DiscardHandler)))
	raw, at, err := a.Ask(t.Context(), 7, []byte("abcd123"))
	require.NoError(t, err)
	require.Equal(t, head.Position, at.Position)
	require.Equal(t, head.Cluster, at.Cluster)
	var r waypost.Record
	require.NoError(t, replication.DecodeRecord(raw, &r))
	require.Equal(t, "https://example.com/", string(r.Payload))

	raw, at, err = a.Ask(t.Context(), 7, []byte("unknown"))
	require.NoError(t, err)
	require.Nil(t, raw)
	require.Equal(t, head.Position, at.Position)

	_, _, err = a.Ask(t.Context(), 7, []byte("a b"))
	require.ErrorContains(t, err, "answered 400")
	_, _, err = asker(t, replication.RecordHandler(oneLink{err: errors.New("away")}, nil, slog.New(slog.DiscardHandler))).Ask(t.Context(), 7, []byte("abcd123"))
	require.ErrorContains(t, err, "answered 503")
}

func TestAnAnswerThatIsNoRecordIsNotBelieved(t *testing.T) {
	link := replicationtest.Link("abcd123", "https://example.com/")
	good := replication.AppendRecord(nil, &link)
	position := waypost.Position{Epoch: waypost.Epoch{Ordinal: 4}, Seq: 99}.String()
	cluster := hex.EncodeToString(make([]byte, 16))
	for name, c := range map[string]struct {
		status                  int
		kind, position, cluster string
		body                    []byte
		domain                  waypost.DomainID
		code                    string
		fails                   bool
	}{
		"a record":                 {200, replication.RecordType, position, cluster, good, link.Domain, "abcd123", false},
		"none":                     {404, replication.RecordType, position, cluster, nil, link.Domain, "abcd123", false},
		"a proxy's 404":            {404, "text/html", "", "", []byte("<h1>not found</h1>"), link.Domain, "abcd123", true},
		"a proxy's 200":            {200, "text/html", "", "", []byte("<h1>welcome</h1>"), link.Domain, "abcd123", true},
		"a redirect":               {302, replication.RecordType, position, cluster, good, link.Domain, "abcd123", true},
		"no position":              {200, replication.RecordType, "", cluster, good, link.Domain, "abcd123", true},
		"no cluster":               {200, replication.RecordType, position, "00", good, link.Domain, "abcd123", true},
		"another code's record":    {200, replication.RecordType, position, cluster, good, link.Domain, "abcd124", true},
		"another domain's record":  {200, replication.RecordType, position, cluster, good, link.Domain + 1, "abcd123", true},
		"a record that is cut off": {200, replication.RecordType, position, cluster, good[:len(good)-1], link.Domain, "abcd123", true},
		"a body that is too long":  {200, replication.RecordType, position, cluster, make([]byte, replication.MaxRecord+100), link.Domain, "abcd123", true},
	} {
		t.Run(name, func(t *testing.T) {
			a := asker(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				require.Equal(t, "Bearer secret", r.Header.Get("Authorization"))
				w.Header().Set("Content-Type", c.kind)
				w.Header().Set(replication.HeaderPosition, c.position)
				w.Header().Set(replication.HeaderCluster, c.cluster)
				w.WriteHeader(c.status)
				_, _ = w.Write(c.body)
			}))
			_, _, err := a.Ask(t.Context(), c.domain, []byte(c.code))
			require.Equal(t, c.fails, err != nil, "%v", err)
		})
	}
}

func TestAFollowerHearsWhatGeneratedCodesLookLike(t *testing.T) {
	for _, c := range []struct {
		header       string
		code, prefix int // 0: nothing is heard
	}{
		{"7/2", 7, 2}, {"10/3", 10, 3}, {"", 0, 0}, {"7", 0, 0}, {"7/2x", 0, 0}, {"07/2", 0, 0}, {"99/2", 0, 0}, {"5/3", 0, 0}, {"-7/2", 0, 0},
	} {
		space, ok := replication.ParseKeySpace(c.header)
		require.Equal(t, c.code != 0, ok, "%q", c.header)
		if ok {
			require.Equal(t, c.code, space.CodeLength())
			require.Equal(t, c.prefix, space.PrefixLength())
			require.Equal(t, c.header, replication.KeySpaceHeader(space))
		}
	}
	require.Empty(t, replication.KeySpaceHeader(keyrange.Space{}))
}
