// Package httpapitest returns to tests of the whole API the services of a control plane
// that the tests themselves do not look at.
package httpapitest

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/controlplane"
	"waypost/controlplane/blocks"
	"waypost/controlplane/fleet"
	"waypost/controlplane/httpapi"
	"waypost/controlplane/imports"
	"waypost/controlplane/keys"
	"waypost/controlplane/postgres"
	"waypost/replication"
)

// Services returns the services of a control plane over a database, which has no edges.
// Nothing of them runs.
func Services(t testing.TB, db *postgres.DB, minter *keys.Minter, core *controlplane.Services) httpapi.Services {
	t.Helper()
	signer, err := replication.NewSigner([32]byte{}, replication.Cluster{}, 1)
	require.NoError(t, err)
	log, edges := slog.New(slog.DiscardHandler), fleet.New(fleet.Config{Head: db, Boots: db})
	return httpapi.Services{
		Links: core.Links, Domains: core.Domains, Clicks: core.Clicks, Budgets: core.Budgets,
		Access: core.Access, Workspaces: core.Workspaces,
		Keys:   keys.NewRanges(keys.Config{Store: db, Minter: minter}),
		Blocks: blocks.New(blocks.Config{Store: db, Set: &replication.BlockSet{}, Signer: signer, Domains: core.Domains, Logger: log}),
		Fleet:  edges, Certificates: controlplane.NewCertificates(nil),
		Nodes:   fleet.NewNodes(fleet.NodesConfig{Store: db, Patience: time.Minute}),
		Orders:  fleet.NewOrders(db, edges.Knows, func() {}, log),
		Cleanup: db, Digests: controlplane.NewDigestCheck(db, log, nil),
		Imports: imports.New(imports.Config{Store: db, Links: core.Links, Link: httpapi.NewLinkOf(time.Now), Node: "test", Logger: log}),
	}
}
