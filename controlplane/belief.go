package controlplane

import (
	"sync"
	"time"
)

const (
	beliefTime = time.Second
	renewAfter = beliefTime / 2
	maxBeliefs = 10_000
)

// belief is what the database said within the last beliefTime, by what it was asked
// about. Of many who want to know, one asks anew in good time while the others go on:
// else all of them would ask in the same moment, every time that the belief ends.
type belief[K comparable, V any] struct {
	mu     sync.Mutex
	known  map[K]believed[V] // bounded by maxBeliefs
	rounds int               // how often all was forgotten
}

type believed[V any] struct {
	value   V
	asked   time.Time
	renewed bool // somebody is asking anew, or has in vain
}

// of gives what is believed of a key, or what ask says: false when there is nothing, which
// is not believed. An error of ask is one only when nothing is believed any more.
func (b *belief[K, V]) of(key K, now time.Time, ask func() (V, bool, error)) (V, bool, error) {
	value, left, renew, round := b.recall(key, now)
	if left > 0 && !renew {
		return value, true, nil
	}
	began := time.Now()
	said, ok, err := ask()
	switch {
	case err != nil && time.Since(began) < left:
		return value, true, nil //nolint:nilerr // what is known will do
	case err == nil:
		b.remember(key, said, ok, now, round)
	}
	return said, ok, err
}

// recall tells for how long there is a belief still, and whether the caller is to renew it; round is
// for remember.
func (b *belief[K, V]) recall(key K, now time.Time) (value V, left time.Duration, renew bool, round int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k, ok := b.known[key]
	age := now.Sub(k.asked)
	if ok {
		left = max(0, beliefTime-age)
	}
	if renew = left > 0 && age >= renewAfter && !k.renewed; renew {
		k.renewed = true
		b.known[key] = k
	}
	return k.value, left, renew, b.rounds
}

// remember believes an answer, unless all was forgotten since it was asked for. There is
// nothing to believe when it is not ok.
func (b *belief[K, V]) remember(key K, value V, ok bool, asked time.Time, round int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if round != b.rounds {
		return
	}
	if !ok {
		delete(b.known, key)
		return
	}
	if b.known == nil || len(b.known) >= maxBeliefs {
		b.known = make(map[K]believed[V])
	}
	b.known[key] = believed[V]{value: value, asked: asked}
}

func (b *belief[K, V]) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.known = nil
	b.rounds++
}
