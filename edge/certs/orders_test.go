package certs_test

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"waypost/edge/certs"
)

// ownedBy says that names under one domain are the attacker's, and all others the
// victim's.
func ownedBy(name string) (certs.Owner, bool) {
	if strings.HasSuffix(name, ".attacker.example") {
		return 7, true
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
	cfg.Owner, cfg.OrdersPerHour = ownedBy, 4
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
	require.Error(t, order("c.attacker.example"), "half of the orders")
	require.EqualValues(t, 2, a.Orders.Load())
	require.NoError(t, order("one.example"), "the other half is left")
	require.NoError(t, order("a.attacker.example"), "what is there is no order")
	require.NoError(t, order("two.example"))
	require.Error(t, order("three.example"), "the hour's orders are used up")
	now.advance(time.Hour)
	require.NoError(t, order("c.attacker.example"), "and nothing is held against a name")
	require.NoError(t, order("three.example"))
	require.EqualValues(t, 6, a.Orders.Load())
}
