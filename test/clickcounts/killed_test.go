// Package clickcounts_test proves on real control planes and a real PostgreSQL that no
// click is lost or counted twice while control planes are killed.
package clickcounts_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api/clickbatch"
	"waypost/internal/pgserver/pgservertest"
	"waypost/migrations"
	"waypost/test/devtest"
)

var databases = &pgservertest.Cluster{Prepare: migrations.Up}

func TestMain(m *testing.M) { os.Exit(databases.Main(m)) }

// places at which a control plane is killed, in the order in which it reaches them.
var places = []string{
	"ingest clicks: begun", "ingest clicks: committed", "fold clicks: begun", "fold clicks: links", "fold clicks: committed",
}

const (
	links = 20
	pause = 20 * time.Millisecond // between two batches: folds come once in a while
)

// edge sends batches as an edge does: one after the other, again and again.
type edge struct {
	seq     uint64 // of the newest batch that was acknowledged
	packer  *zstd.Encoder
	cluster string
}

func (e *edge) batch() []byte {
	now := time.Now().UnixMilli()
	b := &waypost.ClickBatch{
		Node: "edge-1", Boot: waypost.BootID{1}, Seq: e.seq + 1, Exact: true,
		Profiles: []waypost.ClickProfile{
			{Country: "DE", Device: "mobile"}, {Country: "DE", Device: "mobile", Rule: 1, Variant: 2}, {Device: "bot", Bot: true},
		},
	}
	for i := range links {
		b.Links = append(b.Links, waypost.LinkClicks{
			Domain: waypost.DefaultDomain, Code: waypost.Code(fmt.Sprintf("link-%02d", i)), Last: now,
			Rows:     []waypost.ClickRow{{At: now, Profile: uint32(i % 2), Count: uint64(i) + 1}, {At: now, Profile: 2, Count: 1}},
			Visitors: []waypost.Visitor{{Day: int32(now / 86_400_000), Hash: (e.seq + 1) << 24}},
		})
	}
	return e.packer.EncodeAll(clickbatch.Append(nil, b), nil)
}

const (
	clicksOfBatch   = links*(links+1)/2 + links
	clicksOfVariant = links / 2 * (links/2 + 1)
)

