package postgres_test

import (
	"context"
	"crypto/sha256"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api/clickbatch"
	"waypost/controlplane/postgres"
)

// anybody are the profiles of people and of bots of whom nothing else is known.
var anybody = []waypost.ClickProfile{{}, {Bot: true}}

// total is n clicks on a code of the default domain, made just now.
func total(code string, n uint64) waypost.LinkClicks {
	at := time.Now().UnixMilli()
	return waypost.LinkClicks{
		Domain: waypost.DefaultDomain, Code: waypost.Code(code), Last: at, Rows: []waypost.ClickRow{{At: at, Count: n}},
	}
}

func batch(seq uint64, links ...waypost.LinkClicks) *waypost.ClickBatch {
	return &waypost.ClickBatch{Node: "edge-1", Boot: waypost.BootID{1, 2, 3}, Seq: seq, Exact: true, Profiles: anybody, Links: links}
}

func ingest(t *testing.T, db *postgres.DB, b *waypost.ClickBatch) {
	t.Helper()
	body := clickbatch.Append(nil, b)
	_, err := db.IngestClicks(t.Context(), b, sha256.Sum256(body), body)
	require.NoError(t, err)
}

// fold puts parts into counters and rollups, as the control plane does all the time.
func fold(t testing.TB, db *postgres.DB) {
	t.Helper()
	require.NoError(t, db.NewRoller(nil).Fold(context.Background()))
}
