package budgets

import (
	"hash/maphash"
	"maps"
	"sync/atomic"

	"waypost"
)

const (
	shards = 256
	maxKey = 4 + waypost.MaxName
)

// table finds accounts without a lock. Its maps are replaced and never changed. One
// goroutine at a time calls insert and remove.
type table struct {
	seed maphash.Seed
	maps [shards]atomic.Pointer[map[string]*account]
}

func newTable() *table {
	t := &table{seed: maphash.MakeSeed()}
	for i := range t.maps {
		t.maps[i].Store(&map[string]*account{})
	}
	return t
}

// key returns the key of a link.
func key(buf *[maxKey]byte, domain waypost.DomainID, code []byte) []byte {
	buf[0], buf[1], buf[2], buf[3] = byte(domain), byte(domain>>8), byte(domain>>16), byte(domain>>24)
	return buf[:4+copy(buf[4:], code)]
}

// find returns the account of a link, nil if there is no account. It does not allocate.
func (t *table) find(domain waypost.DomainID, code []byte) *account {
	var buf [maxKey]byte
	k := key(&buf, domain, code)
	return (*t.maps[maphash.Bytes(t.seed, k)%shards].Load())[string(k)]
}

func (t *table) insert(a *account) {
	t.change([]*account{a}, func(m map[string]*account, k string) { m[k] = a })
}

func (t *table) remove(all []*account) {
	t.change(all, func(m map[string]*account, k string) { delete(m, k) })
}

func (t *table) change(all []*account, f func(m map[string]*account, k string)) {
	changed := make(map[uint64]map[string]*account)
	var buf [maxKey]byte
	for _, a := range all {
		k := key(&buf, a.domain, []byte(a.code))
		i := maphash.Bytes(t.seed, k) % shards
		if changed[i] == nil {
			changed[i] = maps.Clone(*t.maps[i].Load())
		}
		f(changed[i], string(k))
	}
	for i, m := range changed {
		t.maps[i].Store(&m)
	}
}
