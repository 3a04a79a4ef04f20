package main_test

import (
	"bufio"
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"waypost"
	"waypost/client"
	"waypost/keyrange"
	"waypost/replication"
)

// metric adds up an edge's samples that begin so.
func (e *soloEdge) metric(prefix string) (sum float64) {
	e.t.Helper()
	req, err := http.NewRequestWithContext(e.t.Context(), http.MethodGet, "http://"+e.status.AdminAddr+"/metrics", http.NoBody)
	require.NoError(e.t, err)
	res, err := visitor.Do(req)
	require.NoError(e.t, err)
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), prefix); ok {
			value, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
			require.NoError(e.t, err)
			sum += value
		}
	}
	require.NoError(e.t, lines.Err())
	require.NoError(e.t, res.Body.Close())
	return sum
}

func TestANewLinkRedirectsAtOnceAndAScanAsksNobody(t *testing.T) {
	e := startSolo(t)
	first := e.create(1)[0] // the edge follows
	// Who comes before the answer to the question, or while nothing is asked because answers took too long, is told
	// that there is nothing.
	excuses := func() float64 {
		return e.metric(`waypost_upstream_questions_total{result="failed"}`) + e.metric("waypost_upstream_skipped_total")
	}
	before := excuses()
	answered, late := make(map[string]int64), 0.0
	for i := range 50 {
		var l client.Link
		e.persist(func() (err error) {
			l, err = e.api.Create(t.Context(), client.NewLink{OriginalURL: "https://example.com/" + strconv.Itoa(i)})
			return err
		})
		status := visit{method: http.MethodGet}.to(t, "http://"+e.status.Addr, l.ShortCode)
		if status == http.StatusNotFound {
			late++
			continue
		}
		require.Equal(t, http.StatusFound, status, "link %d", i)
		answered[l.ShortCode] = 1
	}
	t.Logf("%v of 50 were asked for", e.metric(`waypost_upstream_questions_total{result="found"}`))
	require.LessOrEqual(t, late, excuses()-before)
	require.NotEmpty(t, answered)

	// Codes of prefixes that no region has, and custom ones.
	asked := e.metric("waypost_upstream_questions_total")
	stale := func() float64 { return e.metric(`waypost_upstream_skipped_total{reason="stale"}`) } // by an edge that stood still
	before = stale()
	prefix := first[:2]
	for i := range 100 {
		code := fmt.Sprintf("%02d%05d", rand.IntN(100), i)
		if strings.HasPrefix(code, prefix) {
			continue
		}
		require.Equal(t, http.StatusNotFound, e.head(code))
		require.Equal(t, http.StatusNotFound, e.head("custom-"+strconv.Itoa(i)))
	}
	require.Equal(t, asked, e.metric("waypost_upstream_questions_total"))
	missed := stale() - before
	require.GreaterOrEqual(t, e.metric(`waypost_upstream_skipped_total{reason="never_issued"}`), 90-missed)
	require.GreaterOrEqual(t, e.metric(`waypost_upstream_skipped_total{reason="custom"}`), 100-missed)

	// What tells more is for edges alone.
	status, _, err := location(t.Context(), e.system.State().API+replication.PathPrefixKeys)
	require.NoError(t, err)
	require.Equal(t, http.StatusUnauthorized, status)

	// Nor codes of the prefix that has a range, but for those whose counters can have been issued.
	coder := e.coder()
	ordinal, counter, ok := coder.Decode(waypost.Code(first))
	require.True(t, ok)
	never := func() float64 { return e.metric(`waypost_upstream_skipped_total{reason="never_issued"}`) }
	eventually(t, time.Minute, "told from the counter", func() bool {
		before := never()
		e.head(string(coder.Encode(ordinal, coder.Space().Suffixes()-1)))
		return never() > before
	})
	asked, before = e.metric("waypost_upstream_questions_total"), stale()
	known := never()
	for range 300 {
		require.Equal(t, http.StatusNotFound, e.head(string(coder.Encode(ordinal, 1_000_000+rand.Int64N(coder.Space().Suffixes()-1_000_000)))))
	}
	require.Equal(t, asked, e.metric("waypost_upstream_questions_total"))
	require.EqualValues(t, 300, never()-known+stale()-before)

	// One that can have been issued is asked for, once.
	mayBe := func(n int64) string { return string(coder.Encode(ordinal, counter/10_000*10_000+9_999-n)) }
	for range 10 {
		require.Equal(t, http.StatusNotFound, e.head(mayBe(0)))
	}
	unknown := e.metric(`waypost_upstream_questions_total{result="unknown"}`)
	require.Positive(t, unknown)
	require.Less(t, unknown, 8.0, "not every time; it is remembered for a second")
	e.requireUnknownWhileTheControlPlaneHangs(mayBe)
	answered[e.create(1)[0]] = 0 // it follows again
	eventually(t, time.Minute, "passed", func() bool { e.head(first); return e.metric("waypost_upstream_held") == 0 })
	e.requireCounted(answered)
}

// coder is that of the system's control plane.
func (e *soloEdge) coder() *keyrange.Coder {
	e.t.Helper()
	text, err := os.ReadFile(filepath.Join(e.system.DataDir(), "secrets", "cluster"))
	require.NoError(e.t, err)
	secret, err := hex.DecodeString(strings.TrimSpace(string(text)))
	require.NoError(e.t, err)
	space, err := keyrange.NewSpace(7, 2)
	require.NoError(e.t, err)
	return keyrange.NewCoder(space, [32]byte(secret))
}

// requireUnknownWhileTheControlPlaneHangs stops the control plane in the middle of what it does, and lets visitors come for codes
// of which it alone knows that they are no links. No visitor waits for it: who waits longer than it says here waits for ever.
func (e *soloEdge) requireUnknownWhileTheControlPlaneHangs(mayBe func(int64) string) {
	e.t.Helper()
	const visitors, patience = 50, 5 * time.Second
	control := int(e.system.State().Control.PID)
	require.NoError(e.t, unix.Kill(control, unix.SIGSTOP))
	defer func() { require.NoError(e.t, unix.Kill(control, unix.SIGCONT)) }()
	dealtWith := func() float64 {
		return e.metric("waypost_upstream_questions_total") + e.metric("waypost_upstream_skipped_total")
	}
	// An edge that stands still itself, or did so a moment ago, asks nothing.
	hung := func() float64 {
		return e.metric(`waypost_upstream_questions_total{result="failed"}`) +
			e.metric(`waypost_upstream_skipped_total{reason="stale"}`) + e.metric(`waypost_upstream_skipped_total{reason="away"}`)
	}
	all, some := dealtWith(), hung()
	failures := make(chan error, visitors)
	for i := range visitors {
		go func() {
			ctx, cancel := context.WithTimeout(e.t.Context(), patience)
			defer cancel()
			code := mayBe(1 + int64(i))
			status, _, err := location(ctx, "http://"+e.status.Addr+"/"+code)
			if err == nil && status != http.StatusNotFound {
				err = fmt.Errorf("%s: status %d", code, status)
			}
			failures <- err
		}()
	}
	for range visitors {
		require.NoError(e.t, <-failures)
	}
	require.EqualValues(e.t, visitors, dealtWith()-all)
	require.Greater(e.t, hung(), some)
}
