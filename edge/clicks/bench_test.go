package clicks_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"waypost/edge/clicks"
)

// BenchmarkRecord is the cost of a click on the redirect path, with batches being made
// meanwhile and nothing shipped.
func BenchmarkRecord(b *testing.B) {
	j, err := clicks.Open(clicks.Config{Dir: b.TempDir(), Node: "edge-1"})
	if err != nil {
		b.Fatal(err)
	}
	b.RunParallel(func(p *testing.PB) {
		code := []byte("abc1234")
		for p.Next() {
			j.Record(1, code, 1_700_000_000_000)
		}
	})
	b.ReportMetric(float64(j.Dropped())/float64(b.N), "dropped/op")
	if err := j.Close(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkFix is the cost of a click behind the redirect path, when hardly two are
// of the same link: being gathered into a batch that is made durable.
func BenchmarkFix(b *testing.B) {
	const perBatch = 50_000
	for b.Loop() {
		b.StopTimer()
		j, err := clicks.Open(clicks.Config{Dir: b.TempDir(), Node: "edge-1", FlushInterval: time.Hour, SyncInterval: time.Hour})
		if err != nil {
			b.Fatal(err)
		}
		for range perBatch {
			j.Record(1, fmt.Appendf(nil, "%07x", rand.Uint32()>>4), 1_700_000_000_000)
		}
		b.StartTimer()
		if err := j.Seal(); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := j.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/perBatch, "ns/click")
}
