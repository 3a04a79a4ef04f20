package server_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api/clickbatch"
	"waypost/edge/audience"
	"waypost/edge/clicks"
	"waypost/edge/server"
)

// ingest is a control plane that keeps every batch and acknowledges it.
type ingest struct {
	batches chan waypost.ClickBatch
}

func (i ingest) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	z, err := zstd.NewReader(r.Body, zstd.WithDecoderConcurrency(1))
	if err != nil {
		panic(err)
	}
	defer z.Close()
	body, err := io.ReadAll(z)
	if err != nil {
		panic(err)
	}
	b, err := clickbatch.Decode(body)
	if err != nil {
		panic(err)
	}
	i.batches <- b
	_ = json.NewEncoder(w).Encode(map[string]any{"watermark": b.Seq}) // who is gone sends it again
}

// counting is an edge with a journal that ships to url.
func counting(t *testing.T, node, url string) (addr string) {
	t.Helper()
	journal, err := clicks.Open(clicks.Config{
		Dir: t.TempDir(), Node: node, FlushInterval: time.Millisecond, Profiler: audience.New(audience.Config{Salts: oneSalt{}}),
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var shipping sync.WaitGroup
	shipping.Go(func() {
		if err := journal.Ship(ctx, clicks.ShipConfig{URL: url, Token: "the-edge-token"}); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		shipping.Wait()
		require.NoError(t, journal.Close())
	})
	_, addr = serve(t, server.Config{Clicks: journal, Sealer: audience.NewSealer(oneSalt{}), TrustedProxies: loopback()})
	return addr
}

func TestVisitsToTwoEdgesAreToldByWhoMadeThem(t *testing.T) {
	const (
		iphone  = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1"
		windows = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36 Edg/126.0.0.0"
	)
	control := ingest{make(chan waypost.ClickBatch, 100)}
	srv := httptest.NewServer(control)
	defer srv.Close()
	edges := []string{counting(t, "edge-1", srv.URL), counting(t, "edge-2", srv.URL)}
	visits := []struct {
		edge                   int
		from, agent, referrer  string
		device, browser, os, r string
	}{
		{0, "203.0.113.9", iphone, "https://www.Example.com/x", "mobile", "Safari", "iOS", "www.example.com"},
		{1, "203.0.113.9", iphone, "https://www.example.com:443/y", "mobile", "Safari", "iOS", "www.example.com"},
		{1, "2001:db8::1", windows, "", "desktop", "Edge", "Windows", ""},
		{0, "203.0.113.9", windows, "junk", "desktop", "Edge", "Windows", ""},
		{0, "198.51.100.7", "Twitterbot/1.0", "", "bot", "Twitterbot", "", ""},
		{1, "198.51.100.7", "Twitterbot/1.0", "", "bot", "Twitterbot", "", ""},
	}
	want, people, bots := map[waypost.ClickProfile]uint64{}, map[string]bool{}, map[string]bool{}
	for _, v := range visits {
		lines := []string{"User-Agent: " + v.agent, "X-Forwarded-For: " + v.from}
		if v.referrer != "" {
			lines = append(lines, "Referer: "+v.referrer)
		}
		require.Equal(t, 302, get(t, edges[v.edge], "/found302", "wayp.example", lines...).StatusCode)
		bot := v.device == "bot"
		want[waypost.ClickProfile{Device: v.device, Browser: v.browser, OS: v.os, Referrer: v.r, Bot: bot}]++
		map[bool]map[string]bool{false: people, true: bots}[bot][v.from+v.agent] = true
	}

	got, seen := map[waypost.ClickProfile]uint64{}, map[waypost.Visitor]bool{}
	for n := 0; n < len(visits); {
		b := <-control.batches
		require.True(t, b.Exact)
		for i := range b.Links {
			require.Equal(t, waypost.Code("found302"), b.Links[i].Code)
			for _, r := range b.Links[i].Rows {
				got[b.Profiles[r.Profile]] += r.Count
				n += int(r.Count)
			}
			for _, v := range b.Links[i].Visitors {
				seen[waypost.Visitor{Bot: v.Bot, Hash: v.Hash}] = true
			}
		}
	}
	require.Equal(t, want, got)
	persons, machines := 0, 0
	for v := range seen {
		if v.Bot {
			machines++
		} else {
			persons++
		}
	}
	require.Equal(t, len(people), persons, "one who came to both edges is one")
	require.Equal(t, len(bots), machines)
}

// oneSalt is that of every day.
type oneSalt struct{}

var everyDay waypost.Salt

func (oneSalt) Salt(int32) *waypost.Salt { return &everyDay }
