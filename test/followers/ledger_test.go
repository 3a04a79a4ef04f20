package followers_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane/postgres"
	"waypost/replication"
)

// ledger knows every version of every link in every history, as PostgreSQL has committed
// them.
type ledger struct {
	t         *testing.T
	histories map[waypost.Epoch]*history
	now       *history
	ordinal   uint32                     // the highest
	order     map[waypost.Epoch]int      // of the histories, from 1
	ever      map[string]map[string]bool // by code: what it was at any time, in any history
}

// history is one epoch.
type history struct {
	base, at waypost.Position
	versions map[string][]version // by code, in order; the first is that of the base
	digests  map[uint64]uint64    // by sequence
}

type version struct {
	seq  uint64
	what string
}

func newLedger(t *testing.T) *ledger {
	return &ledger{t: t, histories: map[waypost.Epoch]*history{}, order: map[waypost.Epoch]int{}, ever: map[string]map[string]bool{}}
}

// nothing stands for a code that is no link.
const nothing = "nothing"

func describe(r *waypost.Record) string {
	return fmt.Sprintf("%d %d %d %s", r.State, r.Status, r.ExpiresAt, r.Payload)
}

func (l *ledger) add(h *history, seq uint64, raw []byte) {
	var r waypost.Record
	require.NoError(l.t, replication.DecodeRecord(raw, &r))
	if r.Kind != waypost.KindLink {
		return
	}
	what := describe(&r)
	if r.State == waypost.Purged {
		what = nothing
	}
	code := string(r.Name)
	h.versions[code] = append(h.versions[code], version{seq, what})
	l.note(code, what)
}

func (l *ledger) note(code, what string) {
	if l.ever[code] == nil {
		l.ever[code] = map[string]bool{}
	}
	l.ever[code][what] = true
}

// begin opens the present history of a database, to which no one else writes.
func (l *ledger) begin(db *postgres.DB) {
	h := &history{versions: map[string][]version{}, digests: map[uint64]uint64{}}
	head, err := db.Snapshot(l.t.Context(), 0, waypost.Slots-1, func(raw []byte) error {
		l.add(h, 0, raw)
		return nil
	})
	require.NoError(l.t, err)
	h.base, h.at = head.Position, head.Position
	h.digests[head.Position.Seq] = head.Digest
	require.Nil(l.t, l.histories[head.Position.Epoch])
	require.Greater(l.t, head.Position.Epoch.Ordinal, l.ordinal)
	l.histories[head.Position.Epoch], l.now, l.ordinal = h, h, head.Position.Epoch.Ordinal
	l.order[head.Position.Epoch] = len(l.histories)
}

// catchUp takes in what was committed.
func (l *ledger) catchUp(db *postgres.DB) {
	for {
		b, err := db.Read(l.t.Context(), l.now.at, 1000)
		require.NoError(l.t, err)
		if len(b.Transactions) == 0 {
			return
		}
		for i := range b.Transactions {
			tx := &b.Transactions[i]
			for _, raw := range tx.Records {
				l.add(l.now, tx.Seq, raw)
			}
			l.now.digests[tx.Seq] = tx.Digest
		}
		l.now.at = b.Last()
	}
}

// place describes a position in words that are the same whenever the same is done.
func (l *ledger) place(p waypost.Position) string {
	if p.IsZero() {
		return "nothing"
	}
	return fmt.Sprintf("%d:%d", l.order[p.Epoch], p.Seq)
}

// between returns what a code was from one sequence to another, and the sequence at which
// it became what, if that is later.
func (h *history) between(code string, from, to uint64, what string) (within bool, later uint64) {
	current := nothing
	for _, v := range h.versions[code] {
		if v.seq <= from {
			current = v.what
			continue
		}
		if v.seq > to {
			if v.what == what && later == 0 {
				later = v.seq
			}
			continue
		}
		within = within || v.what == what
	}
	return within || current == what, later
}
