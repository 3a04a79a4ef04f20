package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/maxmind/mmdbwriter"
	"github.com/maxmind/mmdbwriter/mmdbtype"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/httpapi"
	"waypost/controlplane/httpapi/httpapitest"
	"waypost/controlplane/keys"
	"waypost/controlplane/postgres"
	"waypost/edge/audience"
	"waypost/edge/clicks"
	"waypost/edge/server"
	"waypost/internal/patterns"
	"waypost/keyrange"
)

const statisticsData = "../../testdata/statistics/"

// replayed is a request of the real traffic.
type replayed struct {
	at                         time.Time
	ip, method, path, referrer string
	agent                      string
}

// link is the code under which it is replayed, by the first part of its path.
func (r *replayed) link() string {
	first := ""
	if rest, ok := strings.CutPrefix(r.path, "/"); ok {
		first, _, _ = strings.Cut(rest, "/")
		first, _, _ = strings.Cut(first, "?")
	}
	if slices.Contains([]string{"blog", "presentations", "images", "projects", "files", "articles"}, first) {
		return first
	}
	return "elsewhere"
}

// traffic gives the requests of the log, in its order, their days moved so that the
// last is yesterday.
func traffic(t *testing.T) (requests []replayed, firstDay time.Time) {
	t.Helper()
	packed, err := os.ReadFile(statisticsData + "clicks.tsv.gz")
	require.NoError(t, err)
	z, err := gzip.NewReader(bytes.NewReader(packed))
	require.NoError(t, err)
	text, err := io.ReadAll(z)
	require.NoError(t, err)
	firstDay = time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -3)
	shift := firstDay.Sub(time.Date(2015, 5, 17, 0, 0, 0, 0, time.UTC))
	for i, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		fields := strings.Split(line, "\t")
		require.Len(t, fields, 6)
		if i == 0 {
			continue
		}
		at, err := time.Parse("02/Jan/2006:15:04:05 -0700", fields[0])
		require.NoError(t, err)
		requests = append(requests, replayed{at: at.Add(shift), ip: fields[1], method: fields[2], path: fields[3], referrer: fields[4], agent: fields[5]})
	}
	require.Len(t, requests, 5000)
	return requests, firstDay
}

// counted is a line of an expected table.
type counted struct{ clicks, bots int64 }

// expectedTables gives the tables that were made without the product: by link ("*" is
// all), table and name.
func expectedTables(t *testing.T) map[string]map[string]map[string]counted {
	t.Helper()
	text, err := os.ReadFile(statisticsData + "expected.tsv")
	require.NoError(t, err)
	all := map[string]map[string]map[string]counted{}
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		require.Len(t, fields, 5)
		if fields[0] == "link" {
			continue
		}
		clicks, err := strconv.ParseInt(fields[3], 10, 64)
		require.NoError(t, err)
		bots, err := strconv.ParseInt(fields[4], 10, 64)
		require.NoError(t, err)
		if all[fields[0]] == nil {
			all[fields[0]] = map[string]map[string]counted{}
		}
		if all[fields[0]][fields[1]] == nil {
			all[fields[0]][fields[1]] = map[string]counted{}
		}
		all[fields[0]][fields[1]][fields[2]] = counted{clicks, bots}
	}
	return all
}

// fewLinks is a replica of links that all lead to the same target.
type fewLinks map[string]bool

func (l fewLinks) Link(_ waypost.DomainID, code, buf []byte, rec *waypost.Record) ([]byte, bool, error) {
	*rec = waypost.Record{Kind: waypost.KindLink, Status: http.StatusFound, Payload: []byte("https://example.com/")}
	return buf, l[string(code)], nil
}

func (fewLinks) Domain([]byte) (waypost.DomainID, waypost.DomainTraits, bool) {
	return waypost.DefaultDomain, 0, true
}

func (fewLinks) Patterns(waypost.DomainID) *patterns.Index { return nil }

func (fewLinks) Targets(waypost.DomainID) (t waypost.DomainTargets) { return t }

// dailySalts has one for every day.
type dailySalts struct{ days sync.Map }

func (s *dailySalts) Salt(day int32) *waypost.Salt {
	salt, _ := s.days.LoadOrStore(day, &waypost.Salt{byte(day), byte(day >> 8), 1})
	return salt.(*waypost.Salt)
}

