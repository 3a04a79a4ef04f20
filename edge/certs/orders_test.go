package certs_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"waypost/edge/certs"
)

// ownedBy says that names under some domains are those of attackers, and all others the
// victim's.
func ownedBy(name string) (certs.Owner, bool) {
	_, domain, _ := strings.Cut(name, ".")
	switch domain {
	case "attacker.example":
		return 7, true
	case "accomplice.example":
		return 8, true
	case "newcomer.example":
		return 9, true
	}
	return 1, true
}

func TestCertificates_FloodOfNamesThatLeadElsewhereOrdersNothing(t *testing.T) {
	ln := listen(t)
	a, cfg := ask(t, ln)
	registry := prometheus.NewPedanticRegistry()
	cfg.Metrics, cfg.Owner = registry, ownedBy
	roots := a.Roots()
	for i := range 400 {
		a.Names.SetAddresses(fmt.Sprintf("n%d.attacker.example", i), netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1"))
	}
	serve(t, ln, cfg)
	var flood sync.WaitGroup
	for worker := range 8 {
		flood.Go(func() {
			for i := worker; i < 400; i += 8 {
				if _, err := visit(t, ln, fmt.Sprintf("n%d.attacker.example", i), roots); err == nil {
					t.Errorf("n%d has a certificate", i)
				}
			}
		})
	}
	_, err := visit(t, ln, known, roots)
	require.NoError(t, err, "the victim's name has its certificate during the flood")
	flood.Wait()
	require.EqualValues(t, 1, a.Orders.Load(), "none of the flood")
	require.Positive(t, total(t, registry, "waypost_tls_orders_refused_total"))
}

func TestCertificates_ListedAddressIsAsGoodAsTheMachinesOwn(t *testing.T) {
	ln := listen(t)
	a, cfg := ask(t, ln)
	cfg.Owner = ownedBy
	cfg.Addresses = []netip.Addr{netip.MustParseAddr("2001:db8::7")}
	serve(t, ln, cfg)
	// Its proof is looked for at the address of the name, which leads nowhere here.
	a.Names.SetAddresses("listed.example", netip.MustParseAddr("2001:db8::7"))
	a.Names.SetAddresses("nowhere.example")
	_, err := visit(t, ln, "nowhere.example", a.Roots())
	require.Error(t, err)
	require.Zero(t, a.Orders.Load())
	_, err = visit(t, ln, "listed.example", a.Roots())
	require.Error(t, err)
	require.Positive(t, a.Orders.Load(), "it was asked for")
}

func TestCertificates_OwnerHasAShareOfTheOrders(t *testing.T) {
	ln := listen(t)
	a, cfg := ask(t, ln)
	cfg.Owner, cfg.OrdersPerHour = ownedBy, 6
	now := &clock{at: time.Now()}
	cfg.Clock = now.read
	roots := a.Roots()
	serve(t, ln, cfg)
	order := func(name string) error {
		_, err := visit(t, ln, name, roots)
		return err
	}
	require.NoError(t, order("a.attacker.example"))
	require.NoError(t, order("b.attacker.example"))
	require.NoError(t, order("c.attacker.example"))
	require.Error(t, order("d.attacker.example"), "half of the orders")
	require.EqualValues(t, 3, a.Orders.Load())
	require.NoError(t, order("a.accomplice.example"), "the other half is left")
	require.NoError(t, order("a.attacker.example"), "what is there is no order")
	require.NoError(t, order("b.accomplice.example"))
	require.NoError(t, order("one.example"))
	require.Error(t, order("two.example"), "the hour's orders are used up")
	now.advance(time.Hour)
	require.NoError(t, order("d.attacker.example"), "and nothing is held against a name")
	require.NoError(t, order("c.accomplice.example"))
	require.EqualValues(t, 8, a.Orders.Load())
}

// stuck is a resolver that never answers for attackers' names.
type stuck struct {
	certs.Resolver

	until <-chan struct{}
}

func (s stuck) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	if owner, _ := ownedBy(strings.TrimSuffix(host, ".")); owner != 1 {
		<-s.until
	}
	return s.Resolver.LookupNetIP(ctx, network, host)
}

func TestCertificates_OwnersWhoseNamesHangHoldUpNoOther(t *testing.T) {
	first, ln := listen(t), listen(t)
	a, cfg := ask(t, first) // where the proof of either edge is found
	cfg.Owner = ownedBy
	serve(t, first, cfg)
	_, err := visit(t, first, known, a.Roots())
	require.NoError(t, err)

	registry := prometheus.NewPedanticRegistry()
	now := &clock{at: time.Now()}
	cfg.Metrics, cfg.Clock, cfg.Listen, cfg.Resolver = registry, now.read, ln.Addr(), stuck{cfg.Resolver, t.Context().Done()}
	c := serve(t, ln, cfg)
	order := func(name string) error {
		_, err := visit(t, ln, name, a.Roots())
		return err
	}
	var visitors sync.WaitGroup
	t.Cleanup(visitors.Wait)
	hang := func(name string) { visitors.Go(func() { _ = order(name) }) }
	waiting := func(n int) {
		t.Helper()
		require.Eventually(t, func() bool {
			hosts, _ := c.Hosts(256)
			return len(slices.DeleteFunc(hosts, func(h certs.Host) bool { return h.State != certs.Waiting })) == n
		}, time.Minute, time.Millisecond)
	}

	for range 65 {
		hang("a.attacker.example")
	}
	require.Eventually(t, func() bool { return total(t, registry, "waypost_tls_busy_total") == 1 }, time.Minute, time.Millisecond,
		"64 visitors wait for a certificate")
	hang("b.attacker.example")
	waiting(2)
	require.Error(t, order("c.attacker.example"), "half of the places")
	hang("a.accomplice.example")
	waiting(3)
	hang("b.accomplice.example")
	waiting(4)
	hang("a.newcomer.example")
	waiting(5)
	require.NoError(t, order("one.example"))
	require.NoError(t, order("two.example"))
	require.NoError(t, order(known), "what is on disk needs no place")
	require.EqualValues(t, 2, total(t, registry, "waypost_tls_busy_total"))
}
