package replication

import (
	"context"
	"fmt"
	"net/url"
)

// Probe describes a source.
type Probe struct {
	Head   Head // its own
	Origin Head // the origin's, as the source has heard of it
	Via    []string
	Busy   bool // a snapshot cannot begin at once
}

// Look connects to the source of cfg like a follower, and leaves again. It fails when a
// follower would not stay there either, as for heads that the pinned key has not signed.
func Look(ctx context.Context, cfg FollowConfig) (p Probe, err error) {
	f, err := NewFollower(cfg)
	if err != nil {
		return p, err
	}
	if cfg.Client == nil {
		defer f.source.http.CloseIdleConnections()
	}
	at := cfg.Sink.Position()
	d, err := f.source.connect(ctx, PathStream, url.Values{"after": {at.String()}}, at)
	if err != nil {
		return p, err
	}
	defer d.close()
	p.Head, p.Origin, p.Via, p.Busy = d.hello, d.hello, f.Status().Via, d.busy
	if at.IsZero() { // a reset comes next, and no heartbeat
		return p, nil
	}
	t, _, payload, err := d.next()
	if err == nil && t != frameHeartbeat {
		err = fmt.Errorf("%w: a %s where a heartbeat must be", errFrame, t)
	}
	if err == nil {
		p.Origin, err = d.heartbeat(payload)
	}
	return p, err
}
