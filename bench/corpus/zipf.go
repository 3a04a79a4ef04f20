package corpus

import (
	"math"
	"math/rand/v2"
)

// Zipf draws ranks 0 to n-1, the rank k with a probability proportional to 1/(k+1): the
// exponent is 1, which math/rand's Zipf excludes. It needs no table: Hörmann and
// Derflinger, Rejection-inversion to generate variates from monotone discrete
// distributions, 1996. One goroutine uses it.
type Zipf struct {
	random   *rand.Rand
	n        uint64
	from, to float64 // bounds of the uniform draw
	sure     float64
}

// NewZipf makes a Zipf over n ranks; n is 1 at least.
func NewZipf(random *rand.Rand, n uint64) *Zipf {
	// H(x) = ln x is the integral of 1/x, and its inverse e^x.
	return &Zipf{
		random: random, n: n,
		from: math.Log(1.5) - 1,
		to:   math.Log(float64(n) + 0.5),
		sure: 2 - math.Exp(math.Log(2.5)-0.5),
	}
}

// Next draws a rank.
func (z *Zipf) Next() uint64 {
	for {
		u := z.from + z.random.Float64()*(z.to-z.from)
		x := math.Exp(u)
		k := min(max(math.Floor(x+0.5), 1), float64(z.n))
		if k-x <= z.sure || u >= math.Log(k+0.5)-1/k {
			return uint64(k) - 1
		}
	}
}
