package upstream_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/upstream"
	"waypost/keyrange"
	"waypost/replication"
)

const (
	issuedPrefix   = 10 // "0A"
	issuedCounters = 1000
)

var epoch = waypost.Epoch{Ordinal: 3}

const begun = 100 // the sequence at which all begins

// world is a control plane and a replica that lags behind it.
type world struct {
	mu        sync.Mutex
	records   map[string][]waypost.Record // every version of a link, by code
	replica   uint64                      // sequence
	repairing bool                        // the replica has all, and no position
	head      uint64
	asked     atomic.Int64
	fault     func(ctx context.Context) error
	fresh     atomic.Bool
	foreign   bool // the control plane is in another history
	forge     func(rec *waypost.Record, head *replication.Head)
	registry  *prometheus.Registry
	now       atomic.Int64
}

func newWorld(t *testing.T, change func(*upstream.Config)) (*world, *upstream.Links) {
	t.Helper()
	w := &world{records: map[string][]waypost.Record{}, registry: prometheus.NewRegistry()}
	w.fresh.Store(true)
	cfg := upstream.Config{
		Replica: w, Source: w, Fresh: w.fresh.Load, Metrics: w.registry, Timeout: time.Hour,
		Clock: func() time.Time { return time.Unix(1_800_000_000, w.now.Load()) },
	}
	if change != nil {
		change(&cfg)
	}
	l := upstream.New(cfg)
	space, err := keyrange.NewSpace(7, 2)
	require.NoError(t, err)
	l.KeySpace(space)
	return w, l
}

// put makes the next version of a link.
func (w *world) put(code string, state waypost.State, target string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.head++
	w.records[code] = append(w.records[code], waypost.Record{
		Kind: waypost.KindLink, State: state, Status: 302, Domain: waypost.DefaultDomain, Name: []byte(code),
		Revision: waypost.Revision{Epoch: epoch.Ordinal, Seq: w.head}, Stamp: w.head, Payload: []byte(target),
	})
}

func (w *world) at(code string, seq uint64) (rec waypost.Record, found bool) {
	for _, r := range w.records[code] {
		if r.Revision.Seq <= seq {
			rec, found = r, true
		}
	}
	return rec, found
}

func (w *world) follow(seq uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.replica = seq
}

func (w *world) Link(_ waypost.DomainID, code, buf []byte) (waypost.Record, []byte, bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	seq := w.replica
	if w.repairing {
		seq = w.head
	}
	rec, found := w.at(string(code), seq)
	return rec, buf, found, nil
}

func (w *world) Targets(waypost.DomainID) waypost.DomainTargets { return waypost.DomainTargets{} }

func (w *world) Domain([]byte) (waypost.DomainID, bool) { return waypost.DefaultDomain, true }

func (w *world) Position() waypost.Position {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.repairing {
		return waypost.Position{Epoch: epoch}
	}
	return waypost.Position{Epoch: epoch, Seq: begun + w.replica}
}

func (w *world) Cluster() (replication.Cluster, bool) { return replication.Cluster{1}, true }
func (w *world) Issuable(prefix int) bool             { return prefix == issuedPrefix }

func (w *world) Issued(prefix int, counter int64) bool {
	return prefix == issuedPrefix && counter < issuedCounters
}

