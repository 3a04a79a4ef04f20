package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/node"
	"waypost/controlplane/postgres"
	"waypost/edge/gossip"
	"waypost/internal/config"
)

// serverCommands makes the commands that run servers or use the database.
type serverCommands struct{ *program }

func (p serverCommands) controlCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "control",
		Short: "Run a control plane",
		Long: `Run a control plane: the API, and the stream of changes that edges follow. It needs
a PostgreSQL database that ` + "`waypost migrate`" + ` has prepared, and never migrates the
database itself.`,
		Example: `  waypost control --config /etc/waypost/control.yaml
  waypost control --config /etc/waypost/control.yaml --check-config
  WAYPOST_CONTROL_DATABASE_URL=postgres://waypost@db/waypost waypost control --region us-east-1 \
    --base-url https://go.example.com --cluster-secret-file cluster.key --edge-token-file edge.token`,
	}
	p.bind(c, "control", "gossip", "cleanup", "log")
	check := func(cfg config.Config) error {
		return errors.Join(cfg.Log.Check(), cfg.Control.Check(), cfg.Gossip.Check(), cfg.Cleanup.Check())
	}
	look := func(cfg config.Config) error {
		settings, err := controlSettings(cfg)
		if err != nil {
			return err
		}
		for setting, addr := range map[string]string{"control.addr": cfg.Control.Addr, "control.fleet_listen": cfg.Control.FleetListen} {
			if cfg.Control.TLSCertFile == "" && addr != "" && leavesMachine(addr) {
				p.warnOfClear(setting, addr)
			}
		}
		return node.Check(settings)
	}
	return p.node(c, check, look, func(ctx context.Context, cfg config.Config) error {
		log, err := p.logger(cfg.Log)
		if err != nil {
			return err
		}
		settings, err := controlSettings(cfg)
		if err != nil {
			return err
		}
		ctx, stop := p.ignoreHangups(ctx, log)
		defer stop()
		return withRemedy(node.Run(ctx, settings, log))
	})
}

// controlSettings returns the settings of a control plane that runs.
func controlSettings(all config.Config) (node.Config, error) {
	cfg := all.Control
	c := node.Config{
		Version: productVersion(), Region: waypost.Region(cfg.Region), Node: cfg.Node, DataDir: cfg.DataDir,
		Addr: cfg.Addr, FleetAddr: cfg.FleetListen, AdminAddr: cfg.AdminAddr, BaseURL: cfg.BaseURL, Contact: cfg.Contact,
		TLS: node.TLS{CertFile: cfg.TLSCertFile, KeyFile: cfg.TLSKeyFile, ClientCAFile: cfg.ClientCAFile}, CodeLength: cfg.CodeLength,
		SigningGeneration: uint32(cfg.SigningGeneration), EdgeToken: cfg.EdgeToken.Reveal(), Replica: cfg.Replica,
		AllowPrivateTargets: cfg.AllowPrivateTargets, OwnHosts: cfg.OwnHosts, DNSResolvers: cfg.DNSResolvers, CORSOrigins: cfg.CORSOrigins,
		StrictHosts: cfg.StrictHosts, FreeSharedCodes: cfg.SharedCodes == "free", Anonymous: cfg.AnonymousWorkspace,
		RateLimit: cfg.RateLimit,
		Cleanup:   all.Cleanup.Enabled, Reaper: controlplane.ReaperConfig{
			Interval: all.Cleanup.Interval,
			Buffer:   all.Cleanup.Buffer, PurgeAfter: all.Cleanup.PurgeAfter,
		},
		Database: postgres.Config{URL: cfg.DatabaseURL.Reveal(), EventMonths: cfg.EventsKeepMonths, ExportEvents: cfg.EventsExportDir},
	}
	for _, r := range cfg.Regions {
		c.Regions = append(c.Regions, waypost.Region(r))
	}
	if n, err := hex.Decode(c.ClusterSecret[:], []byte(cfg.ClusterSecret.Reveal())); err != nil || n != len(c.ClusterSecret) {
		return c, &usageError{errors.New("control.cluster_secret: not 32 bytes in hex")}
	}
	var err error
	if c.TrustedProxies, err = config.ParseNetworks(cfg.TrustedProxies); err != nil {
		return c, fmt.Errorf("control.trusted_proxies: %w", err)
	}
	c.Gossip, err = gossipSettings(all.Gossip)
	return c, err
}

// gossipSettings returns the settings of a node's gossip.
func gossipSettings(cfg config.Gossip) (gossip.Config, error) {
	if cfg.Addr == "" {
		return gossip.Config{}, nil
	}
	keys, err := gossip.ParseKeys(cfg.Key.Reveal())
	if err != nil {
		return gossip.Config{}, fmt.Errorf("gossip.key: %w", err)
	}
	return gossip.Config{Bind: cfg.Addr, Advertise: cfg.Advertise, Seeds: cfg.Seeds, Keys: keys}, nil
}
