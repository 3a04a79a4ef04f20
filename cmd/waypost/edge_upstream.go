package main

import (
	"net"
	"net/http"
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
	links := upstream.New(upstream.Config{
		Replica: e.store, AtOnce: atOnce,
		Source: &replication.Asker{URL: e.cfg.ControlURL, Client: &http.Client{
			Transport: e.identity.through(&http.Transport{
				Proxy:               http.ProxyFromEnvironment,
				DialContext:         (&net.Dialer{Timeout: time.Second}).DialContext,
				MaxConnsPerHost:     atOnce,
				MaxIdleConnsPerHost: 2,
				IdleConnTimeout:     time.Minute,
			}),
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}},
		Fresh:  e.freshness.fresh,
		Logger: e.log, Metrics: e.registry,
	})
	e.links, e.upstream = links, links
	return links.KeySpace
}
