package main

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"waypost/edge/upstream"
	"waypost/keyrange"
	"waypost/replication"
)

// freshEnough is the age of a replica up to which it counts as being at the head: the
// origin is heard of once a second.
const freshEnough = 3 * time.Second

// askUpstream makes the links that are served: those of the replica, and, if that is
// wanted, those that the control plane has just issued. It gives whoever wants to hear
// what generated codes look like; nil: nobody.
func (e *edgeNode) askUpstream() func(keyrange.Space) {
	if !e.cfg.AskUpstream {
		e.links = e.store
		return nil
	}
	const atOnce = 16
	e.asker = &replication.Asker{URL: e.cfg.ControlURL, Trust: e.store.trust, Client: &http.Client{
		Transport: e.identity.through(&http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: time.Second}).DialContext,
			MaxConnsPerHost:     atOnce,
			MaxIdleConnsPerHost: 2,
			IdleConnTimeout:     time.Minute,
		}),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	links := upstream.New(upstream.Config{
		Replica: e.store, AtOnce: atOnce,
		Source: e.asker,
		Fresh:  e.freshness.fresh,
		Logger: e.log, Metrics: e.registry,
	})
	e.links, e.upstream = links, links
	return links.KeySpace
}

// Pauses between requests for the keys of prefixes: after one that was answered, and after one that was not, such as by
// a control plane of an earlier version.
const (
	keysPause = time.Second
	keysRetry = 30 * time.Second
)

// learnPrefixKeys asks for the keys of prefixes whenever they may be of use, until ctx ends. They are as good as for ever, so
// nobody who listens may learn them: without TLS, and beyond this machine, codes are told by their prefixes alone.
func (e *edgeNode) learnPrefixKeys(ctx context.Context) {
	if e.upstream == nil || !private(e.cfg.ControlURL) {
		return
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.upstream.Wants():
		}
		pause := keysPause
		asking, cancel := context.WithTimeout(ctx, 10*time.Second)
		keys, err := e.asker.PrefixKeys(asking)
		cancel()
		if err == nil {
			e.upstream.Keys(keys)
		} else {
			pause = keysRetry
			e.log.Debug("the keys of prefixes are not known; codes are told by their prefixes", "error", err)
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// private reports whether nobody can listen to what is asked of a URL.
func private(text string) bool {
	u, err := url.Parse(text)
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(u.Hostname())
	return u.Scheme == "https" || u.Hostname() == "localhost" || err == nil && addr.Unmap().IsLoopback()
}
