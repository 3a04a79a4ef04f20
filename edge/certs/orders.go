package certs

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/time/rate"
)

// Owner identifies the owner of a name. Owners have equal shares of the orders that an
// authority may get.
type Owner uint64

// Resolver looks up the addresses of names; [net.Resolver] is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// lookupTime bounds the search for the addresses of a name.
const lookupTime = 5 * time.Second

// budget bounds the orders of all owners, and of each.
type budget struct {
	perHour int
	all     *rate.Limiter
	owners  map[Owner]*rate.Limiter // of owners with fewer than all orders left
}

func newBudget(perHour int) budget {
	return budget{perHour: perHour, all: hourly(perHour), owners: map[Owner]*rate.Limiter{}}
}

func hourly(n int) *rate.Limiter {
	return rate.NewLimiter(rate.Limit(float64(n)/time.Hour.Seconds()), n)
}

// of returns the limit of an owner, which has half of all orders.
func (b *budget) of(owner Owner, now time.Time) *rate.Limiter {
	maps.DeleteFunc(b.owners, func(_ Owner, l *rate.Limiter) bool { return l.TokensAt(now) >= float64(l.Burst()) })
	l := b.owners[owner]
	if l == nil {
		l = hourly(max(1, b.perHour/2))
		b.owners[owner] = l
	}
	return l
}

// allows reports whether one more order of an owner may be made now.
func (b *budget) allows(owner Owner, now time.Time) bool {
	return b.all.TokensAt(now) >= 1 && b.of(owner, now).TokensAt(now) >= 1
}

func (b *budget) spend(owner Owner, now time.Time) {
	b.all.AllowN(now, 1)
	b.of(owner, now).AllowN(now, 1)
}

// mayAsk decides whether the authority is asked for a name: there are orders left, and
// the name leads to this edge or to a listed address, where the authority would look for
// the proof. It counts the order.
func (c *Certificates) mayAsk(ctx context.Context, name string, o *order) error {
	c.mu.Lock()
	allowed := c.budget.allows(o.owner, c.cfg.Clock())
	c.mu.Unlock()
	if !allowed {
		return c.overBudget()
	}
	if err := c.leadsHere(ctx, name); err != nil {
		c.metrics.refused.WithLabelValues("elsewhere").Inc()
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.cfg.Clock(); c.budget.allows(o.owner, now) {
		c.budget.spend(o.owner, now)
		return nil
	}
	return c.overBudget()
}

func (c *Certificates) overBudget() error {
	c.metrics.refused.WithLabelValues("budget").Inc()
	c.warned.Do(func() {
		c.cfg.Logger.Warn("refused to order a certificate: too many were ordered in the last hour", "orders_per_hour", c.cfg.OrdersPerHour)
	})
	return errBudget
}

// leadsHere sees that a name has an address at which visitors reach this edge.
func (c *Certificates) leadsHere(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	found, err := c.cfg.Resolver.LookupNetIP(ctx, "ip", name+".")
	if err != nil {
		return fmt.Errorf("look up where the name leads: %w", err)
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return fmt.Errorf("find this machine's addresses: %w", err)
	}
	for _, address := range found {
		address = address.Unmap()
		if slices.Contains(c.cfg.Addresses, address) || slices.ContainsFunc(own, func(a net.Addr) bool {
			n, ok := a.(*net.IPNet)
			return ok && n.IP.Equal(address.AsSlice())
		}) {
			return nil
		}
	}
	return &elsewhereError{found}
}

// elsewhereError says that a name leads to no address of this edge.
type elsewhereError struct{ to []netip.Addr }

func (e *elsewhereError) Error() string {
	return fmt.Sprintf("the name leads to %v, and none of these is an address of the edge or in tls.addresses", e.to[:min(len(e.to), maxNamed)])
}

// maxNamed bounds the addresses in an error.
const maxNamed = 4
