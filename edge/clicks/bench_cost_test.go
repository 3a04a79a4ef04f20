package clicks_test

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"waypost"
	"waypost/edge/clicks"
)

// BenchmarkClick is the processor time of the whole process for a click, from recording
// to the acknowledgement, at 80,000 a second on links alike of a million. -benchtime
// 800000x takes ten seconds.
func BenchmarkClick(b *testing.B) {
	for name, c := range map[string]waypost.Click{
		"bare":    {Address: [16]byte{1}},
		"browser": {Address: [16]byte{1}, Agent: agent, Referrer: referrer},
	} {
		b.Run(name, func(b *testing.B) {
			j, err := clicks.Open(clicks.Config{Dir: b.TempDir(), Node: "edge-1", Profiler: crowd{}})
			if err != nil {
				b.Fatal(err)
			}
			shipped := make(chan error, 1)
			go func() {
				shipped <- j.Ship(context.Background(), clicks.ShipConfig{URL: "http://nowhere.example", Client: &http.Client{Transport: &taker{}}})
			}()
			idle := offer(&c, b.N, func(waypost.Click) {})
			offer(&c, 400_000, j.Record) // makes the first segments
			b.ResetTimer()
			with := offer(&c, b.N, j.Record)
			b.StopTimer()
			if j.Dropped() > 0 {
				b.Fatal("clicks were dropped")
			}
			b.ReportMetric(float64((with-idle).Nanoseconds())/float64(b.N), "cpu-ns/click")
			if err := j.Close(); err != nil {
				b.Fatal(err)
			}
			if err := <-shipped; err != nil {
				b.Fatal(err)
			}
		})
	}
}

// offer returns the processor time of the process while n clicks come.
func offer(c *waypost.Click, n int, to func(waypost.Click)) time.Duration {
	const pause, burst = 5 * time.Millisecond, 400
	tick := time.NewTicker(pause)
	defer tick.Stop()
	before, code := processorTime(), make([]byte, 0, 16)
	for i := range n {
		if i%burst == 0 {
			<-tick.C
		}
		c.Domain, c.At = 1, 1_700_000_000_000+int64(i/80)
		code = strconv.AppendUint(code[:0], uint64(1_000_000+i*7919%1_000_000), 10)
		c.Code = code
		to(*c)
	}
	return processorTime() - before
}

func processorTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// taker acknowledges every batch.
type taker struct{ seq atomic.Uint64 }

func (t *taker) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return nil, err
	}
	body := `{"watermark":` + strconv.FormatUint(t.seq.Add(1), 10) + `}`
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}
