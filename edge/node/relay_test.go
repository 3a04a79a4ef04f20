package node

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api"
	"waypost/api/clickbatch"
	"waypost/edge/replica"
	"waypost/replication"
	"waypost/replication/replicationtest"
)

// relayed is a relay's replica, with what others follow it by.
func relayed(t *testing.T) *store {
	t.Helper()
	db, err := replica.Open(replica.Config{
		Dir: "/replica", FS: vfs.NewMem(), CacheBytes: 1 << 20, LogBytes: 1 << 20, VerifyInterval: -1,
		Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	s := &store{}
	s.trust, err = replication.NewTrust(nil, func([]byte) error { return nil })
	require.NoError(t, err)
	s.DB = db
	return s
}

// changelogServer serves a changelog until the test ends.
func changelogServer(t *testing.T, cfg replication.ServerConfig) http.Handler {
	t.Helper()
	cfg.Logger, cfg.Heartbeat = slog.New(slog.DiscardHandler), 20*time.Millisecond
	server, err := replication.NewServer(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- server.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.ErrorIs(t, <-ran, context.Canceled)
	})
	mux := http.NewServeMux()
	mux.HandleFunc(replication.PathStream, server.Stream)
	mux.HandleFunc(replication.PathSnapshot, server.Snapshot)
	mux.HandleFunc(replication.PathSums, server.Sums)
	return mux
}

// followerOf runs a follower of a URL until stop, and at the latest until the test ends.
func followerOf(t *testing.T, url string, sink replication.Sink, trust *replication.Trust) (f *replication.Follower, stop func()) {
	t.Helper()
	f, err := replication.NewFollower(replication.FollowConfig{
		URL: url, Sink: sink, Trust: trust, Logger: slog.New(slog.DiscardHandler), Silence: time.Minute,
		BackoffMin: time.Millisecond, BackoffMax: 20 * time.Millisecond,
		SnapshotBackoffMin: time.Millisecond,
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = f.Run(ctx) }() // nothing is fatal
	stop = func() { cancel(); <-ended }
	t.Cleanup(stop)
	return f, stop
}

// What a relay has of before a rotation is signed with a key that those below do not
// take any more. They continue, whether they are at the head or far behind,
// and so do new ones.
func TestRelay_FollowersChangeToALaterSigningKeyWithIt(t *testing.T) {
	source := replicationtest.NewSource()
	put := func(n int) (at waypost.Position) {
		for range n {
			at = source.Commit(replicationtest.Link("code", "https://example.com/"))
		}
		return at
	}
	put(1)
	head, err := source.Head(t.Context())
	require.NoError(t, err)
	var present atomic.Pointer[http.Handler]
	generation := func(n uint32) {
		signer, err := replication.NewSigner([32]byte{1: 7}, head.Cluster, n)
		require.NoError(t, err)
		h := changelogServer(t, replication.ServerConfig{Source: source, Signer: signer})
		present.Store(&h)
	}
	generation(1)
	control := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*present.Load()).ServeHTTP(w, r) }))
	store := relayed(t)
	relay := httptest.NewServer(changelogServer(t, replication.ServerConfig{
		Source: relaySource{store}, Trust: store.trust, Via: func() []string { return []string{"relay"} },
	}))
	t.Cleanup(func() {
		for _, web := range []*httptest.Server{relay, control} {
			web.CloseClientConnections()
			web.Close()
		}
	})
	followerOf(t, control.URL, store.DB, store.trust)

	type leaf struct {
		sink  *replicationtest.Sink
		trust *replication.Trust
	}
	grow := func() leaf { return leaf{replicationtest.NewSink(), relayed(t).trust} }
	await := func(l leaf, f *replication.Follower, at waypost.Position) {
		t.Helper()
		require.Eventually(t, func() bool { return l.sink.Position() == at && f.Status().Connected }, 60*time.Second,
			time.Millisecond, "%v", f.Status().Err)
		replicationtest.RequireEqual(t, source, l.sink)
	}
	steady, late, fresh := grow(), grow(), grow()
	first, _ := followerOf(t, relay.URL, steady.sink, steady.trust)
	away, leave := followerOf(t, relay.URL, late.sink, late.trust)
	at := put(1)
	await(steady, first, at)
	await(late, away, at)
	leave()
	for range 5 { // which the relay passes on from its memory and its log
		await(steady, first, put(2))
	}
	require.EqualValues(t, 1, steady.trust.Generation())

	generation(2)
	control.CloseClientConnections()
	at = put(3)
	await(steady, first, at)
	require.EqualValues(t, 2, store.trust.Generation())
	require.EqualValues(t, 2, steady.trust.Generation())
	require.Equal(t, 1, first.Status().Snapshots, "it was not behind")

	away, _ = followerOf(t, relay.URL, late.sink, late.trust)
	await(late, away, at)
	require.Equal(t, 1, away.Status().Snapshots, "of what it missed the relay has nothing that it would take")
	new, _ := followerOf(t, relay.URL, fresh.sink, fresh.trust)
	await(fresh, new, at)
	at = put(2)
	await(steady, first, at)
	await(late, away, at)
	await(fresh, new, at)
}

