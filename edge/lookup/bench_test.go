package lookup_test

import (
	"math/rand/v2"
	"syscall"
	"testing"

	"waypost"
)

// BenchmarkFind asks for links uniformly, so that none is in the processor's caches. It
// also reports CPU time, for busy machines.
func BenchmarkFind(b *testing.B) {
	const n = 2_000_000
	table := table(b, 1<<30)
	table.Reserve(n)
	for i := range n {
		table.Put(link(code(i), location(i, 0)), nil)
	}
	table.Finish()
	for name, off := range map[string]int{"hit": 0, "miss": n} {
		b.Run(name, func(b *testing.B) {
			var codes [1 << 16][10]byte
			for i := range codes {
				copy(codes[i][:], code(off+rand.IntN(n)))
			}
			var rec waypost.Record
			buf := make([]byte, 0, 1024)
			b.ReportAllocs()
			i, start := 0, cpuTime(b)
			for b.Loop() {
				i++
				table.Find(waypost.DefaultDomain, codes[i%len(codes)][:], buf, &rec)
			}
			b.ReportMetric(float64(cpuTime(b)-start)/float64(b.N), "cpu-ns/op")
		})
	}
}

func cpuTime(b *testing.B) int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