// send sends a batch until it is acknowledged or the control plane is gone.
func (e *edge) send(ctx context.Context, t *testing.T, c *devtest.Control, body []byte) (settled bool) {
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.API+clickbatch.Path, bytes.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/vnd.waypost.clicks")
		req.Header.Set("Content-Encoding", "zstd")
		req.Header.Set("Waypost-Cluster", e.cluster)
		req.Header.Set("Waypost-Position", waypost.Position{}.String())
		req.Header.Set("Authorization", "Bearer "+strings.Repeat("e", 32))
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, ctx.Err(), "it takes too long")
		if err == nil {
			text, readErr := io.ReadAll(res.Body)
			require.NoError(t, res.Body.Close())
			if res.StatusCode == http.StatusOK && readErr == nil {
				var answer struct{ Watermark uint64 }
				require.NoError(t, json.Unmarshal(text, &answer))
				require.Equal(t, e.seq+1, answer.Watermark)
				return true
			}
		}
		select {
		case <-c.Exited():
			return false
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// TestNoClickIsLostOrCountedTwiceWhereverAControlPlaneIsKilled finds this defect: the
// watermark of a batch commits before its clicks do, so a control plane that is killed
// in between loses them.
func TestNoClickIsLostOrCountedTwiceWhereverAControlPlaneIsKilled(t *testing.T) {
	database, base := databases.Database(t), t.TempDir()
	hand, err := pgx.Connect(t.Context(), database)
	require.NoError(t, err)
	defer func() { require.NoError(t, hand.Close(context.WithoutCancel(t.Context()))) }()
	_, err = hand.Exec(t.Context(), `SET ROLE waypost_operator`)
	require.NoError(t, err)
	_, err = hand.Exec(t.Context(), `UPDATE workspace SET settings = '{"events": "all"}'`)
	require.NoError(t, err)
	packer, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	require.NoError(t, err)
	e := &edge{packer: packer}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()

	life := func(name, env string, live func(*devtest.Control)) *devtest.Control {
		c, err := devtest.StartControl(t, devtest.ControlConfig{
			Database: database, DataDir: filepath.Join(base, "control"), Region: "eu-west-1", Node: name, Env: []string{env, "FAILPOINT=a stop takes at most@20s"},
		})
		require.NoError(t, err)
		ready, err := c.Ready()
		require.NoError(t, err)
		if ready {
			live(c)
		}
		return c
	}
	c := life("first", "FAILPOINT=", func(c *devtest.Control) {
		_, err := hand.Exec(t.Context(), `
			INSERT INTO link (workspace_id, domain_id, code, original_url)
			SELECT 1, 1, 'link-' || lpad(n::text, 2, '0'), 'https://example.com/' FROM generate_series(0, $1) n`, links-1)
		require.NoError(t, err)
	})
	require.NoError(t, c.Stop())
	require.NoError(t, hand.QueryRow(t.Context(), `SELECT replace(id::text, '-', '') FROM cluster`).Scan(&e.cluster))

	for i, place := range places {
		for _, passes := range []int{0, 2} {
			body := e.batch()
			c := life(fmt.Sprintf("life-%d-%d", i, passes), fmt.Sprintf("FAILPOINT=%s=%d", place, passes), func(c *devtest.Control) {
				for e.send(ctx, t, c, body) {
					e.seq++
					body = e.batch()
					<-time.After(pause)
				}
			})
			require.True(t, c.Killed(), "%s: it was not killed:\n%s", place, c.Output())
			require.NotContains(t, c.Output(), "DATA RACE")
			// No one has heard whether the batch that was under way was counted, so it is sent
			// again.
			judge(t, hand, -1)
		}
	}

	c = life("last", "FAILPOINT=", func(c *devtest.Control) {
		require.True(t, e.send(ctx, t, c, e.batch()))
		e.seq++
		require.Eventually(t, func() bool { return number(t, hand, `SELECT count(*) FROM click_part`) == 0 }, time.Minute, 20*time.Millisecond)
	})
	require.NoError(t, c.Stop())
	require.Greater(t, e.seq, uint64(len(places)))
	judge(t, hand, int64(e.seq))
}

// judge compares all places in which clicks are counted with the watermark, and that with
// the batches that were sent, unless their number is not known.
func judge(t *testing.T, hand *pgx.Conn, batches int64) {
	t.Helper()
	// What a process had sent before it was killed may still be committed.
	_, err := hand.Exec(t.Context(), `BEGIN ISOLATION LEVEL REPEATABLE READ`)
	require.NoError(t, err)
	defer func() {
		_, err := hand.Exec(t.Context(), `COMMIT`)
		require.NoError(t, err)
	}()
	seq := number(t, hand, `SELECT coalesce(max(seq), 0) FROM click_watermark`)
	if batches >= 0 {
		require.Equal(t, batches, seq)
	}
	parts := number(t, hand, `SELECT coalesce(sum(clicks), 0)::bigint FROM click_part`)
	for what, sql := range map[string]string{
		"counters": `SELECT coalesce(sum(clicks), 0)::bigint FROM link_click`,
		"days":     `SELECT coalesce(sum(clicks), 0)::bigint FROM click_day`,
	} {
		require.Equal(t, seq*clicksOfBatch, parts+number(t, hand, sql), what)
	}
	require.Equal(t, seq*clicksOfBatch, number(t, hand, `SELECT coalesce(sum(clicks), 0)::bigint FROM
		(SELECT clicks FROM click_workspace_day UNION ALL SELECT clicks FROM click_workspace_part) d`), "workspaces")
	require.Equal(t, seq*clicksOfBatch, number(t, hand, `SELECT coalesce(sum(clicks), 0)::bigint FROM click_event`), "events")
	require.Equal(t, seq*clicksOfVariant, number(t, hand, `SELECT coalesce(sum(clicks), 0)::bigint FROM click_event
		WHERE rule = 1 AND variant = 2`), "events of a variant")
}

func number(t *testing.T, hand *pgx.Conn, sql string) (n int64) {
	t.Helper()
	require.NoError(t, hand.QueryRow(t.Context(), sql).Scan(&n), sql)
	return n
}
