package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/api"
	"waypost/client"
)

const edgesAnswer = `{"edges": [{"node": "edge-a", "region": "eu-west-1", "role": "edge", "state": "alive", "since": "2031-05-06T06:00:00Z",
	"left": false, "may_serve": true, "twins": [],
	"last_seen": "2031-05-06T06:08:09Z", "via": "report", "position": {"epoch": 1, "seq": 40}, "age_seconds": 0.5,
	"lag_changes": 0, "lag_seconds": 0,
	"started_at": null, "clicks_pending": 7, "clicks_until": null, "replica": "following",
		"held": "", "held_why": "", "draining": false,
		"requests_per_second": 1234.56, "disk_used_bytes": 1, "disk_free_bytes": 5368709120,
		"places_built_at": null, "verified": null, "version": "1.2.3", "addr": "10.0.0.2:8081",
		"admin_addr": "",
			"credential": "own", "has_blocks": true,
			"conditions": [{"name": "ReplicaDiskLow", "severity": "critical", "of": "", "since": "2031-05-06T06:08:09Z",
				"what": "", "do": "", "page": ""}]}],
	"control_planes": [{"node": "control-1", "region": "eu-west-1", "version": "1.2.3", "addr": "", "admin_addr": "", "state": "silent",
		"answers": false, "started_at": "2031-05-06T06:00:00Z", "last_seen": "2031-05-06T06:08:09Z", "conditions": [{"name": "ControlPlaneDown",
		"severity": "critical", "of": "", "since": "2031-05-06T06:08:09Z", "what": "cannot be reached", "do": "Start it.", "page": "p"}]}]}`

// edges runs `waypost edges` against an API that answers with answer.
func edges(t *testing.T, output string, answer http.HandlerFunc, args ...string) (string, error) {
	t.Helper()
	server := httptest.NewServer(answer)
	defer server.Close()
	var out bytes.Buffer
	p := &program{
		stdout: &out, stderr: io.Discard, output: output,
		environ: []string{"WAYPOST_API=" + server.URL, "WAYPOST_API_KEY=wp_live_key"},
	}
	c := edgesCommands{p}.command()
	c.SilenceErrors, c.SilenceUsage = true, true
	c.SetArgs(append([]string{}, args...))
	err := c.ExecuteContext(t.Context())
	return out.String(), err
}

func TestEdgesAreListed(t *testing.T) {
	asked := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/admin/edges" && r.Header.Get("Authorization") == "Bearer wp_live_key" {
			_, _ = io.WriteString(w, edgesAnswer)
		}
	}
	text, err := edges(t, "text", asked)
	require.NoError(t, err)
	require.Contains(t, text, "NODE")
	require.Regexp(t, `edge-a +eu-west-1 +LOW DISK +40 +0 +1234\.6 +7 +5120 MiB +now +never +own +1\.2\.3`, text)
	require.Regexp(t, `control-1 +eu-west-1 +silent +now +now +1\.2\.3 +ControlPlaneDown`, text)
	text, err = edges(t, "json", asked)
	require.NoError(t, err)
	require.JSONEq(t, edgesAnswer, text)
	text, err = edges(t, "json", asked, "list")
	require.NoError(t, err)
	require.JSONEq(t, edgesAnswer, text)
	age, changes := 46.0, uint64(2)
	require.Equal(t, "unknown, age 46 s", lagText(&client.Edge{AgeSeconds: &age}))
	require.Equal(t, "2 changes, 46 s", lagText(&client.Edge{AgeSeconds: &age, LagChanges: &changes, LagSeconds: &age}))
}

