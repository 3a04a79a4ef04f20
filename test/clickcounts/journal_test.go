package clickcounts_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api"
	"waypost/api/clickbatch"
	"waypost/edge/clicks"
	"waypost/test/devtest"
)

// phones are many visitors who are alike.
type phones struct{}

func (phones) Profile(c *waypost.Click) (waypost.ClickProfile, uint64) {
	return waypost.ClickProfile{Country: "DE", Device: "mobile", Browser: "Firefox"}, binary.BigEndian.Uint64(c.Address[:])
}

// route leads to the control plane that lives now.
type route struct {
	to      atomic.Pointer[string]
	cluster string
}

func (r *route) RoundTrip(req *http.Request) (*http.Response, error) {
	to := r.to.Load()
	if to == nil {
		return nil, fmt.Errorf("no control plane lives")
	}
	req = req.Clone(req.Context())
	req.URL.Host = strings.TrimPrefix(*to, "http://")
	req.Header.Set(clickbatch.HeaderCluster, r.cluster)
	req.Header.Set(clickbatch.HeaderPosition, waypost.Position{}.String())
	return http.DefaultTransport.RoundTrip(req)
}

// splitClicks are the clicks of links with rules, and what was recorded of them.
type splitClicks struct {
	n        int
	rules    map[string]map[string]int64 // by link and rule
	variants map[string]map[string]int64 // by link, and rule and variant
}

const splitLinks = 5

// click returns the next one: a third has no rule, a third a rule without a split.
func (s *splitClicks) click() waypost.Click {
	n := s.n
	s.n++
	c := waypost.Click{
		Domain: waypost.DefaultDomain, Code: fmt.Appendf(nil, "link-%02d", n%splitLinks), At: time.Now().UnixMilli(),
		Agent: []byte("Mozilla/5.0 (Android 15; Mobile; rv:140.0) Gecko/140.0 Firefox/140.0"), Rule: []uint8{0, 7, 250}[n%3],
	}
	binary.BigEndian.PutUint64(c.Address[:], rand.Uint64()|1<<63)
	rule := "none"
	if c.Rule > 0 {
		rule = strconv.Itoa(int(c.Rule))
	}
	code := string(c.Code)
	if s.rules[code] == nil {
		s.rules[code], s.variants[code] = map[string]int64{}, map[string]int64{}
	}
	s.rules[code][rule]++
	if c.Rule == 250 {
		c.Variant = uint8(1 + n%4)
		s.variants[code][fmt.Sprintf("%s/%d", rule, c.Variant)]++
	}
	return c
}

