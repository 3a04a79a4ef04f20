package certs

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"time"
)

// Owner identifies whose a name is: owners have equal shares of what an authority may be
// asked for.
type Owner uint64

// Resolver looks up the addresses of names; [net.Resolver] is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// lookupTime bounds the search for the addresses of a name.
const lookupTime = 5 * time.Second

// budget remembers the orders of the last hour.
type budget struct {
	limit int                 // orders in an hour
	spent []expense           // oldest first
	asked map[Owner]time.Time // when an owner's latest order began, whether or not it was spent
}

type expense struct {
	at    time.Time
	owner Owner
}

// newcomer reports whether an owner began no order in the last hour.
func (b *budget) newcomer(owner Owner, now time.Time) bool {
	maps.DeleteFunc(b.asked, func(_ Owner, at time.Time) bool { return now.Sub(at) >= time.Hour })
	_, asked := b.asked[owner]
	return !asked
}

// allows reports whether one more order may be made now. An owner has half of the hour's
// orders, and the last sixth is for newcomers, so that a few owners do not take them all.
func (b *budget) allows(owner Owner, newcomer bool, now time.Time) bool {
	b.spent = slices.DeleteFunc(b.spent, func(e expense) bool { return now.Sub(e.at) >= time.Hour })
	own := 0
	for _, e := range b.spent {
		if e.owner == owner {
			own++
		}
	}
	limit := b.limit
	if !newcomer {
		limit -= b.limit / 6
	}
	return len(b.spent) < limit && own < max(1, b.limit/2)
}

func (b *budget) spend(owner Owner, now time.Time) { b.spent = append(b.spent, expense{now, owner}) }

// mayAsk decides whether the authority is asked for a name: there are orders left, and
// the name leads to this edge or to a listed address, where the authority would look for
// the proof. It counts the order.
func (c *Certificates) mayAsk(ctx context.Context, name string, o *order) error {
	c.mu.Lock()
	allowed := c.budget.allows(o.owner, o.newcomer, c.cfg.Clock())
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
	if now := c.cfg.Clock(); c.budget.allows(o.owner, o.newcomer, now) {
		c.budget.spend(o.owner, now)
		return nil
	}
	return c.overBudget()
}

func (c *Certificates) overBudget() error {
	c.metrics.refused.WithLabelValues("budget").Inc()
	c.warned.Do(func() {
		c.cfg.Logger.Warn("certificates are not ordered: too many were in the last hour", "orders_per_hour", c.cfg.OrdersPerHour)
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
