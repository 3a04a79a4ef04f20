package node

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waypost"
	"waypost/edge/budgets"
	"waypost/rules"
)

// spender spends clicks of budgets. Without a store, and while clicks cannot be
// journaled, it spends nothing.
type spender struct {
	config budgets.Config // without its directory
	clicks *recorder
	log    *slog.Logger

	store *budgets.Store // nil: it could not be opened
}

func newSpender(cfg *Config, boot waypost.BootID, clicks *recorder, log *slog.Logger, meters prometheus.Registerer) *spender {
	return &spender{
		config: budgets.Config{Boot: boot, URL: cfg.Control.URLs[0], Logger: log, Metrics: meters},
		clicks: clicks, log: log,
	}
}

// bindStore connects the spender with the replica, which knows the epoch, and the control
// plane. It comes before open.
func (b *spender) bindStore(store *store, through func(*http.Transport) http.RoundTripper) {
	b.config.Epoch = func() uint32 { return store.Position().Epoch.Ordinal }
	b.config.Client = &http.Client{Transport: through(&http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: 2 * time.Second, IdleConnTimeout: 90 * time.Second, MaxIdleConnsPerHost: 16,
		DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext,
	})}
}

// open opens the store before the first redirect.
func (b *spender) open(dir, node string) {
	b.config.Dir, b.config.Node = dir, node
	var err error
	if b.store, err = budgets.Open(b.config); err != nil {
		b.log.Error("cannot open the grants of click budgets; links with exact budgets are not redirected", "error", err)
	}
}

// run asks for clicks until ctx ends, and then returns the remaining clicks to the
// control plane.
func (b *spender) run(ctx context.Context) {
	if b.store != nil {
		b.store.Run(ctx)
	}
	<-ctx.Done()
}

// expect asks for clicks of a link with an exact budget that arrives in the replica.
func (b *spender) expect(r *waypost.Record) {
	if rules.IsExact(r.Programme) && r.State == waypost.Live && b.store != nil {
		b.store.Expect(r.Domain, r.Name)
	}
}

// ready returns the store, nil while a click could not be journaled.
func (b *spender) ready() *budgets.Store {
	if j := b.clicks.journal.Load(); j == nil || !j.Takes() {
		return nil
	}
	return b.store
}

// Spend implements [server.Budgets].
func (b *spender) Spend(domain waypost.DomainID, code []byte) bool {
	s := b.ready()
	return s != nil && s.Spend(domain, code)
}

// SpendOrAsk implements [server.Budgets].
func (b *spender) SpendOrAsk(ctx context.Context, domain waypost.DomainID, code []byte) (spent, exhausted bool) {
	s := b.ready()
	if s == nil {
		return false, false
	}
	return s.SpendOrAsk(ctx, domain, code)
}
