package clicks_test

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/clicks"
)

// answers is a control plane in memory: it returns one answer after the other, and
// notes when it was asked.
type answers struct {
	mu    sync.Mutex
	left  []http.Response
	asked []time.Time
}

func (a *answers) RoundTrip(*http.Request) (*http.Response, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, time.Now())
	res := http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(`{"watermark":1}`))}
	if len(a.left) > 0 {
		res, a.left = a.left[0], a.left[1:]
	}
	return &res, nil
}

func unavailable(retryAfter string) http.Response {
	return http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{"Retry-After": {retryAfter}}, Body: http.NoBody}
}

// shipOne records a click in a journal with the default times, ships it, and returns
// how long after the click each request was made.
func shipOne(t *testing.T, a *answers) (after []time.Duration) {
	ctx, cancel := context.WithCancel(t.Context())
	j, err := clicks.Open(clicks.Config{Dir: t.TempDir(), Node: "edge-1", SegmentBytes: 64 << 10})
	require.NoError(t, err)
	var work sync.WaitGroup
	work.Go(func() {
		if err := j.Ship(ctx, clicks.ShipConfig{URL: "http://control", Client: &http.Client{Transport: a}}); err != nil {
			t.Error(err)
		}
	})
	start := time.Now()
	j.Record(waypost.Click{Domain: 1, Code: []byte("abcd"), At: 1})
	time.Sleep(10 * time.Minute) // of the bubble's time: until all is quiet
	cancel()
	work.Wait()
	require.NoError(t, j.Close())
	for _, at := range a.asked {
		after = append(after, at.Sub(start))
	}
	return after
}

func TestShip_ClickIsShippedWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		after := shipOne(t, &answers{})
		require.Len(t, after, 1)
		require.LessOrEqual(t, after[0], time.Second)
	})
}

func TestShip_ControlPlaneMayAskForAPauseOfUpToAMinute(t *testing.T) {
	for asked, want := range map[string]time.Duration{"7": 7 * time.Second, "60": time.Minute, "65535": time.Minute} {
		t.Run(asked, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				after := shipOne(t, &answers{left: []http.Response{unavailable(asked)}})
				require.Len(t, after, 2)
				require.Equal(t, want, after[1]-after[0])
			})
		})
	}
}

func TestShip_PausesGrowAndAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &answers{}
		for i := range 14 {
			a.left = append(a.left, unavailable(strconv.Itoa(-i))) // which asks for nothing
		}
		after := shipOne(t, a)
		require.Len(t, after, 15)
		for i := range 14 {
			longest := min(200*time.Millisecond<<i, 10*time.Second)
			pause := after[i+1] - after[i]
			require.GreaterOrEqual(t, pause, longest/2, "pause %d", i)
			require.LessOrEqual(t, pause, longest, "pause %d", i)
		}
	})
}
