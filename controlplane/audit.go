package controlplane

import (
	"context"
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"waypost"
	"waypost/api"
)

// AuditStore keeps the audit log.
type AuditStore interface {
	// Audit returns up to limit entries of a workspace, or of all when that is 0, with an
	// id below before (0: from the newest), newest first.
	Audit(ctx context.Context, ws waypost.WorkspaceID, before int64, limit int) ([]api.AuditEntry, error)

	// NoteRefusals notes requests that were refused, in the log of the actor's workspace.
	NoteRefusals(ctx context.Context, by Actor, r RefusedRequests) error
}

// RefusedRequests are requests of one workspace, or of unknown senders, that were refused
// with one status. The rest is of the last one.
type RefusedRequests struct {
	Status     int
	AtLeast    int    // requests
	Route      string // such as GET /api/v1/urls
	Credential string // the part of it that may be shown; may be empty
	Network    string // may be empty
}

// noteTime bounds the writing of an entry that no caller waits for.
const noteTime = 5 * time.Second

// NoteRefusals notes requests that were refused in the audit log of the actor's
// workspace. The operators' log has the requests of unknown senders.
func (s *Workspaces) NoteRefusals(ctx context.Context, by Actor, r RefusedRequests) error {
	if by.Workspace == 0 {
		by.Workspace = waypost.DefaultWorkspace
		if by.UserID == 0 {
			by.Name = "unknown"
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTime)
	defer cancel()
	return s.audit.NoteRefusals(ctx, by, r)
}

// Audit returns a page of the audit log of the actor's workspace or, for operators, of
// all, newest first, after the cursor of an earlier page ("" for the first). It returns
// EMalformed for a cursor of another origin.
func (s *Workspaces) Audit(ctx context.Context, actor Actor, all bool, limit int, cursor string) (p api.AuditPage, err error) {
	if !actor.Can(ScopeAdmin) {
		return p, waypost.Errorf(waypost.EForbidden, "the audit log needs the scope admin")
	}
	of := actor.Workspace
	if all {
		if err := actor.CheckOperator(); err != nil {
			return p, err
		}
		of = 0
	}
	read := func(before int64, limit int) ([]api.AuditEntry, error) {
		return s.audit.Audit(ctx, of, before, limit)
	}
	p.Entries, p.Next, err = page(limit, cursor, read, func(e *api.AuditEntry) int64 { return e.ID })
	return p, err
}

// page returns up to limit rows behind a cursor, and the cursor of the next page, "" on
// the last one. Read returns up to limit rows behind the row with an id, 0 for the first.
func page[T any](
	limit int, cursor string, read func(behind int64, limit int) ([]T, error), id func(*T) int64,
) (rows []T, next string, err error) {
	behind, err := ReadCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	if rows, err = read(behind, limit+1); err != nil || len(rows) <= limit {
		return rows, "", err
	}
	return rows[:limit], WriteCursor(id(&rows[limit-1])), nil
}

// WriteCursor returns the cursor of the page behind a row.
func WriteCursor(id int64) string {
	return base64.RawURLEncoding.EncodeToString([]byte("id:" + strconv.FormatInt(id, 10)))
}

// ReadCursor returns the row behind which a page begins, 0 for the first page.
func ReadCursor(s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	bad := waypost.Errorf(waypost.EMalformed, "the cursor is not one of ours")
	if len(s) > 64 {
		return 0, bad
	}
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return 0, bad
	}
	digits, ok := strings.CutPrefix(string(b), "id:")
	id, err := strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil || id <= 0 {
		return 0, bad
	}
	return id, nil
}
