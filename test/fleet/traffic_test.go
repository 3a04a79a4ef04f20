package fleet_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/api"
	"waypost/client"
)

// counts are requests during one fault.
type counts struct {
	redirects, redirectsFailed int
	writes, writesAgain        int // again: repeated, because the control plane was away
	signed, signedAgain        int // requests of a session
	wrong                      int // answers that must not be
	rounds                     int
	longest                    time.Duration // until everything was right again
}

// traffic holds the requests of visitors and users, and what they were told.
type traffic struct {
	f      *fleet
	stable map[string]string // targets of links that stay as they are, by code
	ctx    context.Context
	stop   context.CancelFunc
	work   sync.WaitGroup

	mu       sync.Mutex
	fault    string
	order    []string
	by       map[string]*counts
	problems []string
	answered map[string]int64  // redirects by code
	links    map[string]string // targets of the links that come and go; "": deleted
}

func startTraffic(f *fleet) *traffic {
	t := &traffic{f: f, stable: map[string]string{}, by: map[string]*counts{}, answered: map[string]int64{}, links: map[string]string{}}
	t.ctx, t.stop = context.WithCancel(f.t.Context())
	t.during("no fault")
	for i := range 8 {
		target := fmt.Sprintf("https://example.com/stable/%d", i)
		made, _, err := f.clients[0].Links.Make(f.t.Context(), client.NewLink{OriginalURL: target}, client.Write{})
		require.NoError(f.t, err)
		t.stable[made.ShortCode] = target
	}
	f.whole()
	codes := slices.Sorted(maps.Keys(t.stable))
	for range 4 {
		t.work.Go(func() { t.visit(codes) })
	}
	for first := range 2 {
		t.work.Go(func() { t.write(first) })
	}
	t.work.Go(t.sign)
	return t
}

func (t *traffic) during(fault string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fault = fault; t.by[fault] == nil {
		t.by[fault] = &counts{}
		t.order = append(t.order, fault)
	}
}

// note changes the counts of the present fault. A problem fails the test at the end.
func (t *traffic) note(change func(*counts), problem string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.by[t.fault]
	change(c)
	if problem != "" {
		c.wrong++
		if len(t.problems) < 20 {
			t.problems = append(t.problems, t.fault+": "+fmt.Sprintf(problem, args...))
		}
	}
}

// pace waits between two requests, and returns false at the end.
func (t *traffic) pace(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-t.ctx.Done():
		return false
	}
}

// visit follows links on all edges that are up.
func (t *traffic) visit(codes []string) {
	for t.pace(25 * time.Millisecond) {
		e, code := t.f.edges[rand.N(len(t.f.edges))], codes[rand.N(len(codes))]
		status, location, err := e.ask(http.MethodGet, code)
		switch {
		case err == nil && status == 0: // it is down
		case err != nil || status != http.StatusFound || location != t.stable[code]:
			t.note(func(c *counts) { c.redirects++; c.redirectsFailed++ }, "%s answered %s with %d, %q: %v", e.name, code, status, location, err)
		default:
			t.note(func(c *counts) { c.redirects++ }, "")
			t.mu.Lock()
			t.answered[code]++
			t.mu.Unlock()
		}
	}
}

// insist sends a request to one control plane and the other until one of them answers.
func (t *traffic) insist(at *int, count func(c *counts, again bool), do func(ctx context.Context, which int) error) error {
	for {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), 20*time.Second)
		err := do(ctx, *at)
		cancel()
		_, passing := client.Passing(err)
		t.note(func(c *counts) { count(c, err != nil && passing) }, "")
		if err == nil || !passing {
			return err
		}
		*at = 1 - *at
		time.Sleep(20 * time.Millisecond) // as a client does that tries again
	}
}

