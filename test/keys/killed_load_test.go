package keys_test

import (
	"context"
	"math/rand/v2"
	"net/http"
	"time"

	"waypost"
	"waypost/test/devtest"
)

// unless waits for a while, or until ctx ends.
func unless(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// service reserves keys in bulk from the control planes of a slot, publishes one now
// and then, and returns some back.
func (f *fleet) service(ctx context.Context, s *slot) {
	for ctx.Err() == nil {
		c := s.node()
		if c == nil {
			unless(ctx, 20*time.Millisecond)
			continue
		}
		n := 10_000
		if rand.IntN(5) == 0 || f.keys.size() >= f.wanted { // there is only somebody left to be killed
			n = 1 + rand.IntN(300)
		}
		keys, got := reserve(context.WithoutCancel(ctx), c.API, s.name, n)
		if got.status != http.StatusOK {
			f.judgeAnswer(got)
			unless(ctx, 20*time.Millisecond)
			continue
		}
		if len(keys) != n {
			f.fail("%d keys where %d were asked for", len(keys), n)
		}
		f.keys.reserve(c.Node, keys...)
		if rand.IntN(2) == 0 {
			f.giveBack(ctx, c, s, keys[:min(len(keys), 1+rand.IntN(200))])
		}
		// A key that is held is published by its own service, and by no one else twice.
		if key := keys[len(keys)-1]; len(keys) > 200 {
			_, got := create(context.WithoutCancel(ctx), c.API, key)
			f.judgeAnswer(got)
			if got.status == http.StatusCreated {
				if _, again := create(context.WithoutCancel(ctx), c.API, key); again.status == http.StatusCreated {
					f.fail("the key %s became two links", key)
				}
			}
		}
		unless(ctx, pause)
	}
}

// giveBack returns keys, of which the first is published and so refused.
func (f *fleet) giveBack(ctx context.Context, c *devtest.Control, s *slot, keys []string) {
	if len(keys) > 1 {
		if _, got := create(context.WithoutCancel(ctx), c.API, keys[0]); got.status != http.StatusCreated {
			keys = keys[1:] // who knows
		}
	}
	f.keys.mark(true, keys...)
	var taken struct {
		Refused []struct{ Key string }
	}
	got := ask(context.WithoutCancel(ctx), http.MethodPost, c.API+"/api/v1/kgs/keys/return", map[string]any{
		"keys":    keys,
		"service": s.name,
	}, &taken)
	f.judgeAnswer(got)
	if got.status == http.StatusOK {
		for _, r := range taken.Refused {
			f.keys.mark(false, r.Key)
		}
	}
}

// creator makes links in a slot: single ones, many at once, and such with codes that
// are those of counters which are about to be leased, or are.
func (f *fleet) creator(ctx context.Context, s *slot) {
	for ctx.Err() == nil {
		c := s.node()
		if c == nil {
			unless(ctx, 20*time.Millisecond)
			continue
		}
		var codes []string
		var code string
		var got answer
		note := func(keys ...string) { f.keys.receive(c.Node, keys...) }
		switch rand.IntN(4) {
		case 0:
			codes, got = createMany(context.WithoutCancel(ctx), c.API, 1+rand.IntN(100))
		case 1:
			if custom := f.decodable(); custom != "" {
				note = f.keys.choose
				code, got = create(context.WithoutCancel(ctx), c.API, custom)
			}
		default:
			code, got = create(context.WithoutCancel(ctx), c.API, "")
		}
		if got.status == http.StatusCreated && code != "" {
			codes = append(codes, code)
		}
		note(codes...)
		f.judgeAnswer(got)
		unless(ctx, pause)
	}
}

// decodable is a code whose counter lies a little ahead of where a range was leased up
// to lately, or a little behind.
func (f *fleet) decodable() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.ahead) == 0 {
		return ""
	}
	r := f.ahead[rand.IntN(len(f.ahead))]
	counter := r.Next + int64(rand.IntN(40_000)) - 10_000
	prefix, _, ok := f.coder.Space().Split(waypost.Code(r.Prefix + "00000"))
	if counter < r.Lo || counter >= r.Hi || !ok {
		return ""
	}
	return string(f.coder.Encode(prefix, counter))
}

// judgeAnswer knows the answers that may come in such times.
func (f *fleet) judgeAnswer(got answer) {
	switch got.status {
	case 0, http.StatusOK, http.StatusCreated, http.StatusConflict, http.StatusServiceUnavailable:
	default:
		f.fail("an answer that nobody should get: %d %s", got.status, got.text)
	}
}

// operator moves, splits, drains, revives, retires and assigns ranges at random.
func (f *fleet) operator(ctx context.Context) {
	assigned := 0
	for ctx.Err() == nil {
		unless(ctx, 100*time.Millisecond)
		c := f.slots[rand.IntN(len(f.slots))].node()
		if c == nil {
			continue
		}
		var space struct{ Ranges []listedRange }
		if got := ask(context.WithoutCancel(ctx), http.MethodGet, c.API+"/api/admin/ranges", nil, &space); got.status != http.StatusOK {
			continue
		}
		var usable []listedRange
		for _, r := range space.Ranges {
			if r.State != "retired" {
				usable = append(usable, r)
			}
		}
		f.mu.Lock()
		f.ahead = usable
		f.mu.Unlock()
		if len(usable) == 0 {
			continue
		}
		r := usable[rand.IntN(len(usable))]
		other := regions[rand.IntN(len(regions))]
		act := step{"range": r.ID}
		switch n := rand.IntN(14); {
		case n < 3:
			act["action"], act["region"], act["remainder"] = "move", other, true
		case n < 6:
			act["action"], act["region"] = "move", other
		case n < 8:
			act["action"] = "split"
			if rand.IntN(2) == 0 {
				act["at"] = r.Next + 1 + int64(rand.IntN(100_000))
			}
		case n < 10:
			act["action"] = "drain"
		case n < 12:
			act["action"] = "revive"
		case n < 13:
			act["action"], act["force"] = "retire", true
		default:
			if assigned++; assigned > 100 {
				continue
			}
			act = step{"action": "assign", "region": other}
		}
		got := ask(context.WithoutCancel(ctx), http.MethodPost, c.API+"/api/admin/ranges/changes", map[string]any{"steps": []step{act}}, nil)
		f.judgeAnswer(got)
		if got.status == http.StatusOK {
			f.mu.Lock()
			f.acts++
			f.mu.Unlock()
		}
	}
}
