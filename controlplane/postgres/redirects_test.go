package postgres_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/replication"
)

func TestFlagsReachEdgesByTheChangelogAndBySnapshot(t *testing.T) {
	db, hand := open(t)
	before, err := db.Head(t.Context())
	require.NoError(t, err)
	want := map[string]waypost.LinkFlags{
		"none": 0, "query": waypost.ForwardQuery, "path": waypost.ForwardPath,
		"both": waypost.ForwardQuery | waypost.ForwardPath,
	}
	for code, flags := range want {
		l := link(code)
		l.Flags = flags
		insert(t, db, l)
	}
	exec(t, hand, `UPDATE link SET forward_path = true WHERE code = 'none'`)
	want["none"] = waypost.ForwardPath

	b, err := db.Read(t.Context(), before.Position, 1000)
	require.NoError(t, err)
	streamed := map[string]waypost.LinkFlags{}
	for _, tx := range b.Transactions {
		for _, raw := range tx.Records {
			var r waypost.Record
			require.NoError(t, replication.DecodeRecord(raw, &r))
			streamed[string(r.Name)] = r.Flags
		}
	}
	require.Equal(t, want, streamed)

	snapshot := map[string]waypost.LinkFlags{}
	_, err = db.Snapshot(t.Context(), 0, waypost.Slots-1, func(raw []byte) error {
		var r waypost.Record
		if err := replication.DecodeRecord(raw, &r); err != nil {
			return err
		}
		if r.Kind == waypost.KindLink {
			snapshot[string(r.Name)] = r.Flags
		} else {
			require.Zero(t, r.Flags)
		}
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, want, snapshot)
	for code, flags := range want {
		r, found, err := db.Record(t.Context(), waypost.DefaultDomain, waypost.Code(code))
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, flags, r.Flags)
	}
}

func TestTheTargetsOfADomainReachEdgesInOneRecord(t *testing.T) {
	db, hand := open(t)
	before, err := db.Head(t.Context())
	require.NoError(t, err)
	worst := "https://" + strings.Repeat("\"", waypost.MaxDomainURL-8)
	_, at, err := db.SetDomain(t.Context(), controlplane.Actor{Workspace: waypost.DefaultWorkspace}, waypost.DefaultDomain,
		api.DomainChange{RootURL: &worst, NotFoundURL: &worst, MaintenanceURL: &worst})
	require.NoError(t, err)
	require.Equal(t, before.Position.Seq+1, at.Seq)
	b, err := db.Read(t.Context(), before.Position, 10)
	require.NoError(t, err)
	require.Len(t, b.Transactions[0].Records, 1)
	var r waypost.Record
	require.NoError(t, replication.DecodeRecord(b.Transactions[0].Records[0], &r))
	require.Equal(t, waypost.KindDomain, r.Kind)
	d, err := waypost.DecodeDomain(r.Payload)
	require.NoError(t, err)
	require.Equal(t, "go.example.com", d.Host)
	require.Equal(t, worst, string(d.Root))
	require.Equal(t, worst, string(d.NotFound))
	require.Equal(t, worst, string(d.Maintenance))

	for _, bad := range []string{
		"javascript:alert(1)", "https://a.example/ x", "https://a.example/\r\nX: y",
		"https://a.example/" + strings.Repeat("x", waypost.MaxDomainURL),
	} {
		for _, column := range []string{"root_url", "not_found_url", "maintenance_url"} {
			_, err := hand.Exec(t.Context(), `UPDATE domain SET `+column+` = $1 WHERE id = 1`, bad)
			require.Error(t, err, "not even by hand")
		}
	}
}

func TestClicksOfBotsAreCountedAmongAllAndApart(t *testing.T) {
	db, hand := open(t)
	insert(t, db, link("spring"), link("summer"))
	clicks := func(code waypost.Code, people, bots uint64) waypost.LinkClicks {
		return waypost.LinkClicks{Domain: 1, Code: code, Rows: []waypost.ClickRow{{Count: people}, {Profile: 1, Count: bots}}}
	}
	batch := func(seq uint64, links ...waypost.LinkClicks) {
		b := waypost.ClickBatch{Node: "n1", Boot: waypost.BootID{1}, Seq: seq, Profiles: anybody, Links: links}
		_, err := db.IngestClicks(t.Context(), &b, [32]byte{byte(seq)}, nil)
		require.NoError(t, err)
	}
	batch(1, clicks("spring", 3, 2), clicks("summer", 1, 0))
	batch(2, clicks("spring", 0, 3))
	for code, want := range map[waypost.Code][2]int64{"spring": {8, 5}, "summer": {1, 0}} {
		l, err := db.Link(t.Context(), waypost.DefaultWorkspace, waypost.DefaultDomain, code)
		require.NoError(t, err)
		require.Equal(t, want, [2]int64{l.Clicks, l.BotClicks})
	}
	fold(t, db)
	exec(t, hand, `UPDATE link_click SET clicks = 9223372036854775806, bot_clicks = 9223372036854775806`)
	batch(3, clicks("spring", 0, 9))
	l, err := db.Link(t.Context(), waypost.DefaultWorkspace, waypost.DefaultDomain, "spring")
	require.NoError(t, err)
	require.EqualValues(t, 1<<63-1, l.Clicks)
	fold(t, db)
	require.EqualValues(t, 1<<63-1, number(t, hand, `SELECT max(clicks) FROM link_click`), "it goes no further")
	require.EqualValues(t, 1<<63-1, l.BotClicks)
}
