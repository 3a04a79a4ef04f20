package unknown

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"waypost"
	"waypost/edge/audience"
)

type oneSalt struct{ salt waypost.Salt }

func (s *oneSalt) Salt(int32) *waypost.Salt { return &s.salt }

// BenchmarkCount measures a visit of a flood from many networks outside of the redirect
// path. The buffers bound these visits to 5,120 a second.
func BenchmarkCount(b *testing.B) {
	r := New(Config{Profiler: audience.New(audience.Config{Salts: &oneSalt{}})})
	var s slot
	s.domain, s.at = 1, time.Now().UnixMilli()
	for i := 0; b.Loop(); i++ {
		s.path = copy(s.text[:], fmt.Appendf(nil, "a/random-path/%d", i))
		s.agent = copy(s.text[s.path:], "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0")
		s.from = netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
		s.network = r.networkOf(s.from)
		r.count(&s)
	}
}