func TestEdgesThatMayNotBeListedAreAnError(t *testing.T) {
	_, err := edges(t, "text", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"detail": "this needs the scope admin"}`)
	})
	require.ErrorContains(t, err, "this needs the scope admin")
}

func TestEdgesAreLaidOutForPeople(t *testing.T) {
	now := time.Date(2031, 5, 6, 7, 0, 0, 0, time.UTC)
	one, many, seconds, pending, revoked := uint64(1), uint64(1234), 754.2, int64(12), "revoked"
	lowDisk := []api.NodeCondition{{Name: "ReplicaDiskLow"}}
	got := edgeTable([]client.Edge{
		{
			EdgeState: api.EdgeState{Node: "a", Region: "r1", Version: "1"}, State: "alive", Via: "gossip",
			Position: &api.Sequence{Epoch: 1, Seq: 9}, LagChanges: &one, LagSeconds: &seconds, LastSeen: now.Add(-1500 * time.Millisecond),
		},
		{
			EdgeState: api.EdgeState{
				Node: "b", Region: "r1", Version: "1", RequestsPerSecond: new(0.0), DiskFreeBytes: new(int64(100 << 30)),
			}, State: "silent", Via: "report",
			Position: &api.Sequence{Epoch: 3, Seq: 9}, LagChanges: &many, LagSeconds: &seconds,
			LastSeen: now.Add(-90 * time.Minute), ClicksPending: &pending, Credential: &revoked,
		},
		{
			EdgeState: api.EdgeState{Node: "c\x1b[2J", Region: "r2", Version: "1"}, State: "gone", Via: "report",
			LastSeen: now.Add(-50 * time.Hour),
		},
		{EdgeState: api.EdgeState{
			Node: "d", Region: "r2", Replica: "held", Held: "mass-delete", Conditions: lowDisk,
			Version: "1",
		}, State: "alive", Via: "report", LastSeen: now.Add(time.Minute), Verified: &api.Verified{
			At:     now,
			Damage: "a record is cut",
		}},
		{
			EdgeState: api.EdgeState{Node: "e", Region: "r2", Replica: "repairing", Version: "1"}, State: "alive",
			Via: "report", LastSeen: now, Verified: &api.Verified{At: now},
		},
		{
			EdgeState: api.EdgeState{Node: "f", Region: "r2", Replica: "following", Version: "1"}, State: "alive",
			Via: "report", LastSeen: now, Verified: &api.Verified{At: now.Add(-time.Minute)},
		},
		{EdgeState: api.EdgeState{Node: "g", Region: "r2", Replica: "following", Version: "1"}, State: "alive", Via: "report", LastSeen: now, Verified: &api.Verified{At: now, Error: "cut"}},
		{
			EdgeState: api.EdgeState{Node: "h", Region: "r2", Replica: "degraded", Conditions: lowDisk, Version: "1"},
			State:     "alive", Via: "report", LastSeen: now,
		},
	}, now, 0)
	require.Equal(t, strings.Join([]string{
		"NODE   REGION  STATE              POSITION     LAG                   REQ/S    PENDING  DISK FREE  LAST SEEN   VERIFIED        CREDENTIAL  VERSION",
		"a      r1      alive (gossip)     9            1 change, 12 min      unknown  unknown  unknown    1.5 s ago   never           unknown     1",
		"b      r1      silent             9 (epoch 3)  1234 changes, 12 min  0.0      12       100 GiB    90 min ago  never           revoked     1",
		"c\uFFFD[2J  r2      gone               none         unknown               unknown  unknown  unknown    2 d ago     never           unknown     1",
		"d      r2      HELD: mass-delete  none         unknown               unknown  unknown  unknown    now         DAMAGED now     unknown     1",
		"e      r2      alive, repairing   none         unknown               unknown  unknown  unknown    now         sound now       unknown     1",
		"f      r2      alive              none         unknown               unknown  unknown  unknown    now         sound 60 s ago  unknown     1",
		"g      r2      alive              none         unknown               unknown  unknown  unknown    now         failed now      unknown     1",
		"h      r2      LOW DISK           none         unknown               unknown  unknown  unknown    now         never           unknown     1",
	}, "\n"), got)
	require.Equal(t, "no edge has reported to this control plane yet", edgeTable(nil, now, 0))
}

func TestEdgeTable_CutsLongReasons(t *testing.T) {
	var e client.Edge
	e.Node, e.State, e.Replica, e.HeldWhy = "eu-1", "alive", "waiting", strings.Repeat("dial tcp: ", 30)
	for line := range strings.Lines(edgeTable([]client.Edge{e}, time.Now(), 0)) {
		require.Less(t, len(line), 230, line)
	}
}
