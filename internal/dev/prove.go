package dev

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"waypost/client"
)

// prover shows that links get through the whole system.
type prover struct {
	api *client.Client
	log *slog.Logger
	say *time.Ticker // paces what it says about waiting

	life time.Duration // of a probe's link, in whole seconds; 0: probeLife
}

// probeLife bounds the life of a probe's link, so that no list shows the link for long,
// not even the list of deleted links.
const probeLife = time.Minute

// errKeyRefused is the error for an API that does not take the system's own key.
var errKeyRefused = errors.New("the API refuses the key of this system")

// prove returns when every edge has a replica, redirects a link that is created through
// the API, and stops redirecting it once the link is deleted: then every edge is at the
// head. prove leaves no link behind; if it is killed, the link expires. If the link
// expires before every edge has redirected it, prove repeats the probe with another link.
// While keys are held back no link can be created, and prove accepts the replicas alone,
// because the operator needs the API to go on.
func (p *prover) prove(ctx context.Context, edges []*keeper, urls []string) error {
	for i, k := range edges {
		if err := p.eventually(ctx, "the replica of "+urls[i], func() error { return ready(ctx, k) }); err != nil {
			return err
		}
	}
	life := cmp.Or(p.life, probeLife)
	for {
		within, cancel := context.WithTimeout(ctx, life)
		err := p.probe(within, urls, life)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return err
		}
	}
}

// probe makes a link of the given life, follows it at every edge, and deletes it.
func (p *prover) probe(ctx context.Context, urls []string, life time.Duration) error {
	const target = "https://example.com/waypost-dev"
	var link client.Link
	held, refused := "", false
	err := p.eventually(ctx, "the first create", func() (err error) {
		link, err = p.api.Links.Create(ctx, client.NewLink{
			OriginalURL: target, Title: "a probe of waypost dev", ExpiresInSeconds: int64(life / time.Second),
		})
		if err == nil {
			return nil
		}
		if problem, ok := errors.AsType[*client.Problem](err); ok && problem.Status == http.StatusUnauthorized {
			refused = true
			return nil
		}
		if space, e := p.api.Ranges.List(ctx); e == nil && space.Held != nil {
			held = *space.Held
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	if refused {
		return errKeyRefused
	}
	if held != "" {
		p.log.Warn("no key is issued, and links can be created with custom codes only: see 'waypost ranges list'", "because", held)
		return nil
	}
	if err := p.everywhere(ctx, urls, link.ShortCode, http.StatusFound, target); err != nil {
		return err
	}
	if err := p.eventually(ctx, "a delete", func() error {
		_, err := p.api.Links.Remove(ctx, link.ShortCode,
			client.Write{})
		return deleted(err)
	}); err != nil {
		return err
	}
	return p.everywhere(ctx, urls, link.ShortCode, http.StatusGone, "")
}

// everywhere waits until every edge answers for the code like this.
func (p *prover) everywhere(ctx context.Context, urls []string, code string, status int, location string) error {
	for _, u := range urls {
		if err := p.eventually(ctx, u, func() error { return expect(ctx, u+"/"+code, status, location) }); err != nil {
			return err
		}
	}
	return nil
}

// ready asks the edge's admin listener, which has another address after each restart.
func ready(ctx context.Context, k *keeper) error {
	p := k.current()
	if p == nil {
		return errEnded
	}
	return expect(ctx, adminOf(p)+"/readyz", http.StatusOK, "")
}

// eventually tries until it succeeds or ctx ends, and logs the thing that it waits for.
func (p *prover) eventually(ctx context.Context, what string, try func() error) error {
	poll := time.NewTicker(25 * time.Millisecond)
	defer poll.Stop()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.say.C:
			p.log.Info("waiting until the system is ready", "for", what, "because", err)
		case <-poll.C:
		}
	}
}

// deleted takes a link that is gone already for deleted: an answer may be lost.
func deleted(err error) error {
	if p, ok := errors.AsType[*client.Problem](err); ok && p.Status == http.StatusNotFound {
		return nil
	}
	return err
}

// expect asks once and does not follow its redirect.
func expect(ctx context.Context, url string, status int, location string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, url, http.NoBody)
	if err != nil {
		return err
	}
	req.Close = true
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	if resp.StatusCode != status || resp.Header.Get("Location") != location {
		return fmt.Errorf("%s answers %d %s, not %d", url, resp.StatusCode, resp.Header.Get("Location"), status)
	}
	return nil
}
