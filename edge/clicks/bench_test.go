package clicks_test

import (
	"testing"

	"waypost"
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
			j.Record(waypost.Click{Domain: 1, Code: code, At: 1_700_000_000_000})
		}
	})
	b.ReportMetric(float64(j.Dropped())/float64(b.N), "dropped/op")
	if err := j.Close(); err != nil {
		b.Fatal(err)
	}
}
