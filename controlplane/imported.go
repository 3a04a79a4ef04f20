package controlplane

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"waypost"
	"waypost/rules"
)

// Imported is the part of a new link that only an import sets.
type Imported struct {
	CreatedAt    time.Time // elsewhere; zero: now
	PasswordHash string    // of another program, as [rules.ParsePasswordHash] reads it; "": none
}

// ImportStep moves an import on from one row to another, in the transaction that creates
// the links of the rows between. The transaction fails with EStale unless the worker has
// the import's lease, and the import runs and is at the first row.
type ImportStep struct {
	ID       string
	Worker   string
	From, To int64
	Document []byte // of the import after the step; Respond sets it
	Stored   bool   // the store sets it after the commit
}

// CreateImported creates links of an import in a transaction of their own, with the step
// of the import in key, whose answer is kept as the outcome of the rows. If no link was
// written, because all were refused or found before, the step is not stored. An error
// means that nothing happened. Links may be checked while others are written, unless
// these make patterns.
func (s *Links) CreateImported(ctx context.Context, c *Checked, key *Idempotency) ([]Outcome, error) {
	made, _, err := s.createChecked(ctx, c, key)
	return made.Outcomes, err
}

// insertImported writes links in a transaction of their own, so that no other request is
// in a transaction with that many.
func (s *Links) insertImported(ctx context.Context, pending []*pendingLink, step *ImportStep) (waypost.Position, error) {
	ctx, cancel := context.WithTimeout(ctx, s.writer.patience)
	defer cancel()
	at := s.writer.settleLinks(ctx, pending)
	if step.Stored {
		return at, nil
	}
	for _, x := range pending {
		if x.err != nil {
			return at, x.err
		}
	}
	return at, errors.New("links of an import were not written")
}

// dedupeSum returns the hash by which an import finds the link of a row again, from the
// hash of the target. Links that lead visitors elsewhere by rules, or ask for a password,
// are others.
func dedupeSum(sum [32]byte, n *NewLink, l *waypost.Link) [32]byte {
	protected := rules.HasPassword(l.Programme)
	if n.Import == nil || len(l.Rules) == 0 && !protected {
		return sum
	}
	more := append(sum[:], l.Rules...)
	if protected { // and no fast hash of the password
		more = append(more, "password"+n.Import.PasswordHash...)
	}
	return sha256.Sum256(more)
}
