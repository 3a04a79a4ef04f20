package gossip

import (
	"encoding/json"
	"net/http"
	"time"

	"waypost"
)

// ServeHTTP shows the members as JSON, for operators: it belongs on the admin
// listener as GET /members.
func (g *Gossip) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	members := g.Members()
	answer := struct {
		Members []shownMember `json:"members"`
	}{make([]shownMember, len(members))}
	for i := range members {
		answer.Members[i] = show(&members[i])
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		g.cfg.Logger.Debug("cannot answer with the members", "error", err)
	}
}

type shownMember struct {
	Node      string         `json:"node"`
	Region    waypost.Region `json:"region"`
	Role      Role           `json:"role"`
	State     State          `json:"state"`
	Since     time.Time      `json:"since"`
	LastHeard time.Time      `json:"last_heard"`
	Position  *shownPosition `json:"position"` // null without a replica
	Addr      string         `json:"addr"`
	Version   string         `json:"version"`
	Self      bool           `json:"self"`
}

type shownPosition struct {
	Epoch uint32 `json:"epoch"`
	Seq   uint64 `json:"seq"`
}

func show(m *Member) shownMember {
	s := shownMember{
		Node: m.Node, Region: m.Region, Role: m.Role, State: m.State, Since: m.Since.UTC(), LastHeard: m.LastHeard.UTC(),
		Addr: m.Addr, Version: m.Version, Self: m.Self,
	}
	if !m.Position.IsZero() {
		s.Position = &shownPosition{m.Position.Epoch.Ordinal, m.Position.Seq}
	}
	return s
}
