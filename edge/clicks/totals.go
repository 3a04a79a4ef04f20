package clicks

import (
	"slices"

	"waypost"
)

// totals adds clicks up by link, up to as many links as a batch may have.
type totals struct {
	byLink map[linkKey]total
	clicks uint64
}

// linkKey is a domain and a code, without a pointer to follow.
type linkKey struct {
	domain waypost.DomainID
	length uint8
	code   [waypost.MaxCodeLength]byte
}

type total struct {
	count, bots uint64
	last        int64
}

func newTotals() *totals { return &totals{byLink: make(map[linkKey]total)} }

// add counts one click; false when it would be one link too many. What no batch
// may hold is passed over.
func (t *totals) add(r record) bool {
	if !waypost.ValidCode(r.Code) {
		return true
	}
	key := linkKey{domain: r.Domain, length: uint8(len(r.Code))}
	copy(key.code[:], r.Code)
	sum, ok := t.byLink[key]
	if !ok {
		if len(t.byLink) == waypost.MaxClickTotals {
			return false
		}
		sum.last = r.At
	}
	if r.Bot {
		sum.bots++
	}
	t.byLink[key] = total{sum.count + 1, sum.bots, max(sum.last, r.At)}
	t.clicks++
	return true
}

// sorted gives the totals as a batch has them.
func (t *totals) sorted() []waypost.ClickTotal {
	out := make([]waypost.ClickTotal, 0, len(t.byLink))
	for key, sum := range t.byLink {
		code := waypost.Code(key.code[:key.length])
		out = append(out, waypost.ClickTotal{Domain: key.domain, Code: code, Count: sum.count, Bots: sum.bots, Last: sum.last})
	}
	slices.SortFunc(out, func(a, b waypost.ClickTotal) int {
		if a.Before(&b) {
			return -1
		}
		return 1 // no two are equal
	})
	return out
}
