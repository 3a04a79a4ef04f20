package system_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"waypost"
	"waypost/api"
	"waypost/client"
	"waypost/edge/gossip"
	"waypost/test/devtest"
)

// fleetOf returns the edges as the API shows them, by node.
func fleetOf(t *testing.T, server *client.Client) map[string]client.Edge {
	t.Helper()
	var edges []client.Edge
	persist(t, func() (err error) {
		edges, err = server.Edges.List(t.Context())
		return err
	})
	return byNode(edges)
}

func byNode(edges []client.Edge) map[string]client.Edge {
	fleet := make(map[string]client.Edge)
	for _, e := range edges {
		fleet[e.Node] = e
	}
	return fleet
}

// inStep reports whether a fleet is both edges of a system, alive, at the position
// that they state themselves, and not behind.
func inStep(t *testing.T, state devtest.State, fleet map[string]client.Edge) bool {
	t.Helper()
	for _, ref := range state.Edges {
		at, err := waypost.ParsePosition(position(t, ref.AdminURL))
		e := fleet[ref.Node]
		if err != nil || e.Region != ref.Region || e.State != "alive" || e.Via != "report" || e.Position == nil ||
			*e.Position != (api.Sequence{Epoch: at.Epoch.Ordinal, Seq: at.Seq}) ||
			e.LagChanges == nil || *e.LagChanges != 0 || e.LagSeconds == nil || *e.LagSeconds != 0 {
			return false
		}
	}
	return len(fleet) == len(state.Edges)
}

func TestFleet_ShowsTheLoadOfAnEdge(t *testing.T) {
	state := oneEdge.For(t).State()
	server, err := client.New(state.API, state.APIKey)
	require.NoError(t, err)
	defer server.Close()
	edge := state.Edges[0]
	eventually(t, time.Minute, "its requests are shown", func() bool {
		require.Equal(t, http.StatusNotFound, status(t, edge.URL+"/no-such-code"))
		e := fleetOf(t, server)[edge.Node]
		return e.RequestsPerSecond != nil && *e.RequestsPerSecond > 0
	})
	e := fleetOf(t, server)[edge.Node]
	require.NotNil(t, e.DiskUsedBytes)
	require.NotNil(t, e.DiskFreeBytes)
	require.Positive(t, *e.DiskUsedBytes)
	require.Positive(t, *e.DiskFreeBytes)
}

func TestFleet_ShowsEachEdgeAndAKillWithinSeconds(t *testing.T) {
	s := devtest.Start(t, devtest.Config{Env: []string{"FAILPOINT=a process is down for@10m"}})
	state := s.State()
	server, err := client.New(state.API, state.APIKey)
	require.NoError(t, err)
	defer server.Close()
	began := time.Now()
	eventually(t, time.Minute, "in step by the API", func() bool { return inStep(t, state, fleetOf(t, server)) })
	eventually(t, time.Minute, "in step by the command", func() bool {
		r := devtest.Run(t, []string{"WAYPOST_DATA_DIR=" + s.DataDir()}, "edges", "--output", "json")
		require.Zero(t, r.Code, r.Stderr)
		var answer struct{ Edges []client.Edge }
		require.NoError(t, json.Unmarshal([]byte(r.Stdout), &answer))
		return inStep(t, state, byNode(answer.Edges))
	})

	victim, other := state.Edges[1], state.Edges[0]
	eventually(t, time.Minute, "heard of once more", func() bool { return fleetOf(t, server)[victim.Node].LastSeen.After(began) })
	devtest.KillProcess(t, int(victim.PID))
	var dead client.Edge
	eventually(t, time.Minute, "seen to be dead", func() bool {
		dead = fleetOf(t, server)[victim.Node]
		return dead.State != "alive"
	})
	require.Equal(t, "silent", dead.State)
	require.WithinRange(t, dead.LastSeen, began, time.Now().Add(-3*time.Second), "it reported until it was killed")
	require.Equal(t, dead.LastSeen, dead.Since)
	for i := range 3 {
		_, err := server.Links.Create(t.Context(), client.NewLink{OriginalURL: fmt.Sprintf("https://example.com/%d", i)})
		require.NoError(t, err)
	}
	eventually(t, time.Minute, "behind", func() bool {
		fleet := fleetOf(t, server)
		dead, alive := fleet[victim.Node], fleet[other.Node]
		return dead.LagChanges != nil && *dead.LagChanges >= 3 && dead.LagSeconds != nil && *dead.LagSeconds > 0 &&
			alive.State == "alive" && alive.LagChanges != nil && *alive.LagChanges == 0
	})

	// While the control plane is down, too, it is null in dev.json.
	devtest.KillProcess(t, int(s.State().Control.PID))
	down := s.Await("without a control plane", func(st devtest.State) bool { return st.Control.PID == 0 })
	text, err := os.ReadFile(filepath.Join(s.DataDir(), "dev.json"))
	require.NoError(t, err)
	require.Contains(t, string(text), `"pid": null`)
	eventually(t, time.Minute, "served on by the edge", func() bool { return status(t, down.Edges[0].AdminURL+"/readyz") == http.StatusOK })
	s.Stop()
}