// Control planes are killed while they count, and clicks wait meanwhile until only totals
// are left of them.
func TestRulesAndVariantsAreCountedExactlyFromTheJournalToTheStatistics(t *testing.T) {
	database, base := databases.Database(t), t.TempDir()
	hand, err := pgx.Connect(t.Context(), database)
	require.NoError(t, err)
	defer func() { require.NoError(t, hand.Close(context.WithoutCancel(t.Context()))) }()
	_, err = hand.Exec(t.Context(), `SET ROLE waypost_operator`)
	require.NoError(t, err)
	control := func(name, failpoint string) *devtest.Control {
		c, err := devtest.StartControl(t, devtest.ControlConfig{
			Database: database, DataDir: filepath.Join(base, "control"), Region: "eu-west-1", Node: name, Env: []string{"FAILPOINT=" + failpoint},
		})
		require.NoError(t, err)
		ready, err := c.Ready()
		require.NoError(t, err)
		require.True(t, ready, c.Output())
		return c
	}
	require.NoError(t, control("first", "").Stop())
	_, err = hand.Exec(t.Context(), `INSERT INTO link (workspace_id, domain_id, code, original_url)
		SELECT 1, 1, 'link-' || lpad(n::text, 2, '0'), 'https://example.com/' FROM generate_series(0, $1) n`, splitLinks-1)
	require.NoError(t, err)
	way := &route{}
	require.NoError(t, hand.QueryRow(t.Context(), `SELECT replace(id::text, '-', '') FROM cluster`).Scan(&way.cluster))

	made := &splitClicks{rules: map[string]map[string]int64{}, variants: map[string]map[string]int64{}}
	pace := time.NewTicker(2 * time.Millisecond)
	defer pace.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	record := func(j *clicks.Journal, over func() bool) {
		for !over() {
			<-pace.C
			require.NoError(t, ctx.Err(), "it takes too long")
			for range 40 {
				j.Record(made.click())
			}
		}
	}
	ship := clicks.ShipConfig{
		URL: "http://control.example", Token: strings.Repeat("e", 32), Client: &http.Client{Transport: way, Timeout: 10 * time.Second},
		MinBackoff: 5 * time.Millisecond, MaxBackoff: 20 * time.Millisecond,
	}
	// Each life of the edge has a journal of its own, which takes over what is left.
	for i, place := range places {
		registry := prometheus.NewPedanticRegistry()
		j, err := clicks.Open(clicks.Config{
			Dir: filepath.Join(base, "clicks"), Node: "edge-1", SegmentBytes: 32 << 10, MaxBytes: 1 << 20, Shards: 2,
			FlushInterval: 5 * time.Millisecond, Profiler: phones{}, Metrics: registry,
		})
		require.NoError(t, err)
		shipping, stop := context.WithCancel(ctx)
		var shipper sync.WaitGroup
		shipper.Go(func() {
			if err := j.Ship(shipping, ship); err != nil {
				t.Error(err)
			}
		})
		record(j, func() bool { return i > 0 || sumOf(t, registry, "waypost_clicks_coarsened_total", "totals") > 0 })
		c := control(fmt.Sprintf("life-%d", i), place+"=1")
		way.to.Store(&c.API)
		record(j, func() bool {
			select {
			case <-c.Exited():
				return true
			default:
				return false
			}
		})
		require.True(t, c.Killed(), c.Output())
		require.NoError(t, j.Close())
		stop()
		shipper.Wait()
		require.Zero(t, sumOf(t, registry, "waypost_clicks_dropped_total", ""))
	}

	c := control("last", "")
	way.to.Store(&c.API)
	j, err := clicks.Open(clicks.Config{Dir: filepath.Join(base, "clicks"), Node: "edge-1", Profiler: phones{}})
	require.NoError(t, err)
	require.NoError(t, j.Seal())
	require.NoError(t, j.Ship(ctx, ship))
	require.NoError(t, j.Close())
	for _, folded := range []bool{false, true} {
		if folded {
			require.Eventually(t, func() bool { return number(t, hand, `SELECT count(*) FROM click_part`) == 0 }, time.Minute, 20*time.Millisecond)
		}
		for code := range made.rules {
			rules, variants := map[string]int64{}, map[string]int64{}
			s := statsOf(t, c, code)
			for _, n := range s.Rules {
				rules[n.Name] = n.Clicks
			}
			for _, v := range s.Variants {
				variants[v.Rule+"/"+v.Name] = v.Clicks
				require.Less(t, v.Interval[0], v.Share)
				require.Less(t, v.Share, v.Interval[1])
			}
			require.Equal(t, made.rules[code], rules, code)
			require.Equal(t, made.variants[code], variants, code)
		}
	}
	require.NoError(t, c.Stop())
	t.Logf("%d clicks", made.n)
}

func statsOf(t *testing.T, c *devtest.Control, code string) (s api.LinkStats) {
	t.Helper()
	res, err := http.Get(c.API + api.PathLinks + "/" + code + "/stats")
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.NoError(t, json.NewDecoder(res.Body).Decode(&s))
	return s
}

// sumOf returns a metric of a journal, of those with the value of a label unless that is
// empty.
func sumOf(t *testing.T, r *prometheus.Registry, name, label string) (sum float64) {
	t.Helper()
	families, err := r.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && (label == "" || m.GetLabel()[0].GetValue() == label) {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}
