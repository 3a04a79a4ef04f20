package gossip

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"time"
)

const (
	firstRetry   = time.Second // after a seed did not answer; doubles up to Config.Rejoin
	resolveLimit = 5 * time.Second
)

// rejoin joins through every seed that is not a live member, at the start, and
// again and again: that is how a cluster grows together after it was cut apart,
// or after all of it was down.
func (g *Gossip) rejoin(ctx context.Context) {
	// The first try may come before the others have started.
	wait, alone := min(firstRetry, g.cfg.Rejoin), 0
	for {
		joined, err := g.join(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && joined == 0 && g.table.alive() == 0:
			if alone++; alone == 2 {
				g.cfg.Logger.Warn("cannot reach any gossip seed; trying again", "error", err)
			}
		default:
			alone = 0
		}
		pause := g.cfg.Rejoin
		if err != nil {
			pause, wait = wait, min(2*wait, g.cfg.Rejoin)
		} else {
			wait = min(firstRetry, g.cfg.Rejoin)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(jitter(pause)):
		}
	}
}

// join tries every address of every seed that is not a live member's.
func (g *Gossip) join(ctx context.Context) (joined int, err error) {
	own := g.Addr()
	for _, seed := range g.cfg.Seeds {
		addresses, failed := resolve(ctx, seed)
		for _, a := range addresses {
			if g.leaving.Load() || ctx.Err() != nil {
				return joined, nil
			}
			if a == own || g.table.reaches(a) {
				continue
			}
			n, failure := g.list.Join([]string{a})
			if failure != nil {
				g.metrics.joins.WithLabelValues("failed").Inc()
				// One address has one error, which is inside of a list that prints on
				// several lines.
				if single := errors.Unwrap(failure); single != nil {
					failure = single
				}
				failed = errors.Join(failed, failure)
				continue
			}
			g.metrics.joins.WithLabelValues("joined").Inc()
			joined += n
		}
		err = errors.Join(err, failed)
	}
	return joined, err
}

// resolve returns all addresses of a seed as IP:PORT.
func resolve(ctx context.Context, seed string) ([]string, error) {
	host, portText, err := net.SplitHostPort(seed)
	if err != nil {
		return nil, fmt.Errorf("seed %s: %w", seed, err)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("seed %s: %w", seed, err)
	}
	ctx, cancel := context.WithTimeout(ctx, resolveLimit)
	defer cancel()
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, fmt.Errorf("seed %s: %w", seed, err)
	}
	addresses := make([]string, 0, len(ips))
	for _, ip := range ips {
		addresses = append(addresses, netip.AddrPortFrom(ip.Unmap(), uint16(port)).String())
	}
	return addresses, nil
}

// jitter keeps nodes that started together from asking together.
func jitter(d time.Duration) time.Duration {
	return d - d/8 + rand.N(d/4+1)
}
