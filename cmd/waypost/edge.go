package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"waypost"
	"waypost/edge/certs"
	"waypost/edge/node"
	"waypost/edge/server"
	"waypost/internal/config"
	"waypost/internal/resolver"
	"waypost/internal/restart"
	"waypost/rules/agents"
)

func (p serverCommands) edgeCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "edge",
		Short: "Run an edge",
		Long: `Run an edge: it keeps a full replica of the links and answers redirects from it,
also after a restart while the control plane is out of reach.`,
		Example: `  waypost edge --config /etc/waypost/edge.yaml
  waypost edge --config /etc/waypost/edge.yaml --check-config
  waypost edge restart --config /etc/waypost/edge.yaml
  waypost edge --config /etc/waypost/relay.yaml --relay-addr 10.0.0.2:8090
  waypost edge --region eu-west-1 --control-urls https://control.example.com \
    --data-dir /var/lib/waypost/edge --token-file /run/secrets/edge-token
  WAYPOST_ENROL_TOKEN=wp_enrl_… waypost edge --region eu-west-1 --node eu-1 \
    --control-urls https://control.example.com --data-dir /var/lib/waypost/edge`,
	}
	p.bind(c, "edge", "tls", "gossip", "log")
	c.AddCommand(p.edgeRestartCommand())
	check := func(cfg config.Config) error {
		return errors.Join(cfg.Log.Check(), cfg.Edge.Check(), cfg.TLS.Check(), cfg.Gossip.Check())
	}
	look := func(cfg config.Config) error {
		settings, err := edgeSettings(cfg)
		if err != nil {
			return err
		}
		for _, base := range cfg.Edge.ControlURLs {
			if inClear(base) {
				p.warnOfClear("edge.control_urls", base)
			}
		}
		if addr := cfg.Edge.RelayAddr; addr != "" && cfg.Edge.NodeCertFile == "" && leavesMachine(addr) {
			p.warnOfClear("edge.relay_addr", addr)
		}
		err = node.Check(settings)
		if errors.Is(err, node.ErrNoCredential) { // a variable of the unit may have a token
			_, err = fmt.Fprintf(p.stderr, "waypost: warning: %v\n", err)
		}
		return err
	}
	return p.node(c, check, look, func(ctx context.Context, cfg config.Config) error {
		ctx, hangups, stop := p.hangups(ctx)
		defer stop()
		sockets, err := restart.Inherit()
		if err != nil {
			return err
		}
		log, err := p.logger(cfg.Log)
		if err != nil {
			return err
		}
		settings, err := edgeSettings(cfg)
		if err != nil {
			return err
		}
		settings.Sockets, settings.Restarts = sockets, hangups
		err = node.Run(ctx, settings, log)
		if wrong, ok := errors.AsType[*node.ConfigError](err); ok {
			return &usageError{wrong}
		}
		return err
	})
}

// edgeSettings returns the settings of an edge that runs.
func edgeSettings(all config.Config) (node.Config, error) {
	cfg, tls := all.Edge, all.TLS
	c := node.Config{
		Version: productVersion(), Region: waypost.Region(cfg.Region), Node: cfg.Node, DataDir: cfg.DataDir,
		GeoIP: cfg.GeoIP, DrainDelay: cfg.DrainDelay,
		Control: node.Control{
			URLs: cfg.ControlURLs, Token: cfg.Token.Reveal(), EnrolToken: cfg.EnrolToken.Reveal(),
		},
		TLS: node.TLS{CertFile: cfg.NodeCertFile, KeyFile: cfg.NodeKeyFile, CAFile: cfg.NodeCAFile}, RelayToken: cfg.RelayToken.Reveal(),
		Listen: node.Listen{Addr: cfg.Addr, Admin: cfg.AdminAddr, TLS: tls.Addr, Relay: cfg.RelayAddr},
		Server: server.Config{
			StrictHosts: cfg.StrictHosts, ProxyProtocol: cfg.ProxyProtocol, MaxStaleness: cfg.MaxStaleness, Contact: cfg.Contact,
		},
		Certificates: certs.Config{
			CertFile: tls.CertFile, KeyFile: tls.KeyFile,
			Directory: tls.ACMEDirectory, CAFile: tls.CAFile, Storage: tls.Storage,
			OrdersPerHour: tls.OrdersPerHour, Resolver: resolver.New(tls.DNSResolvers),
		},
	}
	var err error
	wrong := func(setting string, cause error) {
		if cause != nil {
			err = errors.Join(err, fmt.Errorf("edge.%s: %w", setting, cause))
		}
	}
	var cause error
	c.Certificates.Addresses, cause = tls.PublicAddresses()
	wrong("tls", cause)
	c.ClickJournal, cause = config.ParseClickJournal(cfg.ClickJournal)
	wrong("click_journal", cause)
	c.Server.TrustedProxies, cause = config.ParseNetworks(cfg.TrustedProxies)
	wrong("trusted_proxies", cause)
	c.Server.Agents, cause = agents.New(cfg.Bots)
	wrong("bots", cause)
	c.Gossip, cause = gossipSettings(all.Gossip)
	return c, errors.Join(err, cause)
}

func (p serverCommands) edgeRestartCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "restart",
		Short: "Restart the edge that runs in a data directory without losing a request",
		Long: `Let the edge that runs in a data directory start the program again, as it is on the
disk now, with the configuration as it is now. No request is refused or lost: new
connections wait for the new program. If the program on the disk refuses the
configuration, the credentials or the data, nothing stops, and this command says why.
` + "`systemctl reload`" + ` and SIGHUP do the same.`,
		Example: `  waypost edge restart --data-dir /var/lib/waypost/edge
  waypost edge restart --config /etc/waypost/edge.yaml`,
	}
	p.bind(c, "edge.data_dir")
	c.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := p.settings(func(cfg config.Config) error {
			if cfg.Edge.DataDir == "" {
				return fmt.Errorf("edge.data_dir is missing: give --data-dir, the directory of the edge's replica")
			}
			return nil
		})
		if err != nil {
			return err
		}
		pid, err := node.Restart(c.Context(), cfg.Edge.DataDir)
		if err != nil {
			return fmt.Errorf("restart the edge in %s: %w", cfg.Edge.DataDir, err)
		}
		return p.print(fmt.Sprintf("process %d serves again", pid), map[string]int{"pid": pid})
	}
	return c
}
