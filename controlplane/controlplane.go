// Package controlplane holds the rules of the control plane: how a link is
// created, found and deleted, how a region leases the counters that codes are
// minted from, and who may do what.
//
// It declares the small interfaces that it needs; PostgreSQL is in
// controlplane/postgres, the HTTP API in controlplane/httpapi, the rules for
// targets in controlplane/target.
package controlplane

import (
	"encoding/json"
	"fmt"
	"time"

	"waypost"
)

// Actor is who asks, as a credential on the connection says.
type Actor struct {
	Workspace waypost.WorkspaceID
	KeyID     int64  // 0: the development system without a key
	Name      string // of the key, for the audit log
	Scopes    []Scope
}

// Scope is something that an API key allows.
type Scope string

// The scopes of API keys.
const (
	ScopeLinksRead  Scope = "links:read"
	ScopeLinksWrite Scope = "links:write"
	ScopeAnalytics  Scope = "analytics:read"
	ScopeAdmin      Scope = "admin"
)

// Can reports whether the actor's key allows s.
func (a Actor) Can(s Scope) bool {
	for _, have := range a.Scopes {
		if have == s || have == ScopeAdmin {
			return true
		}
	}
	return false
}

// Label names the actor in the audit log.
func (a Actor) Label() string {
	switch {
	case a.KeyID == 0:
		return "development system"
	case a.Name == "":
		return fmt.Sprintf("key %d", a.KeyID)
	}
	return fmt.Sprintf("%s (key %d)", a.Name, a.KeyID)
}

// CheckOperator says EForbidden to whoever may not look after the installation
// itself: that is for keys of the default workspace with the scope admin.
func (a Actor) CheckOperator() error {
	if a.Workspace != waypost.DefaultWorkspace || !a.Can(ScopeAdmin) {
		return waypost.Errorf(waypost.EForbidden, "this needs a key of the default workspace with the scope admin")
	}
	return nil
}

// NewLink is a wish for a link. Zero fields mean the default.
type NewLink struct {
	OriginalURL    string // required; judged by the target rules
	CustomCode     string
	ExpiresAt      time.Time
	RedirectStatus int // 301, 302, 307, 308; 0 means 302
	Title          string
	Description    string
	Tags           []string
	Metadata       json.RawMessage // a JSON object
	CreatedBy      string
}

// Outcome is what became of one wish: a link, or the reason why not.
type Outcome struct {
	Link waypost.Link
	Err  error
}

// Page is one page of a list, newest first.
type Page struct {
	Links []waypost.Link
	Next  string // opaque cursor of the next page, "" at the end
}

// Health is what /health tells.
type Health struct {
	Database    bool
	KeyPoolSize int64 // unissued counters of the region's live ranges
}
