package keyrange_test

import (
	"fmt"
	"testing"

	"waypost"
	"waypost/keyrange"
)

var (
	sinkCode    waypost.Code
	sinkCounter int64
)

func BenchmarkEncode(b *testing.B) {
	for _, length := range []int{5, 7, 10} {
		b.Run(fmt.Sprint(length), func(b *testing.B) {
			coder := newCoder(b, length, 2)
			b.ReportAllocs()
			for i := int64(0); b.Loop(); i++ {
				sinkCode = coder.Encode(7, i%coder.Space().Suffixes())
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	coder := newCoder(b, 7, 2)
	code := coder.Encode(7, 42)
	b.ReportAllocs()
	for b.Loop() {
		_, sinkCounter, _ = coder.Decode(code)
	}
}

func BenchmarkFirstUseOfAPrefix(b *testing.B) {
	space, err := keyrange.NewSpace(7, 2)
	if err != nil {
		b.Fatal(err)
	}
	coder := keyrange.NewCoder(space, secret)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%space.Prefixes() == 0 {
			coder = keyrange.NewCoder(space, secret)
		}
		sinkCode = coder.Encode(i%space.Prefixes(), 0)
	}
}