func (w *world) Ask(ctx context.Context, _ waypost.DomainID, code []byte) ([]byte, replication.Head, error) {
	w.asked.Add(1)
	if w.fault != nil {
		if err := w.fault(ctx); err != nil {
			return nil, replication.Head{}, err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	head := replication.Head{Cluster: replication.Cluster{1}, Position: waypost.Position{Epoch: epoch, Seq: begun + w.head}}
	if w.foreign {
		head.Position.Epoch.Ordinal++
	}
	rec, found := w.at(string(code), w.head)
	if !found {
		return nil, head, nil
	}
	if w.forge != nil {
		w.forge(&rec, &head)
	}
	return replication.AppendRecord(nil, &rec), head, nil
}

// see is what a visitor of a code sees.
func see(t *testing.T, l *upstream.Links, code string) string {
	t.Helper()
	rec, _, found, err := l.Link(waypost.DefaultDomain, []byte(code), nil)
	require.NoError(t, err)
	switch {
	case !found:
		return "unknown"
	case rec.State != waypost.Live:
		return "gone"
	}
	return string(rec.Payload)
}

func (w *world) metric(t *testing.T, name, label string) (value float64) {
	t.Helper()
	families, err := w.registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && (label == "" || m.GetLabel()[0].GetValue() == label) {
				value += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return value
}

func TestALinkCreatedAMomentAgoIsServedBeforeTheStreamBringsIt(t *testing.T) {
	w, l := newWorld(t, nil)
	w.put("0Anew00", waypost.Live, "https://example.com/new")
	require.Equal(t, "https://example.com/new", see(t, l, "0Anew00"))
	require.Equal(t, "https://example.com/new", see(t, l, "0Anew00"))
	require.EqualValues(t, 1, w.asked.Load(), "an answer stands until the stream has passed it")
	w.follow(1)
	require.Equal(t, "https://example.com/new", see(t, l, "0Anew00"))
	require.Zero(t, w.metric(t, "waypost_upstream_held", ""))
	require.EqualValues(t, 1, w.asked.Load())
}

func TestALinkThatWasSeenDeletedNeverReturns(t *testing.T) {
	w, l := newWorld(t, nil)
	w.put("0Ashort", waypost.Live, "https://example.com/old")
	w.put("0Ashort", waypost.Live, "https://example.com/edited")
	w.put("0Ashort", waypost.Deleted, "")
	w.put("0Aother", waypost.Live, "https://example.com/other")
	require.Equal(t, "gone", see(t, l, "0Ashort"))
	for seq := range uint64(5) { // the replica comes by each of its states
		w.follow(seq)
		require.Equal(t, "gone", see(t, l, "0Ashort"), "at %d", seq)
	}
	require.EqualValues(t, 1, w.asked.Load())
}

// A repair begins without a sequence, and may show what is newer than an answer that is held.
func TestALinkThatWasSeenDeletedNeverReturnsWhileTheReplicaIsRepaired(t *testing.T) {
	w, l := newWorld(t, nil)
	w.put("0Ashort", waypost.Live, "https://example.com/old")
	w.put("0Alater", waypost.Live, "https://example.com/later")
	require.Equal(t, "https://example.com/old", see(t, l, "0Ashort"))
	require.Equal(t, "https://example.com/later", see(t, l, "0Alater"))
	w.put("0Ashort", waypost.Deleted, "")
	w.mu.Lock()
	w.repairing = true
	w.mu.Unlock()
	require.Equal(t, "gone", see(t, l, "0Ashort"))
}

func TestWhatCannotHaveBeenIssuedIsNotAskedFor(t *testing.T) {
	w, l := newWorld(t, nil)
	for _, code := range []string{"0Bxxxxx", "zzzzzzz", "0A-cust", "custom-code", "0Ashor", "0Alonger"} {
		w.put(code, waypost.Live, "https://example.com/")
		require.Equal(t, "unknown", see(t, l, code))
	}
	require.Zero(t, w.asked.Load())
	require.EqualValues(t, 2, w.metric(t, "waypost_upstream_skipped_total", "never_issued"))
	require.EqualValues(t, 4, w.metric(t, "waypost_upstream_skipped_total", "custom"))
	w.fresh.Store(false)
	require.Equal(t, "unknown", see(t, l, "0Axxxxx"))
	require.EqualValues(t, 1, w.metric(t, "waypost_upstream_skipped_total", "stale"), "a stale edge says nothing of what was issued")
	require.Zero(t, w.asked.Load())
}

// coder is that of the control plane.
func coder(t *testing.T) *keyrange.Coder {
	t.Helper()
	space, err := keyrange.NewSpace(7, 2)
	require.NoError(t, err)
	return keyrange.NewCoder(space, [32]byte{1})
}

func TestOnlyCodesWhoseCountersCanHaveBeenIssuedAreAskedFor(t *testing.T) {
	w, l := newWorld(t, func(c *upstream.Config) { c.PerSecond = 1000 })
	wanted := func() bool {
		select {
		case <-l.Wants():
			return true
		default:
			return false
		}
	}
	require.True(t, wanted(), "since the shape of codes is known")
	require.Equal(t, "unknown", see(t, l, "0Axxxxx"))
	require.EqualValues(t, 1, w.asked.Load(), "without a key nothing speaks against it")
	require.True(t, wanted())

	c := coder(t)
	l.Keys(keyrange.NewDecoder(c.Space(), map[int]keyrange.Key{issuedPrefix: c.Key(issuedPrefix)}))
	for n := range int64(300) {
		require.Equal(t, "unknown", see(t, l, string(c.Encode(issuedPrefix, issuedCounters+n*n))))
	}
	require.EqualValues(t, 1, w.asked.Load())
	require.EqualValues(t, 300, w.metric(t, "waypost_upstream_skipped_total", "never_issued"))
	fresh := string(c.Encode(issuedPrefix, issuedCounters-1))
	w.put(fresh, waypost.Live, "https://example.com/")
	require.Equal(t, "https://example.com/", see(t, l, fresh))
	require.False(t, wanted())

	// Codes of another shape, after another control plane was told of: its keys are not known.
	other, err := keyrange.NewSpace(8, 2)
	require.NoError(t, err)
	l.KeySpace(other)
	require.True(t, wanted())
	asked := w.asked.Load()
	require.Equal(t, "unknown", see(t, l, "0Axxxxxx"))
	require.Equal(t, asked+1, w.asked.Load())
}

func TestAnUnknownCodeIsAskedForOnceInAWhile(t *testing.T) {
	w, l := newWorld(t, nil)
	for range 3 {
		require.Equal(t, "unknown", see(t, l, "0Axxxxx"))
	}
	require.EqualValues(t, 1, w.asked.Load())
	w.now.Add(int64(2 * time.Second))
	w.put("0Axxxxx", waypost.Live, "https://example.com/")
	require.Equal(t, "https://example.com/", see(t, l, "0Axxxxx"))
}

func TestManyVisitorsOfOneNewLinkAskOnce(t *testing.T) {
	w, l := newWorld(t, nil)
	release := make(chan struct{})
	w.fault = func(context.Context) error { <-release; return nil }
	w.put("0Anew00", waypost.Live, "https://example.com/new")
	var visitors sync.WaitGroup
	for range 20 {
		visitors.Go(func() {
			rec, _, found, err := l.Link(waypost.DefaultDomain, []byte("0Anew00"), nil)
			if err != nil || !found || string(rec.Payload) != "https://example.com/new" {
				t.Errorf("%v, %v, %q", err, found, rec.Payload)
			}
		})
	}
	require.Eventually(t, func() bool { return w.metric(t, "waypost_upstream_skipped_total", "joined") == 19 }, 60*time.Second, time.Millisecond)
	close(release)
	visitors.Wait()
	require.EqualValues(t, 1, w.asked.Load())
}

func TestAScanOfPossibleCodesIsAskedForOnlySoOften(t *testing.T) {
	w, l := newWorld(t, func(c *upstream.Config) { c.PerSecond, c.Remember = 5, 10 })
	for i := range 1000 {
		require.Equal(t, "unknown", see(t, l, fmt.Sprintf("0A%05d", i)))
	}
	require.EqualValues(t, 5, w.asked.Load())
	require.EqualValues(t, 995, w.metric(t, "waypost_upstream_skipped_total", "limited"))
}

// A scan of codes that cannot have been issued, and of as many that can, by somebody whom nothing limits but time.
func TestAScanTakesNoMoreMemoryThanWasAllowed(t *testing.T) {
	const codes, remember = 100_000, 64
	w, l := newWorld(t, func(c *upstream.Config) { c.PerSecond, c.Remember = 2*codes, remember })
	random := rand.New(rand.NewPCG(1, 2))
	most, possible := 0, 0
	for range codes {
		code, asked := fmt.Sprintf("0%c%05d", 'A'+random.IntN(2), random.IntN(100_000)), w.asked.Load()
		if said := see(t, l, code); said != "unknown" {
			require.Fail(t, said, code)
		}
		if code[:2] == "0A" {
			possible++
		} else if w.asked.Load() != asked {
			require.Fail(t, "a question for what was never issued", code)
		}
		w.now.Add(int64(time.Millisecond))
		most = max(most, l.Remembered())
	}
	require.Equal(t, remember, most)
	require.EqualValues(t, codes-possible, w.metric(t, "waypost_upstream_skipped_total", "never_issued"))
	require.EqualValues(t, possible, w.asked.Load()+int64(w.metric(t, "waypost_upstream_skipped_total", "remembered")))
	require.Greater(t, w.asked.Load(), int64(possible*9/10), "nothing else kept it from asking")
}

func TestAVisitorWaitsForAnAnswerSoLongAndNoLonger(t *testing.T) { synctest.Test(t, waitsSoLong) }

func waitsSoLong(t *testing.T) {
	w, l := newWorld(t, func(c *upstream.Config) { c.Timeout = 0 }) // the default
	w.fault = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	begun := time.Now()
	require.Equal(t, "unknown", see(t, l, "0Axxxxx"))
	require.Equal(t, 150*time.Millisecond, time.Since(begun))
	require.EqualValues(t, 1, w.metric(t, "waypost_upstream_questions_total", "failed"))
}

func TestOfManyCodesOnlySoManyAreAskedForAtOnce(t *testing.T) { synctest.Test(t, onlySoManyAtOnce) }

func onlySoManyAtOnce(t *testing.T) {
	const visitors, atOnce, timeout = 30, 16, 150 * time.Millisecond // by default
	w, l := newWorld(t, func(c *upstream.Config) { c.Timeout = 0 })
	w.fault = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	begun := time.Now()
	waited := make(chan time.Duration, visitors)
	for i := range visitors {
		go func() {
			_, _, found, err := l.Link(waypost.DefaultDomain, fmt.Appendf(nil, "0A%05d", i), nil)
			if err != nil || found {
				t.Errorf("%v, %v", err, found)
			}
			waited <- time.Since(begun)
		}()
	}
	synctest.Wait()
	require.Len(t, waited, visitors-atOnce, "the others are not held up")
	for range visitors - atOnce {
		require.Zero(t, <-waited)
	}
	for range atOnce {
		require.Equal(t, timeout, <-waited)
	}
	require.EqualValues(t, atOnce, w.asked.Load())
	require.EqualValues(t, visitors-atOnce, w.metric(t, "waypost_upstream_skipped_total", "limited"))
}

func TestAControlPlaneThatIsAwayIsAskedLessAndLess(t *testing.T) { synctest.Test(t, askedLessAndLess) }

func askedLessAndLess(t *testing.T) {
	w, l := newWorld(t, func(c *upstream.Config) { c.Timeout = time.Millisecond })
	w.fault = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	ask := func(i int) { require.Equal(t, "unknown", see(t, l, fmt.Sprintf("0A%05d", i))) }
	for i := range 100 {
		ask(i)
	}
	require.EqualValues(t, 3, w.asked.Load())
	for pause := time.Second; pause <= 16*time.Second; pause *= 2 {
		before := w.asked.Load()
		w.now.Add(int64(pause) - 1)
		ask(int(pause))
		require.Equal(t, before, w.asked.Load())
		w.now.Add(1)
		for i := range 10 {
			ask(i)
		}
		require.Equal(t, before+1, w.asked.Load(), "one question after each pause")
	}
	w.now.Add(int64(time.Minute))
	w.fault = nil
	for i := range 10 {
		ask(2000 + i)
	}
	require.EqualValues(t, 18, w.asked.Load(), "it is back")
}

func TestOnceAPauseItIsLoggedWhyNothingIsAsked(t *testing.T) {
	var logged bytes.Buffer
	w, l := newWorld(t, func(c *upstream.Config) { c.Logger = slog.New(slog.NewTextHandler(&logged, nil)) })
	w.fault = func(context.Context) error { return errAway }
	for pause := range 3 {
		for i := range 10 {
			require.Equal(t, "unknown", see(t, l, fmt.Sprintf("0A%d%04d", pause, i)))
		}
		require.Equal(t, pause+1, strings.Count(logged.String(), errAway.Error()), "%s", &logged)
		require.Equal(t, pause+1, strings.Count(logged.String(), "\n"))
		w.now.Add(int64(time.Minute))
	}
}

func TestWhoeverSuspendsGoesOnFromAReplicaThatHasEverything(t *testing.T) {
	w, l := newWorld(t, nil)
	w.put("0Anew00", waypost.Live, "https://example.com/new")
	require.Equal(t, "https://example.com/new", see(t, l, "0Anew00"))
	suspended := make(chan error, 1)
	go func() { suspended <- l.Suspend(t.Context()) }()
	var asked int
	require.Eventually(t, func() bool {
		asked++
		code := fmt.Sprintf("0An%04d", asked) // another each time: what is known already is answered
		w.put(code, waypost.Live, "https://example.com/newer")
		return see(t, l, code) == "unknown"
	}, 60*time.Second, time.Millisecond, "nothing more is asked")
	newest := fmt.Sprintf("0An%04d", asked)
	select {
	case err := <-suspended:
		require.Fail(t, "the replica has not come that far", "%v", err)
	default:
	}
	w.follow(uint64(asked))
	require.NoError(t, <-suspended)
	l.Resume()
	w.now.Add(int64(time.Minute))
	require.Equal(t, "https://example.com/newer", see(t, l, newest))

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, l.Suspend(ended), context.Canceled)
}

func TestAnAnswerOfAnotherHistoryIsNoAnswer(t *testing.T) {
	w, l := newWorld(t, nil)
	w.put("0Anew00", waypost.Live, "https://example.com/new")
	w.foreign = true
	require.Equal(t, "unknown", see(t, l, "0Anew00"))
	require.Zero(t, w.metric(t, "waypost_upstream_held", ""))
}

func TestARecordOfAfterItsAnswerIsNoAnswer(t *testing.T) {
	for name, forge := range map[string]func(*waypost.Record, *replication.Head){
		"a later sequence": func(rec *waypost.Record, head *replication.Head) { rec.Revision.Seq = head.Position.Seq + 1 },
		"a later epoch": func(rec *waypost.Record, _ *replication.Head) {
			rec.Revision = waypost.Revision{Epoch: epoch.Ordinal + 1}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, l := newWorld(t, nil)
			w.put("0Anew00", waypost.Live, "https://evil.example/")
			w.forge = forge
			require.Equal(t, "unknown", see(t, l, "0Anew00"))
			require.EqualValues(t, 1, w.metric(t, "waypost_upstream_questions_total", "failed"))
			require.Zero(t, w.metric(t, "waypost_upstream_held", ""))

			w.forge = func(rec *waypost.Record, head *replication.Head) { rec.Revision = head.Position.Revision() }
			require.Equal(t, "https://evil.example/", see(t, l, "0Anew00"), "as new as the answer it may be")
		})
	}
}

// Somebody in between answers as from far ahead: without a pinned key nobody can tell.
func TestAnAnswerThatTheReplicaNeverComesToStandsForAWhileAndNoLonger(t *testing.T) {
	w, l := newWorld(t, nil) // HoldFor is the default
	w.put("0Anew00", waypost.Live, "https://evil.example/")
	w.forge = func(_ *waypost.Record, head *replication.Head) { head.Position.Seq = 1 << 60 }
	require.Equal(t, "https://evil.example/", see(t, l, "0Anew00"))
	w.forge = nil
	w.put("0Anew00", waypost.Live, "https://example.com/")
	w.follow(2)
	w.now.Add(int64(10*time.Second) - 1)
	require.Equal(t, "https://evil.example/", see(t, l, "0Anew00"))
	require.EqualValues(t, 1, w.metric(t, "waypost_upstream_held", ""))
	w.now.Add(1)
	require.Equal(t, "https://example.com/", see(t, l, "0Anew00"), "the replica's own answer counts")
	require.Zero(t, w.metric(t, "waypost_upstream_held", ""), "nothing is looked at any more")
	require.EqualValues(t, 1, w.asked.Load())
}

func TestAnAnswerStandsThoughOneOfNotAsFarAheadComesAfterIt(t *testing.T) {
	w, l := newWorld(t, nil)
	w.put("0Afirst", waypost.Live, "https://example.com/old")
	w.put("0Afirst", waypost.Deleted, "")
	require.Equal(t, "gone", see(t, l, "0Afirst"))
	w.forge = func(_ *waypost.Record, head *replication.Head) { head.Position.Seq-- } // its answer took longer
	w.records["0Asecnd"] = w.records["0Afirst"][:1]
	require.Equal(t, "https://example.com/old", see(t, l, "0Asecnd"))
	w.follow(1)
	require.Equal(t, "gone", see(t, l, "0Afirst"))
}

func TestEachAnswerHasItsOwnTimeAndAForgedOneKeepsNoOther(t *testing.T) {
	w, l := newWorld(t, func(c *upstream.Config) { c.HoldFor = time.Minute })
	w.put("0Afirst", waypost.Live, "https://evil.example/")
	w.forge = func(_ *waypost.Record, head *replication.Head) { head.Position.Seq = 1 << 60 }
	require.Equal(t, "https://evil.example/", see(t, l, "0Afirst"))
	w.forge = nil
	w.now.Add(int64(40 * time.Second))
	w.put("0Afirst", waypost.Deleted, "")
	w.put("0Asecnd", waypost.Live, "https://example.com/second")
	w.put("0Athird", waypost.Live, "https://example.com/third")
	require.Equal(t, "https://example.com/second", see(t, l, "0Asecnd"))
	w.now.Add(int64(30 * time.Second))
	require.Equal(t, "https://example.com/third", see(t, l, "0Athird"))
	require.Equal(t, "https://example.com/second", see(t, l, "0Asecnd"), "it stands")
	require.EqualValues(t, 2, w.metric(t, "waypost_upstream_held", ""))
	require.EqualValues(t, 3, w.asked.Load())
	require.Equal(t, "gone", see(t, l, "0Afirst"), "what the replica does not have is asked for anew")
	require.EqualValues(t, 4, w.asked.Load())
	w.follow(4)
	require.Equal(t, "gone", see(t, l, "0Afirst"))
	require.Zero(t, w.metric(t, "waypost_upstream_held", ""))
}

func TestTooManyAnswersAheadOfTheReplicaAreNotHeld(t *testing.T) {
	w, l := newWorld(t, func(c *upstream.Config) { c.Hold = 2 })
	for i := range 3 {
		w.put(fmt.Sprintf("0A%05d", i), waypost.Live, "https://example.com/")
	}
	require.Equal(t, "https://example.com/", see(t, l, "0A00000"))
	require.Equal(t, "https://example.com/", see(t, l, "0A00001"))
	require.Equal(t, "unknown", see(t, l, "0A00002"))
	w.follow(3)
	require.Equal(t, "https://example.com/", see(t, l, "0A00002"))
}

func TestWhatTheReplicaHasCostsNoAllocation(t *testing.T) {
	w, l := newWorld(t, func(c *upstream.Config) { c.PerSecond = 1 })
	w.put("0Ahere0", waypost.Live, "https://example.com/")
	w.follow(1)
	require.Equal(t, "unknown", see(t, l, "0Anone0")) // the one question that may be asked
	require.EqualValues(t, 1, w.asked.Load())
	for name, c := range map[string]struct{ code, skipped string }{
		"a hit":                       {"0Ahere0", ""},
		"never issued":                {"0Bxxxxx", "never_issued"},
		"custom":                      {"custom-code", "custom"},
		"remembered as unknown":       {"0Anone0", "remembered"},
		"refused, as one of too many": {"0Aother", "limited"},
	} {
		requireNoAllocation(t, w, l, name, c.code, c.skipped)
	}

	c := coder(t)
	l.Keys(keyrange.NewDecoder(c.Space(), map[int]keyrange.Key{issuedPrefix: c.Key(issuedPrefix)}))
	requireNoAllocation(t, w, l, "never issued, by its counter", string(c.Encode(issuedPrefix, issuedCounters)), "never_issued")
	l.Keys(nil)

	w.fault = func(context.Context) error { return errAway }
	for i := range 3 {
		w.now.Add(int64(time.Second)) // for a question each
		require.Equal(t, "unknown", see(t, l, fmt.Sprintf("0Aaway%d", i)))
	}
	requireNoAllocation(t, w, l, "of a control plane that is away", "0Aother", "away")
	w.fresh.Store(false)
	requireNoAllocation(t, w, l, "of a replica that is behind", "0Aother", "stale")
	require.EqualValues(t, 4, w.asked.Load())
}

// requireNoAllocation says that none of a thousand visits to a code allocates, and that
// so many misses were skipped for the reason that is meant.
func requireNoAllocation(t *testing.T, w *world, l *upstream.Links, name, code, skipped string) {
	t.Helper()
	const visits = 1000
	c, buf := []byte(code), make([]byte, 0, 1024)
	allocated := testing.AllocsPerRun(1, func() { // one run, for a count that is not rounded, and one before
		for range visits {
			if _, _, _, err := l.Link(waypost.DefaultDomain, c, buf); err != nil {
				t.Fatal(err)
			}
		}
	})
	require.Zero(t, allocated, name)
	if skipped != "" {
		require.GreaterOrEqual(t, w.metric(t, "waypost_upstream_skipped_total", skipped), float64(2*visits), name)
	}
}

var errAway = errors.New("the control plane is away")

func TestAReplicaThatCannotBeReadIsNotAskedAround(t *testing.T) {
	w, _ := newWorld(t, nil)
	l := upstream.New(upstream.Config{Replica: broken{w}, Source: w, Fresh: w.fresh.Load})
	_, _, _, err := l.Link(waypost.DefaultDomain, []byte("0Anew00"), nil)
	require.ErrorIs(t, err, errAway)
	require.Zero(t, w.asked.Load())
}

type broken struct{ *world }

func (broken) Link(_ waypost.DomainID, _, buf []byte) (waypost.Record, []byte, bool, error) {
	return waypost.Record{}, buf, false, errAway
}
