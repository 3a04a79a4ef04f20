package keys_test

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waypost/test/devtest"
)

// lasting is a region in the answer of GET /api/admin/ranges.
type lasting struct {
	Region      string
	Unissued    int64
	MinutesLeft *float64 `json:"minutes_left"`
}

// spread is by what factor the region that lasts longest outlasts the one that is
// exhausted first.
func spread(t *testing.T, api string) float64 {
	t.Helper()
	var space struct{ Regions []lasting }
	got := ask(t.Context(), http.MethodGet, api+"/api/admin/ranges", nil, &space)
	require.Equal(t, http.StatusOK, got.status, got.text)
	require.Len(t, space.Regions, len(regions))
	least, most := 0.0, 0.0
	for _, r := range space.Regions {
		require.NotNil(t, r.MinutesLeft, r.Region)
		if least == 0 || *r.MinutesLeft < least {
			least = *r.MinutesLeft
		}
		most = max(most, *r.MinutesLeft)
	}
	return most / least
}

// useUpPrefixes leaves no prefix free, which is when regions have to share: as long as
// there is one, a region below its low-water mark takes that.
func useUpPrefixes(t *testing.T, hand *pgx.Conn) {
	t.Helper()
	_, err := hand.Exec(t.Context(), `INSERT INTO key_range (prefix, lo, hi, next, region, state)
		SELECT p, 0, key_prefix_size(), key_prefix_size(), 'sa-east-1', 'retired' FROM generate_series(0, 3843) p
		WHERE NOT EXISTS (SELECT FROM key_range r WHERE r.prefix = p)`)
	require.NoError(t, err)
}

func TestPlan_IsCarriedOutDuringCreatesAndLosesNone(t *testing.T) {
	t.Parallel()
	base, database := t.TempDir(), databases.Database(t)
	var nodes []*devtest.Control
	for _, region := range regions {
		nodes = append(nodes, start(t, devtest.ControlConfig{
			Database: database, DataDir: dirOf(base, region), Region: region,
			Node: region, Env: []string{patient},
		}))
	}
	api := nodes[0].API
	// Half an hour in which eu-west-1 has issued 50 times what the others have.
	hand := psql(t, database)
	useUpPrefixes(t, hand)
	_, err := hand.Exec(t.Context(), `
		INSERT INTO key_issue (minute, region, range_id, issued)
		SELECT date_trunc('minute', clock_timestamp()) - m * interval '1 minute', region, id,
			CASE region WHEN 'eu-west-1' THEN 50000000 ELSE 1000000 END
		FROM key_range, generate_series(1, 30) m WHERE state = 'live'`)
	require.NoError(t, err)
	require.InDelta(t, 50, spread(t, api), 1)

	// All regions create, all the while.
	var keys ledger
	var wg sync.WaitGroup
	var failed sync.Map
	var created, slowest atomic.Int64
	stop := make(chan struct{})
	var once sync.Once
	end := func() { once.Do(func() { close(stop) }); wg.Wait() }
	defer end()
	for _, c := range nodes {
		for i := range 4 {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					unless(t.Context(), 2*pause)
					var codes []string
					var got answer
					began := time.Now()
					if i == 0 {
						codes, got = reserve(t.Context(), c.API, "service", 500)
					} else {
						codes = make([]string, 1)
						codes[0], got = create(t.Context(), c.API, "")
					}
					note(&slowest, time.Since(began))
					if got.status != http.StatusCreated && got.status != http.StatusOK {
						failed.Store(got.text, got.status)
						continue
					}
					keys.receive(c.Node, codes...)
					created.Add(1)
				}
			})
		}
	}

	file, older := filepath.Join(base, "plan.json"), filepath.Join(base, "older.json")
	rangesDone(t, api, "plan", "--out", older)
	var plan struct{ Steps []map[string]any }
	require.NoError(t, json.Unmarshal([]byte(rangesDone(t, api, "plan", "--out", file, "--output", "json")), &plan))
	require.Len(t, plan.Steps, 2, "the fewest moves: one from each of the others")
	for _, step := range plan.Steps {
		require.Equal(t, "move", step["action"])
		require.Equal(t, "eu-west-1", step["region"])
	}

	ids := func() (ids []int64) {
		for _, r := range listRanges(t, api) {
			ids = append(ids, r.ID, r.Hi)
		}
		return ids
	}
	before := ids()
	require.Contains(t, rangesDone(t, api, "apply", file, "--dry-run"), "nothing was changed")
	require.Equal(t, before, ids(), "a dry run changes nothing")
	require.InDelta(t, 50, spread(t, api), 1)

	atApply := created.Load()
	rangesDone(t, api, "apply", file)
	require.LessOrEqual(t, spread(t, api), 1.10)
	eventually(t, "all regions create after the moves", func() bool { return created.Load() > atApply+100 })
	require.Len(t, ids(), len(before)+4, "two ranges more")

	stale := ranges(t, nodes[1].API, "apply", older)
	require.Equal(t, 1, stale.Code, stale.Stdout)
	require.Contains(t, stale.Stderr, "the ranges have changed since the plan was made")
	again := ranges(t, nodes[2].API, "plan")
	require.Zero(t, again.Code, again.Stderr)
	require.Contains(t, again.Stdout, "nothing to do")

	end()
	failed.Range(func(text, status any) bool {
		t.Errorf("a request failed: %v %v", status, text)
		return true
	})
	require.Less(t, time.Duration(slowest.Load()), 25*time.Second, "a move holds nobody up, unless the machine stands still")
	keys.requireNoneTwice(t)
	t.Logf("%d requests, %d keys", created.Load(), keys.size())
}