// places is a database of the networks of testdata/statistics/tables.py.
func places(t *testing.T) *audience.GeoDB {
	t.Helper()
	w, err := mmdbwriter.New(mmdbwriter.Options{DatabaseType: "GeoLite2-City", RecordSize: 24, IncludeReservedNetworks: true, Languages: []string{"en"}})
	require.NoError(t, err)
	for _, p := range [][3]string{
		{"198.18.0.0/18", "DE", "Berlin"},
		{"198.18.64.0/18", "FR", "Paris"},
		{"198.18.128.0/18", "US", "Portland"},
		{"198.18.192.0/18", "US", ""},
		{"198.19.0.0/17", "BR", "São Paulo"},
		{"198.19.128.0/18", "FR", "Lyon"},
	} {
		_, network, err := net.ParseCIDR(p[0])
		require.NoError(t, err)
		record := mmdbtype.Map{"country": mmdbtype.Map{"iso_code": mmdbtype.String(p[1])}}
		if p[2] != "" {
			record["city"] = mmdbtype.Map{"names": mmdbtype.Map{"en": mmdbtype.String(p[2])}}
		}
		require.NoError(t, w.Insert(network, record))
	}
	var b bytes.Buffer
	_, err = w.WriteTo(&b)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "city.mmdb")
	require.NoError(t, os.WriteFile(file, b.Bytes(), 0o600))
	return audience.OpenGeoDB(audience.GeoDBConfig{File: file})
}

// replayEdge is an edge that records clicks.
type replayEdge struct {
	url     string
	journal *clicks.Journal
}

func startReplayEdge(t *testing.T, node string, links fewLinks, clock func() time.Time) *replayEdge {
	t.Helper()
	salts := &dailySalts{}
	journal, err := clicks.Open(clicks.Config{
		Dir: t.TempDir(), Node: node, FlushInterval: 20 * time.Millisecond,
		Profiler: audience.New(audience.Config{Salts: salts, GeoDB: places(t)}),
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, journal.Close()) })
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	srv := server.New(server.Config{
		Links: links, Clicks: journal, Sealer: audience.NewSealer(salts), Clock: clock,
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	})
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := srv.Serve(ln); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		require.NoError(t, srv.Shutdown(context.Background()))
		serving.Wait()
	})
	return &replayEdge{url: "http://" + ln.Addr().String(), journal: journal}
}

// replay sends the requests, each at its time and from its address.
func replay(t *testing.T, requests []replayed, edges []*replayEdge, now *atomic.Int64) {
	t.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	for i := range requests {
		r := &requests[i]
		now.Store(r.at.UnixNano())
		req, err := http.NewRequestWithContext(t.Context(), r.method, edges[i%len(edges)].url+"/"+r.link(), http.NoBody)
		require.NoError(t, err)
		req.Header.Set("X-Forwarded-For", r.ip)
		req.Header.Set("User-Agent", r.agent) // an empty one is not sent
		if r.referrer != "" {
			req.Header.Set("Referer", r.referrer)
		}
		res, err := client.Do(req)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, http.StatusFound, res.StatusCode)
	}
}

// replayAPI is the API over a database, to which edges ship.
func replayAPI(t *testing.T, links fewLinks) (api, ingest string, db *postgres.DB) {
	t.Helper()
	db, err := postgres.Open(t.Context(), postgres.Config{URL: testDatabases.Database(t)})
	require.NoError(t, err)
	t.Cleanup(db.Close)
	_, err = db.EnsureCluster(t.Context(), postgres.ClusterConfig{CodeLength: 7, PrefixLength: 2, DefaultHost: "go.example.com"})
	require.NoError(t, err)
	space, err := keyrange.NewSpace(7, 2)
	require.NoError(t, err)
	minter := keys.NewMinter(keys.MinterConfig{
		Store: db, Coder: keyrange.NewCoder(space, [32]byte{}), Region: "eu", Node: "test/1", Logger: slog.New(slog.DiscardHandler),
	})
	service := controlplane.New(controlplane.Config{
		Store: db, Minter: minter,
	})
	t.Cleanup(func() { require.NoError(t, service.Close(context.Background())) })
	actor := controlplane.Actor{Workspace: waypost.DefaultWorkspace, Scopes: []controlplane.Scope{controlplane.ScopeAdmin}}
	for _, code := range slices.Sorted(maps.Keys(links)) {
		_, _, err := service.Links.Create(t.Context(), actor, controlplane.NewLink{OriginalURL: "https://example.com/", CustomCode: code})
		require.NoError(t, err)
	}
	srv := httptest.NewServer(httpapi.New(httpapi.Config{Services: httpapitest.Services(t, db, minter, service), BaseURL: "https://go.example.com", RequestTimeout: time.Minute, Anonymous: &actor}))
	t.Cleanup(srv.Close)
	takes := httptest.NewServer(httpapi.Ingest(db, nil, nil))
	t.Cleanup(takes.Close)
	return srv.URL, takes.URL, db
}

