package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"waypost/edge/handover"
	"waypost/internal/config"
)

func (p *program) edgeRestartCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "restart",
		Short: "Let the edge that runs in a data directory be replaced, without losing a request",
		Long: `Let the edge that runs in a data directory start the program again, as it is on the
disk now, with the configuration as it is now, and be replaced by it: no request is
refused or lost. When the new process does not become ready, the old one goes on, and
this command says why. It is what ` + "`systemctl reload`" + ` runs.`,
		Example: `  waypost edge restart --data-dir /var/lib/waypost/edge
  waypost edge restart --config /etc/waypost/edge.yaml`,
		Args: arguments(cobra.NoArgs),
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
		pid, err := handover.Restart(c.Context(), handover.ClaimConfig{Dir: cfg.Edge.DataDir, Version: productVersion()})
		if err != nil {
			return fmt.Errorf("restart the edge in %s: %w", cfg.Edge.DataDir, err)
		}
		return p.print(fmt.Sprintf("process %d serves now", pid), map[string]int{"pid": pid})
	}
	return c
}