// write creates, edits and deletes links, and keeps account of what it was told.
func (t *traffic) write(at int) {
	f := t.f
	count := func(c *counts, again bool) {
		c.writes++
		if again {
			c.writesAgain++
		}
	}
	for i := 0; t.pace(300 * time.Millisecond); i++ {
		target := fmt.Sprintf("https://example.com/%d/%d", at, rand.Uint64())
		var made client.Link
		key := fmt.Sprintf("key-%d", rand.Uint64())
		err := t.insist(&at, count, func(ctx context.Context, which int) (err error) {
			made, _, err = f.clients[which].Links.Make(ctx, client.NewLink{OriginalURL: target}, client.Write{Key: key})
			return err
		})
		if err != nil {
			t.note(func(*counts) {}, "create: %v", err)
			continue
		}
		t.keep(made.ShortCode, target)
		if i%2 == 1 {
			target += "/edited"
			err := t.insist(&at, count, func(ctx context.Context, which int) error {
				_, _, err := f.clients[which].Links.Change(ctx, made.ShortCode, client.LinkChange{OriginalURL: api.Set(target)}, client.Write{})
				return err
			})
			if t.keep(made.ShortCode, target); err != nil {
				t.note(func(*counts) {}, "edit of %s: %v", made.ShortCode, err)
			}
		}
		if i%3 == 2 {
			t.remove(&at, count, made.ShortCode)
		}
	}
}

// remove deletes a link. When the answer says that all edges have it, none may redirect.
func (t *traffic) remove(at *int, count func(*counts, bool), code string) {
	var receipt client.Receipt
	again := false
	err := t.insist(at, count, func(ctx context.Context, which int) (err error) {
		receipt, err = t.f.clients[which].Links.Remove(ctx, code, client.Write{Wait: "all", Timeout: 3 * time.Second})
		if again && notThere(err) { // by the time before, of which nothing was heard
			return nil
		}
		again = true
		return err
	})
	if t.keep(code, ""); err != nil {
		t.note(func(*counts) {}, "deletion of %s: %v", code, err)
	}
	if receipt.Applied != t.f.everywhere() {
		return
	}
	e := t.f.edges[rand.N(len(t.f.edges))]
	if status, _, err := e.ask(http.MethodHead, code); err != nil || status != 0 && status != http.StatusGone {
		t.note(func(*counts) {}, "%s answers %s with %d after %q: %v", e.name, code, status, receipt.Applied, err)
	}
}

func (t *traffic) keep(code, target string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.links[code] = target
}

// sign signs in, asks through both control planes by that session, and signs in again
// some time.
func (t *traffic) sign() {
	count := func(c *counts, again bool) {
		c.signed++
		if again {
			c.signedAgain++
		}
	}
	at, session := 0, ""
	for i := 0; t.pace(200 * time.Millisecond); i++ {
		if i%50 == 0 {
			err := t.insist(&at, count, func(ctx context.Context, which int) error {
				n := api.SignIn{Email: email, Password: password}
				got, err := client.Send[api.Session](ctx, t.f.clients[which], http.MethodPost, api.PathSession, n)
				session = got.Token
				return err
			})
			if err != nil {
				t.note(func(*counts) {}, "sign-in: %v", err)
			}
		}
		at = 1 - at
		err := t.insist(&at, count, func(ctx context.Context, which int) error {
			c, err := client.New(t.f.clients[which].Base(), session)
			if err != nil {
				return err
			}
			defer c.Close()
			_, err = client.Get[api.Me](ctx, c, api.PathMe)
			return err
		})
		if err != nil {
			t.note(func(*counts) {}, "a session ended: %v", err)
		}
	}
}

// end stops everything.
func (t *traffic) end() {
	t.stop()
	t.work.Wait()
}

// table lists what was sent and what failed, by fault.
func (t *traffic) table() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b strings.Builder
	b.WriteString("| fault | times | redirects | failed | writes | sent again | by sessions | sent again | wrong answers | right again within |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|\n")
	for _, fault := range t.order {
		c := t.by[fault]
		if *c == (counts{}) {
			continue
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d | %d | %d | %d | %d | %.1f s |\n", fault, c.rounds, c.redirects, c.redirectsFailed, c.writes,
			c.writesAgain, c.signed, c.signedAgain, c.wrong, c.longest.Seconds())
	}
	return b.String()
}