// shownMember is a member of GET /members.
type shownMember struct {
	Node, Role, State string
	Position          *api.Sequence
	Self              bool
}

// membersOf returns what an edge knows by gossip, on its admin listener, by node.
func membersOf(t *testing.T, edge string) map[string]shownMember {
	t.Helper()
	res, err := visitor.Get(edge + "/members")
	require.NoError(t, err)
	var answer struct{ Members []shownMember }
	require.NoError(t, errors.Join(json.NewDecoder(res.Body).Decode(&answer), res.Body.Close()))
	require.Equal(t, http.StatusOK, res.StatusCode)
	members := make(map[string]shownMember)
	for _, m := range answer.Members {
		members[m.Node] = m
	}
	return members
}

// setting returns a variable of a process of the system.
func setting(t *testing.T, pid int, name string) string {
	t.Helper()
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	require.NoError(t, err)
	for entry := range strings.SplitSeq(string(environ), "\x00") {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	t.Fatalf("process %d has no %s", pid, name)
	return ""
}

func TestGossip_ShowsTheFleetToEdgesWithoutAStream(t *testing.T) {
	t.Parallel()
	s := devtest.Start(t, devtest.Config{})
	state := s.State()
	secret, err := os.ReadFile(filepath.Join(s.DataDir(), "secrets", "gossip-key"))
	require.NoError(t, err)
	keys, err := gossip.ParseKeys(string(secret))
	require.NoError(t, err)

	// Streams and reports hang from here on, and the control plane gossips no more.
	require.NoError(t, unix.Kill(int(state.Control.PID), unix.SIGSTOP))
	defer func() { _ = unix.Kill(int(state.Control.PID), unix.SIGCONT) }()

	// A third node has no stream at all, and knows one edge only.
	var seq atomic.Uint64
	seq.Store(1000)
	third, err := gossip.Start(gossip.Config{
		Bind: "127.0.0.1:0", Seeds: []string{setting(t, int(state.Edges[0].PID), "WAYPOST_GOSSIP_ADDR")}, Keys: keys,
		Node: "third", Region: "ap-south-1", Role: gossip.RoleEdge,
		Position: func() waypost.Position {
			return waypost.Position{Epoch: waypost.Epoch{Ordinal: 1, ID: waypost.EpochID{1}}, Seq: seq.Load()}
		},
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, third.Close()) }()
	for _, at := range []uint64{1000, 1001, 5000} {
		seq.Store(at)
		for _, e := range state.Edges {
			eventually(t, time.Minute, fmt.Sprintf("at %d by the gossip of %s", at, e.Region), func() bool {
				m := membersOf(t, e.AdminURL)["third"]
				return m.State == "alive" && m.Position != nil && *m.Position == api.Sequence{Epoch: 1, Seq: at}
			})
		}
	}
	// The edges know one another, and that the control plane does not answer.
	for i, e := range state.Edges {
		eventually(t, time.Minute, "right about the fleet on "+e.Region, func() bool {
			members, other := membersOf(t, e.AdminURL), state.Edges[1-i]
			at, err := waypost.ParsePosition(position(t, other.AdminURL))
			m := members[other.Node]
			controls := 0
			for _, m := range members {
				if m.Role == "control" && m.State == "dead" {
					controls++
				}
			}
			return err == nil && members[e.Node].Self && m.State == "alive" && m.Position != nil &&
				*m.Position == api.Sequence{Epoch: at.Epoch.Ordinal, Seq: at.Seq} && controls == 1
		})
	}

	require.NoError(t, third.Close()) // without a farewell
	for _, e := range state.Edges {
		eventually(t, time.Minute, "dead by the gossip of "+e.Region, func() bool { return membersOf(t, e.AdminURL)["third"].State == "dead" })
	}
	require.NoError(t, unix.Kill(int(state.Control.PID), unix.SIGCONT))
	for _, e := range state.Edges {
		eventually(t, 2*time.Minute, "with its control plane again on "+e.Region, func() bool {
			for _, m := range membersOf(t, e.AdminURL) {
				if m.Role == "control" && m.State == "alive" {
					return true
				}
			}
			return false
		})
	}
	s.Stop()
}
