package keyrange

import (
	"fmt"
	"testing"
)

// The permutation itself, for spaces of fewer than 62³ codes, which NewSpace refuses: an
// even number of suffix characters is too many to exhaust otherwise.
func TestPermutation_PermutationIsABijectionOfEverySmallSet(t *testing.T) {
	sizes := []int64{62, 62 * 62}               // one suffix character, and two
	for size := int64(1); size <= 150; size++ { // squares, products of neighbours, primes
		sizes = append(sizes, size)
	}
	space := Space{codeLength: 5, prefixLength: 2, prefixes: 62 * 62, suffixes: 62 * 62 * 62}
	for _, size := range sizes {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			p := newPermutation(newDomain(size), deriveKey(space, 77, [32]byte{1}))
			var work scratch
			taken := make([]bool, size)
			for n := range uint64(size) {
				m := p.forward(&work, n)
				if m >= uint64(size) || taken[m] {
					t.Fatalf("%d becomes %d, which is outside or was another's", n, m)
				}
				taken[m] = true
				if back := p.backward(&work, m); back != n {
					t.Fatalf("%d becomes %d, which comes back as %d", n, m, back)
				}
			}
		})
	}
}
