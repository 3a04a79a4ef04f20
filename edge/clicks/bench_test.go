package clicks_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"waypost"
	"waypost/edge/clicks"
)

var (
	agent    = []byte("Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36")
	referrer = []byte("https://www.example.com/")
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
			j.Record(waypost.Click{Domain: 1, Code: code, At: 1_700_000_000_000, Agent: agent, Referrer: referrer})
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
			j.Record(waypost.Click{
				Domain: 1, Code: fmt.Appendf(nil, "%07x", rand.Uint32()>>4), At: 1_700_000_000_000, Agent: agent, Referrer: referrer,
			})
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

// BenchmarkTally measures the part without a disk: 50,000 clicks of nearly as many links,
// by one visitor or by as many.
func BenchmarkTally(b *testing.B) {
	for _, visitors := range []int{1, 50_000} {
		b.Run(fmt.Sprintf("visitors=%d", visitors), func(b *testing.B) {
			const perBatch = 50_000
			var part []byte
			for range perBatch {
				c := waypost.Click{
					Domain: 1, Code: fmt.Appendf(nil, "%07x", rand.Uint32()>>4), At: 1_700_000_000_000 + rand.Int64N(500),
					Address: [16]byte{1: byte(rand.IntN(visitors)), 2: byte(rand.IntN(visitors) >> 8)}, Agent: agent, Referrer: referrer,
				}
				part = clicks.AppendClick(part, c)
			}
			t := clicks.NewTally(crowd{})
			for b.Loop() {
				b.ReportMetric(float64(len(t.Pack(part)))/perBatch, "B/click")
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/perBatch, "ns/click")
		})
	}
}

// crowd is an audience that takes no time.
type crowd struct{}

func (crowd) Profile(c *waypost.Click) (waypost.ClickProfile, uint64) {
	return waypost.ClickProfile{Country: "PT", City: "Lisbon", Device: "desktop", Browser: "Chrome", OS: "Windows", Bot: c.Bot},
		binary.BigEndian.Uint64(c.Address[:]) * 0x9e3779b97f4a7c15
}
