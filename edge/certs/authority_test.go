package certs_test

import (
	"context"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/letsencrypt/pebble/v2/ca"
	"github.com/letsencrypt/pebble/v2/db"
	"github.com/letsencrypt/pebble/v2/va"
	"github.com/letsencrypt/pebble/v2/wfe"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"
)

// authority is Pebble, the ACME server that Let's Encrypt tests clients with. It asks
// for the proof at a port of this machine, whatever the domain.
type authority struct {
	directory string       // its URL
	caFile    string       // who has issued its own certificate
	roots     [][]byte     // those of the certificates that it issues, in PEM
	orders    atomic.Int64 // that were asked for
	down      atomic.Bool  // it answers 503
	slow      chan struct{}
}

// startAuthority starts one that asks at the port of proof.
func startAuthority(t *testing.T, proof net.Addr) *authority {
	t.Helper()
	t.Setenv("PEBBLE_VA_NOSLEEP", "1")
	t.Setenv("PEBBLE_WFE_NONCEREJECT", "0")
	quiet := log.New(io.Discard, "", 0)
	store := db.NewMemoryStore()
	profiles := map[string]ca.Profile{"default": {Description: "the only one", ValidityPeriod: 3600 * 24 * 90}}
	issuer := ca.New(quiet, store, "", "ecdsa", 0, 1, profiles)
	validator := va.New(quiet, 0, proof.(*net.TCPAddr).Port, true, startNames(t), store)
	front := wfe.New(quiet, store, validator, issuer, []string{"pebble.example"}, true, false, 1, 1)

	a := &authority{roots: [][]byte{issuer.GetRootCert(0).PEM()}, slow: make(chan struct{})}
	close(a.slow)
	handler := front.Handler()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/order-plz") {
			a.orders.Add(1)
			<-a.slow
		}
		if a.down.Load() {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	a.directory = server.URL + wfe.DirectoryPath
	a.caFile = filepath.Join(t.TempDir(), "ca.pem")
	own := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	require.NoError(t, os.WriteFile(a.caFile, own, 0o600))
	return a
}

// startNames answers every question for an IPv4 address with that of this machine,
// as a DNS server does over TCP.
func startNames(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer func() { _ = c.Close() }()
				stop := context.AfterFunc(t.Context(), func() { _ = c.Close() })
				defer stop()
				for answerName(c) == nil {
				}
			})
		}
	})
	t.Cleanup(func() { _ = ln.Close(); serving.Wait() })
	return ln.Addr().String()
}

func answerName(c net.Conn) error {
	var size [2]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return err
	}
	question := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(c, question); err != nil {
		return err
	}
	var m dnsmessage.Message
	if err := m.Unpack(question); err != nil {
		return err
	}
	if len(m.Questions) != 1 {
		return errors.New("not one question")
	}
	q := m.Questions[0]
	answer := dnsmessage.Message{Header: dnsmessage.Header{ID: m.ID, Response: true}, Questions: m.Questions}
	if q.Type == dnsmessage.TypeA {
		answer.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 1},
			Body:   &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}},
		}}
	}
	packed, err := answer.Pack()
	if err != nil {
		return err
	}
	_, err = c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(packed))), packed...))
	return err
}
