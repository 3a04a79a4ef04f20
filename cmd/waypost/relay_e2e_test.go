package main_test

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/cmd/waypost/devtest"
	"waypost/cmd/waypost/internal/client"
	"waypost/cmd/waypost/internal/node"
	"waypost/replication/replicationtest"
)

// followerEdge is an edge beside a development system, as a process of its own.
type followerEdge struct {
	t      *testing.T
	status node.Status
}

// edgeState is what the tests want to know of /readyz.
type edgeState struct {
	Position   string    `json:"position"`
	Connected  bool      `json:"connected"`
	Source     string    `json:"source"`
	Via        []string  `json:"via"`
	AgeSeconds float64   `json:"age_seconds"`
	OriginTime time.Time `json:"origin_time"`
	Digest     string    `json:"digest"`
}

func startFollower(t *testing.T, s *devtest.System, name, control string, extra ...string) *followerEdge {
	t.Helper()
	dir := t.TempDir()
	status := filepath.Join(dir, "status")
	p := devtest.Spawn(t, append([]string{
		"WAYPOST_EDGE_ADDR=127.0.0.1:0", "WAYPOST_EDGE_ADMIN_ADDR=127.0.0.1:0", "WAYPOST_EDGE_REGION=us-east-1",
		"WAYPOST_EDGE_NODE=" + name, "WAYPOST_EDGE_CONTROL_URL=" + control, "WAYPOST_EDGE_ASK_UPSTREAM=false",
		"WAYPOST_EDGE_TOKEN_FILE=" + filepath.Join(s.DataDir(), "secrets", "edge-token"),
		"WAYPOST_EDGE_DATA_DIR=" + filepath.Join(dir, "edge"), "WAYPOST_EDGE_STATUS_FILE=" + status,
	}, extra...), "edge")
	return &followerEdge{t, devtest.AwaitStatus(t, status, func(s node.Status) bool { return s.PID == p.PID() })}
}

func (e *followerEdge) state() (s edgeState) {
	e.t.Helper()
	req, err := http.NewRequestWithContext(e.t.Context(), http.MethodGet, "http://"+e.status.AdminAddr+"/readyz", http.NoBody)
	require.NoError(e.t, err)
	res, err := visitor.Do(req)
	require.NoError(e.t, err)
	require.NoError(e.t, json.NewDecoder(res.Body).Decode(&s))
	require.NoError(e.t, res.Body.Close())
	return s
}

func (e *followerEdge) awaitLink(code string) {
	e.t.Helper()
	eventually(e.t, 60*time.Second, "redirected by "+e.status.Node, func() bool {
		return visit{method: http.MethodGet}.to(e.t, "http://"+e.status.Addr, code) == http.StatusFound
	})
}

func TestEdgesFollowARelayAndAPeerWhileTheControlPlaneIsAway(t *testing.T) {
	t.Parallel()
	system := devtest.Start(t, devtest.Config{Edges: "us-east-1=127.0.0.1:0"})
	state := system.State()
	api, err := client.New(state.API, state.APIKey)
	require.NoError(t, err)
	t.Cleanup(api.Close)
	control := func() string { return strings.TrimPrefix(state.API, "http://") }
	create := func() string {
		t.Helper()
		l, err := api.Create(t.Context(), client.NewLink{OriginalURL: "https://example.com/"})
		require.NoError(t, err)
		return l.ShortCode
	}

	relayWire, edgeWire := replicationtest.NewWire(t, control), replicationtest.NewWire(t, control)
	relay := startFollower(t, system, "relay-1", relayWire.URL(), "WAYPOST_EDGE_RELAY=true", "WAYPOST_EDGE_PEER_ADDR=127.0.0.1:0")
	peers := "http://" + relay.status.Peer
	below := startFollower(t, system, "below-1", peers)
	beside := startFollower(t, system, "beside-1", edgeWire.URL(), "WAYPOST_EDGE_PEERS="+peers, "WAYPOST_EDGE_PEER_AFTER=1s")
	all := []*followerEdge{relay, below, beside}

	code := create()
	for _, e := range all {
		e.awaitLink(code)
	}
	require.Equal(t, []string{"relay-1"}, below.state().Via)
	require.Empty(t, beside.state().Via)
	eventually(t, 60*time.Second, "shown in the fleet view", func() bool {
		edges, err := api.Edges(t.Context())
		require.NoError(t, err)
		roles := map[string]string{}
		for i := range edges {
			roles[edges[i].Node] = edges[i].Role
		}
		return roles["relay-1"] == "relay" && roles["below-1"] == "edge" && roles["beside-1"] == "edge"
	})
	eventually(t, 60*time.Second, "counted, also below the relay", func() bool {
		l, err := api.Get(t.Context(), code)
		require.NoError(t, err)
		return l.ClickCount == 3
	})

	// Cut off, an edge follows the relay, and says so.
	edgeWire.Cut()
	eventually(t, 60*time.Second, "followed in its place", func() bool { s := beside.state(); return s.Connected && s.Source == peers })
	code = create()
	beside.awaitLink(code)
	s := beside.state()
	require.Equal(t, []string{"relay-1"}, s.Via)
	eventually(t, 60*time.Second, "young", func() bool { return beside.state().AgeSeconds < 5 })

	// With the relay cut off as well, nobody looks young.
	relayWire.Cut()
	eventually(t, 60*time.Second, "older", func() bool {
		return relay.state().AgeSeconds > 3 && below.state().AgeSeconds > 3 && beside.state().AgeSeconds > 3
	})
	first := below.state().OriginTime
	require.Equal(t, first, below.state().OriginTime)

	relayWire.Mend()
	edgeWire.Mend()
	eventually(t, 60*time.Second, "followed again", func() bool { s := beside.state(); return s.Connected && s.Source == edgeWire.URL() })
	code = create()
	for _, e := range all {
		e.awaitLink(code)
	}
	eventually(t, 60*time.Second, "young again", func() bool { return below.state().OriginTime.After(first) })
}