// TestStatisticsOfRealTrafficAreThoseThatWereCountedWithoutTheProduct replays three days
// of a web server through two edges, and compares every number of the API with tables
// that share no code with it.
func TestStatisticsOfRealTrafficAreThoseThatWereCountedWithoutTheProduct(t *testing.T) {
	requests, firstDay := traffic(t)
	want := expectedTables(t)
	links := fewLinks{}
	for link := range want {
		if link != "*" {
			links[link] = true
		}
	}
	api, ingest, db := replayAPI(t, links)
	var now atomic.Int64
	clock := func() time.Time { return time.Unix(0, now.Load()) }
	edges := []*replayEdge{startReplayEdge(t, "edge-1", links, clock), startReplayEdge(t, "edge-2", links, clock)}
	roller := db.NewRoller(nil)
	replay(t, requests, edges, &now)
	for _, e := range edges {
		require.NoError(t, e.journal.Seal())
		require.NoError(t, e.journal.Ship(t.Context(), clicks.ShipConfig{URL: ingest, Token: "the-edge-token"}))
		for link, tables := range want {
			if e == edges[len(edges)-1] { // with one edge folded, and the other in parts
				requireTables(t, api, link, firstDay, tables)
			}
		}
		require.NoError(t, roller.Fold(t.Context()))
	}
	for link, tables := range want {
		requireTables(t, api, link, firstDay, tables)
	}
}

// requireTables compares what the API tells of a link, or of all, with the tables.
func requireTables(t *testing.T, api, link string, firstDay time.Time, want map[string]map[string]counted) {
	t.Helper()
	path := api + "/api/v1/urls/" + link + "/stats"
	if link == "*" {
		path = api + "/api/v1/stats"
	}
	day := firstDay.Format(time.DateOnly)
	got := answerOf(t, path+"?interval=hour&from="+day+"&to="+firstDay.AddDate(0, 0, 2).Format(time.DateOnly))
	all := want["clicks"][""]
	require.EqualValues(t, all.clicks, got["clicks"], link)
	require.EqualValues(t, all.bots, got["bot_clicks"], link)
	require.EqualValues(t, all.clicks, got["total_clicks"], link)
	require.EqualValues(t, all.bots, got["total_bot_clicks"], link)
	require.EqualValues(t, want["visitors"][""].clicks, got["unique_visitors"], link)
	require.EqualValues(t, want["visitors"][""].bots, got["unique_bots"], link)

	series := map[string]counted{}
	for i, step := range got["series"].([]any) {
		s := step.(map[string]any)
		require.Equal(t, firstDay.Add(time.Duration(i)*time.Hour).Format(time.RFC3339), s["t"])
		if n := int64(s["clicks"].(float64)); n > 0 {
			series[strconv.Itoa(i)] = counted{n, int64(s["bot_clicks"].(float64))}
		}
	}
	require.Len(t, got["series"], 72)
	require.Equal(t, want["hour"], series, link)
	for _, table := range []string{"countries", "cities", "devices", "browsers", "os", "referrers"} {
		expected, told := map[string]int64{}, map[string]int64{}
		for name, n := range want[table] {
			if name == "" {
				name = map[bool]string{true: "direct", false: "unknown"}[table == "referrers"]
			}
			expected[name] += n.clicks
		}
		for _, entry := range got[table].([]any) {
			e := entry.(map[string]any)
			told[e["name"].(string)] = int64(e["clicks"].(float64))
		}
		assert.Equal(t, expected, told, "%s of %s", table, link)
	}
}

func answerOf(t *testing.T, url string) (v map[string]any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusOK, res.StatusCode, fmt.Sprintf("%s: %s", url, text))
	require.NoError(t, json.Unmarshal(text, &v))
	return v
}
