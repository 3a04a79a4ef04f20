//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waypost"
	"waypost/bench/corpus"
	"waypost/edge/replica"
	"waypost/edge/upstream"
	"waypost/keyrange"
	"waypost/replication"
)

// askUpstream is the replica with the control plane behind it, as an edge has it by default: cmd/waypost/edge_upstream.go.
func askUpstream(db *replica.DB, c *control, meters prometheus.Registerer) (*upstream.Links, error) {
	space, err := keyrange.NewSpace(corpus.CodeLength, corpus.PrefixLength)
	if err != nil {
		return nil, fmt.Errorf("the shape of codes: %w", err)
	}
	start := time.Now()
	links := upstream.New(upstream.Config{
		Replica: db, Source: c, Metrics: meters,
		Fresh: func() bool { return time.Since(start) >= 0 }, // always, and it looks at the clock as an edge does
	})
	links.KeySpace(space)
	coder, keys := keyrange.NewCoder(space, [32]byte{}), make(map[int]keyrange.Key)
	for _, prefix := range corpus.Issued() {
		keys[prefix] = coder.Key(prefix)
	}
	c.keys, c.links = keyrange.NewDecoder(space, keys), links
	links.Keys(c.keys)
	return links, nil
}

// control answers in the control plane's place: it has no link that the replica does not have. It counts what it
// is asked.
type control struct {
	replica *replica.DB
	links   *upstream.Links
	keys    *keyrange.Decoder // of the prefixes that have ranges
	asked   atomic.Int64
}

// answersAfter is what a control plane in the same region takes.
const answersAfter = 2 * time.Millisecond

// Ask implements [upstream.Source].
func (c *control) Ask(ctx context.Context, _ waypost.DomainID, _ []byte) ([]byte, replication.Head, error) {
	c.asked.Add(1)
	timer := time.NewTimer(answersAfter)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return nil, replication.Head{}, ctx.Err()
	}
	cluster, _ := c.replica.Cluster()
	return nil, replication.Head{Cluster: cluster, Position: c.replica.Position()}, nil
}

// questions tells how many it was asked.
func (c *control) questions(context.Context, []string) (string, error) {
	return strconv.FormatInt(c.asked.Load(), 10), nil
}

// keep has the edge know the keys of prefixes, or none of them.
func (c *control) keep(_ context.Context, args []string) (string, error) {
	switch fmt.Sprint(args) {
	case "[all]":
		c.links.Keys(c.keys)
	case "[none]":
		c.links.Keys(nil)
	default:
		return "", errors.New("keys all|none")
	}
	return "done", nil
}
