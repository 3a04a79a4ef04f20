package controlplane

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"strconv"
	"strings"
	"time"

	"waypost"
)

// ViewStore keeps the saved views of workspaces.
type ViewStore interface {
	// Views returns the views of a workspace, by name.
	Views(ctx context.Context, ws waypost.WorkspaceID) ([]View, error)

	// AddView adds a view and sets its id and time. The view is public with the hash of a
	// secret. It returns EConflict when the name is taken, or the workspace has most views.
	AddView(ctx context.Context, by Actor, v *View, hash []byte, most int) error

	// RenameView returns ENotFound for an unknown view, EConflict when the name is taken.
	RenameView(ctx context.Context, by Actor, id int64, name string) error

	// DeleteView returns ENotFound for an unknown view.
	DeleteView(ctx context.Context, by Actor, id int64) error

	// PublicView returns the public view with the hash of a secret, and its workspace. It
	// returns ENotFound without one.
	PublicView(ctx context.Context, hash []byte) (View, waypost.WorkspaceID, error)
}

// View is a saved view of statistics.
type View struct {
	ID        int64
	Name      string
	Query     string // of the console's address; of a public view, days and tz
	CreatedAt time.Time

	// A public view is of the links with Tag, or of Link; Host is "" for the default domain.
	Tag  string
	Link int64
	Host string
	Code waypost.Code
}

// Bounds of saved views.
const (
	MaxViews      = 100 // of a workspace
	MaxPublicDays = 366 // that a public view shows
	maxViewName   = 100
	maxViewQuery  = 2000
)

// ErrNoView says that there is no such view.
var ErrNoView = waypost.Errorf(waypost.ENotFound, "there is no such view")

// Views returns the saved views of the actor's workspace.
func (s *Clicks) Views(ctx context.Context, actor Actor) ([]View, error) {
	return s.stats.Views(ctx, actor.Workspace)
}

// SaveView saves filters under a name.
func (s *Clicks) SaveView(ctx context.Context, actor Actor, name, query string) (View, error) {
	v := View{Name: name, Query: query}
	if strings.ContainsFunc(query, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return v, waypost.Errorf(waypost.EInvalid, "query must be the part of an address after the question mark, with escapes")
	}
	err := s.addView(ctx, actor, &v, nil)
	return v, err
}

// PublishView makes a public view of the statistics of a link, or else of the links with
// a tag, on its last days, and returns the secret that its readers need. No one can find
// out the secret later.
func (s *Clicks) PublishView(
	ctx context.Context, actor Actor, name, host, code, tag string, days int, zone *time.Location,
) (View, string, error) {
	if days < 1 || days > MaxPublicDays {
		return View{}, "", waypost.Errorf(waypost.EInvalid, "days must be 1 to %d", MaxPublicDays)
	}
	v := View{Name: name, Query: url.Values{"days": {strconv.Itoa(days)}, "tz": {zone.String()}}.Encode()}
	if tag != "" {
		g, err := s.find(ctx, actor, &GroupQuery{Tags: []string{tag}})
		if err != nil {
			return View{}, "", err
		}
		v.Tag = g.Tags[0]
	} else {
		l, err := s.links.Read(ctx, actor, waypost.HostName(host), code)
		if err != nil {
			return View{}, "", err
		}
		v.Link, v.Host, v.Code = l.ID, l.Host, l.Code
	}
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails
	secret := base64.RawURLEncoding.EncodeToString(random[:])
	hash := sha256.Sum256([]byte(secret))
	err := s.addView(ctx, actor, &v, hash[:])
	return v, secret, err
}

func (s *Clicks) addView(ctx context.Context, actor Actor, v *View, hash []byte) error {
	if err := checkViewName(v.Name); err != nil {
		return err
	}
	if len(v.Query) > maxViewQuery {
		return waypost.Errorf(waypost.EInvalid, "query must be at most %d bytes", maxViewQuery)
	}
	return s.stats.AddView(ctx, actor, v, hash, MaxViews)
}

// RenameView renames a view of the actor's workspace.
func (s *Clicks) RenameView(ctx context.Context, actor Actor, id int64, name string) error {
	if err := checkViewName(name); err != nil {
		return err
	}
	return s.stats.RenameView(ctx, actor, id, name)
}

// DeleteView deletes a view of the actor's workspace. It withdraws a public one at once.
func (s *Clicks) DeleteView(ctx context.Context, actor Actor, id int64) error {
	return s.stats.DeleteView(ctx, actor, id)
}

func checkViewName(name string) error {
	if strings.TrimSpace(name) == "" {
		return waypost.Errorf(waypost.EInvalid, "name must not be empty")
	}
	return checkText("name", name, maxViewName)
}

// PublicStats returns the public view of a secret, and the statistics of its link or tag.
// It returns ErrNoView for an unknown or withdrawn secret, and while the link is deleted,
// or no link has the tag.
func (s *Clicks) PublicStats(ctx context.Context, secret string) (View, Stats, error) {
	hash := sha256.Sum256([]byte(secret))
	v, ws, err := s.stats.PublicView(ctx, hash[:])
	if err != nil {
		return View{}, Stats{}, err
	}
	query, err := url.ParseQuery(v.Query)
	if err != nil {
		return View{}, Stats{}, err
	}
	days, err := strconv.Atoi(query.Get("days"))
	if err != nil {
		return View{}, Stats{}, err
	}
	zone, ok := waypost.LoadZone(query.Get("tz"))
	if !ok {
		zone = time.UTC
	}
	y, m, d := s.now().In(zone).Date()
	from := waypost.BeginOfDay(time.Date(y, m, d+1-days, 12, 0, 0, 0, zone))
	actor, q := Actor{Workspace: ws}, StatsQuery{From: from, Zone: zone}
	if v.Tag != "" {
		stats, err := s.GroupStats(ctx, actor, GroupQuery{Tags: []string{v.Tag}}, q)
		if err == nil && stats.Links == 0 {
			err = ErrNoView
		}
		return v, stats.Stats, err
	}
	stats, err := s.LinkStats(ctx, actor, v.Host, string(v.Code), q)
	if waypost.CodeOf(err) == waypost.ENotFound {
		err = ErrNoView
	}
	return v, stats.Stats, err
}
