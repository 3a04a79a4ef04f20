package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"waypost"
	"waypost/api"
	"waypost/edge/certs"
	"waypost/edge/server"
	"waypost/internal/listener"
	"waypost/internal/restart"
	"waypost/internal/services"
)

// listeners are all listeners of an edge.
type listeners struct {
	all   []namedListener
	plain []net.Listener // of the redirects, at least one
	admin net.Listener
	tls   []net.Listener
	relay net.Listener        // for edges that follow this one; nil: none do
	certs *certs.Certificates // nil: no TLS
}

// namedListener is a listener with the name of its socket (LISTEN_FDNAMES).
type namedListener struct {
	name string
	net.Listener
}

// Names of sockets.
const (
	redirectSocket = "redirects"
	tlsSocket      = "tls"
	adminSocket    = "admin"
	relaySocket    = "relay"
)

// openListeners opens all listeners, or finds them among the sockets of the process.
// After an error none stays open.
func openListeners(ctx context.Context, cfg *Listen, sockets *restart.Sockets) (*listeners, error) {
	l := &listeners{}
	var errs error
	one := func(name, addr, flag string) net.Listener {
		if errs != nil {
			return nil
		}
		ln, err := sockets.Open(ctx, name, addr, flag)
		if err != nil {
			errs = err
			return nil
		}
		l.all = append(l.all, namedListener{name, ln})
		return ln
	}
	for _, addr := range cfg.Addr {
		l.plain = append(l.plain, one(redirectSocket, addr, "--addr"))
	}
	l.admin = one(adminSocket, cfg.Admin, "--admin-addr")
	for _, addr := range cfg.TLS {
		l.tls = append(l.tls, one(tlsSocket, addr, "--tls-addr"))
	}
	if cfg.Relay != "" {
		l.relay = one(relaySocket, cfg.Relay, "--relay-addr")
	}
	if errs != nil {
		return nil, errors.Join(errs, l.close())
	}
	return l, nil
}

// openCertificates comes after the replica, which knows the domains.
func (l *listeners) openCertificates(
	cfg *Config, owner func(name string) (waypost.WorkspaceID, bool), log *slog.Logger, meters prometheus.Registerer,
) error {
	if len(l.tls) == 0 {
		return nil
	}
	c := cfg.Certificates
	c.Storage = cmp.Or(c.Storage, filepath.Join(cfg.DataDir, "tls"))
	c.Listen, c.Logger, c.Metrics = l.tls[0].Addr(), log, meters
	c.Owner = func(name string) (certs.Owner, bool) {
		ws, known := owner(name)
		return certs.Owner(ws), known
	}
	var err error
	if l.certs, err = certs.New(c); err != nil {
		return fmt.Errorf("tls: %w", err)
	}
	return nil
}

// services returns the services that answer redirects, once await has returned true. The
// first one stops all of them.
func (l *listeners) services(srv *server.Server, await func(context.Context) bool, stop func(context.Context) error) services.Stage {
	var list services.Stage
	add := func(name string, serve func() error) {
		list = append(list, services.Service{Name: name, Run: func(ctx context.Context) error {
			if !await(ctx) {
				return nil
			}
			return serve()
		}})
	}
	for _, ln := range l.plain {
		add("redirects", func() error { return srv.Serve(ln) })
	}
	for _, ln := range l.tls {
		add("redirects over TLS", func() error { return srv.ServeTLS(ln, l.certs.TLS()) })
	}
	list[0].Stop = stop
	return list
}

// hosts returns the certificates for the control plane, and without TLS an empty list.
func (l *listeners) hosts(most int) ([]api.HostCertificate, bool) {
	shown := []api.HostCertificate{}
	if l.certs == nil {
		return shown, true
	}
	all, complete := l.certs.Hosts(most)
	for _, h := range all {
		c := api.HostCertificate{Host: h.Name, State: string(h.State), Error: h.Error}
		if !h.Until.IsZero() {
			until := h.Until.UTC()
			c.Until = &until
		}
		shown = append(shown, c)
	}
	return shown, complete
}

// closeCertificates ends the waiting for certificates, which would hold up a stop.
// Certificates that are there stay in use.
func (l *listeners) closeCertificates() error {
	if l.certs == nil {
		return nil
	}
	return l.certs.Close()
}

// relayAddr returns the address at which others may follow this edge, "" if this edge is
// no relay.
func (l *listeners) relayAddr() string {
	if l.relay == nil {
		return ""
	}
	return l.relay.Addr().String()
}

// close closes all listeners, whether they were served or not.
func (l *listeners) close() error {
	var errs []error
	for _, ln := range slices.Backward(l.all) {
		errs = append(errs, listener.Close(ln))
	}
	return errors.Join(append(errs, l.closeCertificates())...)
}

func addressesOf(list []net.Listener) []string {
	var texts []string
	for _, ln := range list {
		texts = append(texts, ln.Addr().String())
	}
	return texts
}
