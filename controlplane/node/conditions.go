package node

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/fleet"
	"waypost/internal/condition"
)

// newConditions makes the watch over the conditions of this control plane, and of the
// edges as it sees them.
func (c *control) newConditions() *condition.Watch {
	return condition.New(condition.Config{
		Node: c.cfg.Node, On: condition.Control, Metrics: c.registry,
		Says: map[string]func() []condition.Statement{
			"PostgreSQLDown":      c.whyPostgreSQLDown,
			"PostgreSQLSettings":  func() []condition.Statement { return unlessEmpty(c.db.Settings()) },
			"KGSKeysUnremembered": func() []condition.Statement { return unlessEmpty(textOf(c.db.Unremembered())) },
			"ClockDiffers":        func() []condition.Statement { return condition.Clock(c.db.ClockAhead(), false) },
			"ClockWrong":          func() []condition.Statement { return condition.Clock(c.db.ClockAhead(), true) },
			"EdgeTwins":           c.twins,
			"EdgeRevoked":         c.revoked,
			"VersionsDiffer":      c.versions,
			"SigningKeysDiffer":   c.signingKeys,
		},
	})
}

func unlessEmpty(why string) []condition.Statement {
	if why == "" {
		return nil
	}
	return []condition.Statement{{Why: why}}
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func (c *control) whyPostgreSQLDown() []condition.Statement {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	head, err := c.db.Head(ctx)
	if err == nil {
		err = c.db.Superseded(head.Position)
	}
	return unlessEmpty(textOf(err))
}

func (c *control) twins() (found []condition.Statement) {
	for _, e := range c.fleet.Edges() {
		if len(e.Twins) > 0 {
			found = append(found, condition.Statement{Of: e.Node, Why: strings.Join(e.Twins, ", ")})
		}
	}
	return found
}

// revoked names the edges that report although their credential was revoked.
func (c *control) revoked() (found []condition.Statement) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	operator := controlplane.Actor{Workspace: waypost.DefaultWorkspace, Scopes: []controlplane.Scope{controlplane.ScopeAdmin}}
	all, err := c.nodes.Credentials(ctx, operator)
	if err != nil {
		return nil // PostgreSQL is away, which is a condition
	}
	for _, e := range c.fleet.Edges() {
		i := slices.IndexFunc(all, func(n api.NodeCredential) bool { return n.Node == e.Node && n.RevokedAt != nil })
		if i >= 0 && e.State == fleet.EdgeAlive {
			found = append(found, condition.Statement{Of: e.Node, Since: *all[i].RevokedAt})
		}
	}
	return found
}

// versions names the nodes by their versions, if there are several.
func (c *control) versions() []condition.Statement {
	nodes := make(map[string][]string)
	for _, e := range c.fleet.Edges() {
		if e.State == fleet.EdgeAlive && e.Version != "" {
			nodes[e.Version] = append(nodes[e.Version], e.Node)
		}
	}
	for _, p := range c.fleet.ControlPlanes() {
		if p.State == fleet.ControlAlive {
			nodes[p.Version] = append(nodes[p.Version], p.Node)
		}
	}
	return unlessOne(nodes)
}

// signingKeys names the control planes by the generations of their signing keys, if there
// are several.
func (c *control) signingKeys() []condition.Statement {
	nodes := make(map[string][]string)
	for _, p := range c.fleet.ControlPlanes() {
		if p.State == fleet.ControlAlive {
			key := fmt.Sprintf("generation %d", p.Signing)
			nodes[key] = append(nodes[key], p.Node)
		}
	}
	return unlessOne(nodes)
}

// unlessOne names nodes by something that should be the same on all.
func unlessOne(nodes map[string][]string) []condition.Statement {
	if len(nodes) < 2 {
		return nil
	}
	var list []string
	for same, of := range nodes {
		list = append(list, fmt.Sprintf("%s (%s)", same, strings.Join(of, ", ")))
	}
	slices.Sort(list)
	return []condition.Statement{{Why: strings.Join(list, "; ")}}
}

// own returns this control plane for the fleet view.
func (c *control) own() fleet.ControlPlane {
	p := fleet.ControlPlane{Node: c.cfg.Node, Region: c.cfg.Region}
	p.Addr, p.AdminAddr, p.Version = c.ln.Addr().String(), c.adminLn.Addr().String(), c.cfg.Version
	p.Signing = c.cfg.SigningGeneration
	if c.conditions != nil {
		p.Conditions, _ = c.conditions.Conditions()
	}
	return p
}

// leave records in the database that this control plane stops in order.
func (c *control) leave() error {
	ctx, cancel := context.WithTimeout(context.Background(), c.cfg.ShutdownTimeout)
	defer cancel()
	if err := c.db.Leave(ctx, c.boot); err != nil {
		c.log.Warn("cannot record that this control plane stops in order", "error", err)
	}
	return nil
}