func TestRelay_PassesOnOverTLSForHoldersOfATokenAlone(t *testing.T) {
	var asked atomic.Pointer[http.Request]
	control := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Store(r.Clone(context.Background()))
		w.WriteHeader(http.StatusTeapot)
	}))
	control.TLS = &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.RequestClientCert}
	control.StartTLS()
	t.Cleanup(control.Close)
	ca, key := filepath.Join(t.TempDir(), "ca.crt"), filepath.Join(t.TempDir(), "ca.key")
	require.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: control.Certificate().Raw}), 0o600))
	der, err := x509.MarshalPKCS8PrivateKey(control.TLS.Certificates[0].PrivateKey)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600))
	const own, ofRelays = "the token that edges have", "the token of the relays"
	cfg := Config{
		Control: Control{URLs: []string{control.URL}, Token: own}, TLS: TLS{CertFile: ca, KeyFile: key, CAFile: ca}, RelayToken: ofRelays,
		DataDir: t.TempDir(), Region: "us-east-1",
	}
	log := slog.New(slog.DiscardHandler)
	identity, err := openIdentity(&cfg, log)
	require.NoError(t, err)
	store := relayed(t)
	source := replicationtest.NewSource()
	replicationtest.Take(t, source, store.DB)
	server, err := replication.NewServer(replication.ServerConfig{Source: relaySource{store}, Logger: log})
	require.NoError(t, err)
	controls, err := newControls(cfg.Control.URLs)
	require.NoError(t, err)
	r := &relay{edge: &edge{cfg: cfg, identity: identity, controls: controls, store: store, log: log}}
	relay := httptest.NewServer(r.routes(server))
	t.Cleanup(relay.Close)

	ask := func(path, authorization, token string) int {
		t.Helper()
		asked.Store(nil)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, relay.URL+path, http.NoBody)
		require.NoError(t, err)
		if authorization != "" {
			req.Header.Set("Authorization", "Bearer "+authorization)
		}
		if token != "" {
			req.Header.Set(headerRelay, token)
		}
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		return res.StatusCode
	}
	passed := []string{
		clickbatch.Path, api.PathEdgeReports, api.PathEdgeOutcomes, api.PathEdgeCertificates, api.PathEdgeUnknown, replication.PathEnrol,
	}
	for _, path := range append([]string{replication.PathStream, replication.PathSnapshot, replication.PathSums, "/elsewhere"}, passed...) {
		for _, wrong := range []string{"", "x", own + "x", ofRelays + "x"} {
			require.Equal(t, http.StatusUnauthorized, ask(path, wrong, wrong), path)
		}
		require.Nil(t, asked.Load(), "nobody's word is passed on")
	}
	for _, path := range passed {
		require.Equal(t, http.StatusTeapot, ask(path, "a credential of its own", ofRelays), path)
		require.Equal(t, path, asked.Load().URL.Path)
		require.Equal(t, "Bearer a credential of its own", asked.Load().Header.Get("Authorization"), "whose it is is judged there")
		require.Empty(t, asked.Load().Header.Get(headerRelay), "the control plane does not hear of it")
		require.Empty(t, asked.Load().TLS.PeerCertificates, "the relay's certificate is not the sender's")
		require.Equal(t, http.StatusTeapot, ask(path, own, ""), path)
	}
	require.Equal(t, http.StatusNotFound, ask("/elsewhere", "", ofRelays))
	require.Equal(t, http.StatusServiceUnavailable, ask(replication.PathStream, "", ofRelays), "it is let in; nothing runs yet")

	res, err := (&http.Client{Transport: identity.through(&http.Transport{})}).Get(control.URL) //nolint:noctx // on loopback
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Len(t, asked.Load().TLS.PeerCertificates, 1, "of a request of its own")

	control.Close()
	require.Equal(t, http.StatusBadGateway, ask(api.PathEdgeReports, own, ""))
}

// Each control plane decides from reports which edges have a change, so all hear of those
// below a relay. Clicks go to one.
func TestRelay_PassesReportsOnToEveryControlPlane(t *testing.T) {
	const timeout = 10 * time.Second
	heard := make(chan string, 10)
	to := &controls{}
	for _, name := range []string{"one", "two", "three"} {
		control := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body) // a wrong one is seen below
			heard <- name + " " + r.Header.Get("Authorization") + " " + string(body)
			w.WriteHeader(http.StatusNoContent)
		}))
		t.Cleanup(control.Close)
		u, err := url.Parse(control.URL)
		require.NoError(t, err)
		to.urls = append(to.urls, u)
	}
	gone, err := url.Parse("http://127.0.0.1:1")
	require.NoError(t, err)
	to.urls = append(to.urls, gone)
	to.at.Store(1)
	by := http.DefaultTransport.(*http.Transport).Clone()
	t.Cleanup(by.CloseIdleConnections)
	pass := passOn(to, by)
	r := &relay{}
	relay := httptest.NewServer(r.passToAll(to, by, pass))
	t.Cleanup(func() { relay.Close(); r.copies.Wait() })
	post := func(body string) int {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, relay.URL+api.PathEdgeReports, strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer own")
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		return res.StatusCode
	}
	require.Equal(t, http.StatusNoContent, post("a report"))
	var all []string
	for range 3 {
		select {
		case got := <-heard:
			all = append(all, got)
		case <-time.After(timeout):
			t.Fatalf("only these have heard of it: %v", all)
		}
	}
	require.ElementsMatch(t, []string{"one Bearer own a report", "two Bearer own a report", "three Bearer own a report"}, all)
	require.Equal(t, http.StatusBadRequest, post(strings.Repeat("x", maxReport+1)))
	require.Empty(t, heard)
}
