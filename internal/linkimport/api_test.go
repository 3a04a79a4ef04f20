package linkimport_test

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"waypost/client"
)

// api plays the control plane: it keeps what it was sent, and fails as it is told.
type api struct {
	mu       sync.Mutex         // calls come one by one, in any order
	batches  [][]client.NewLink // that were answered
	failures []error            // of the next calls; nil passes
	create   func(ns []client.NewLink, commit func(n int)) error
	listErr  func() error

	links    []made        // oldest first
	late     []func()      // what takes effect in the course of the next long wait
	time     time.Duration // that has passed
	listings int           // of more than one link
}

// made holds the fields of a link that the import may look at. A whole link is many times
// as large, which takes the race detector long.
type made struct {
	url, by string
	at      time.Time
}

var began = time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC)

func (a *api) wait(ctx context.Context, d time.Duration) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if d >= 10*time.Second {
		for _, act := range a.late {
			act()
		}
		a.late = nil
	}
	a.time += d
	return ctx.Err()
}

func (a *api) commit(ns []client.NewLink) {
	for _, n := range ns {
		if strings.HasPrefix(n.OriginalURL, "https:") {
			a.links = append(a.links, made{n.OriginalURL, n.CreatedBy, began.Add(a.time)})
		}
	}
}

func (a *api) CreateBulk(_ context.Context, ns []client.NewLink) ([]client.Outcome, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.failures) > 0 {
		err := a.failures[0]
		a.failures = a.failures[1:]
		if err != nil {
			return nil, err
		}
	}
	if a.create != nil {
		if err := a.create(ns, func(n int) { a.commit(ns[:min(n, len(ns))]) }); err != nil {
			return nil, err
		}
	}
	a.commit(ns)
	a.batches = append(a.batches, ns)
	outcomes, link := make([]client.Outcome, len(ns)), &client.Link{}
	for i, n := range ns {
		switch {
		case strings.HasPrefix(n.OriginalURL, "https://twin.example/"):
			outcomes[i] = client.Outcome{Status: 200, Link: link}
		case strings.HasPrefix(n.OriginalURL, "https:"):
			outcomes[i] = client.Outcome{Status: 201, Link: link}
		case n.OriginalURL == "broken":
			outcomes[i] = client.Outcome{Status: 500, Error: &client.ProblemBody{Detail: "an internal error"}}
		case n.OriginalURL == "busy":
			outcomes[i] = client.Outcome{Status: 503, Error: &client.ProblemBody{Detail: "try later"}}
		default:
			outcomes[i] = client.Outcome{Status: 422, Error: &client.ProblemBody{Detail: "no such scheme"}}
		}
	}
	return outcomes, nil
}

func (a *api) List(ctx context.Context, limit int, cursor string) (client.Page, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return client.Page{}, err
	}
	if a.listErr != nil {
		if err := a.listErr(); err != nil {
			return client.Page{}, err
		}
	}
	if limit > 1 {
		a.listings++
	}
	end := len(a.links)
	if cursor != "" {
		end, _ = strconv.Atoi(cursor)
	}
	page := client.Page{Time: began.Add(a.time), Links: make([]client.Link, 0, min(end, limit))}
	for end > 0 && len(page.Links) < limit {
		end--
		l := a.links[end]
		page.Links = append(page.Links, client.Link{OriginalURL: l.url, CreatedBy: l.by, CreatedAt: l.at})
	}
	if end > 0 {
		page.Next = strconv.Itoa(end)
	}
	return page, nil
}
