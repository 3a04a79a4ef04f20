package controlplane

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"waypost"
	"waypost/api"
)

// Change is an entry of the history of a link.
type Change struct {
	Revision waypost.Revision // that the change gave to the link; zero for the creation
	At       time.Time
	What     string        // created, changed, deleted, restored or expired
	By       api.Changer   // zero: unknown
	Fields   []FieldChange // by name
}

// FieldChange is the change of one field, with its values in JSON.
type FieldChange struct {
	Name          string
	Before, After json.RawMessage
}

// MaxChanges bounds a page of a history, and the changes that are kept of a link.
const MaxChanges = 200

// History returns a page of the changes of a link, newest first, and the cursor of the
// next page, "" at the end. The creation is the last entry. A deleted link has a history
// until it is purged. History returns ENotFound when there is no such link, EMalformed
// for a bad cursor.
func (s *Links) History(ctx context.Context, actor Actor, domain, code string, limit int, cursor string) ([]Change, string, error) {
	if limit < 1 || limit > MaxChanges {
		return nil, "", waypost.Errorf(waypost.EInvalid, "limit must be 1 to %d", MaxChanges)
	}
	before := waypost.Revision{Epoch: math.MaxInt32, Seq: math.MaxInt64}
	if cursor != "" {
		var err error
		if before, err = parseChange(cursor); err != nil {
			return nil, "", err
		}
	}
	d, key, err := s.domains.locate(ctx, actor, domain, code)
	if err != nil {
		return nil, "", err
	}
	// The creation and an expiry stand in no row of their own.
	l, changes, err := s.store.History(ctx, actor.Workspace, d.ID, key, before, limit+1)
	if err != nil {
		return nil, "", err
	}
	if cursor == "" && lapsed(&l, changes) {
		changes = slices.Insert(changes, 0, Change{
			Revision: l.Revision, At: l.DeletedAt, What: "expired", By: api.Changer{Kind: "system", Name: "waypost"},
		})
	}
	if len(changes) <= limit {
		created := Change{At: l.CreatedAt, What: "created"}
		if l.CreatedBy != "" {
			created.By = api.Changer{Kind: "stated", Name: l.CreatedBy}
		}
		changes = append(changes, created)
	}
	if len(changes) <= limit {
		return changes, "", nil
	}
	changes = changes[:limit]
	return changes, changes[limit-1].ID(), nil
}

// lapsed reports whether the reaper has made a link a tombstone. The reaper does so only
// to expired links, and leaves no entry. All other deletions leave an entry.
func lapsed(l *waypost.Link, changes []Change) bool {
	return !l.DeletedAt.IsZero() && !l.ExpiresAt.IsZero() && !l.ExpiresAt.After(l.DeletedAt) &&
		(len(changes) == 0 || changes[0].Revision != l.Revision)
}

// ID names an entry of a history, and is the cursor of the entries before it.
func (c Change) ID() string { return fmt.Sprintf("%d-%d", c.Revision.Epoch, c.Revision.Seq) }

func parseChange(cursor string) (r waypost.Revision, err error) {
	if _, err := fmt.Sscanf(strings.TrimSpace(cursor), "%d-%d", &r.Epoch, &r.Seq); err != nil || (Change{Revision: r}).ID() != cursor ||
		r.Epoch > math.MaxInt32 || r.Seq > math.MaxInt64 {
		return r, waypost.Errorf(waypost.EMalformed, "the cursor is not one of ours")
	}
	return r, nil
}
