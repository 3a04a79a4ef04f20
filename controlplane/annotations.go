package controlplane

import (
	"context"
	"slices"
	"time"

	"waypost"
	"waypost/api"
)

// MaxAnnotations bounds the annotations of statistics.
const MaxAnnotations = 100

// annotated are the fields with changes that are annotations, by what these are called.
var annotated = map[string]string{
	"original_url": "target", "rules": "rules", "active": "state", "expires_at": "expiry", "valid_from": "expiry",
}

// annotations returns the newest changes of a link in a span, newest first, and whether
// there are more. Actors that may not read the history of links get no names.
func (s *Links) annotations(ctx context.Context, actor Actor, l *waypost.Link, span *Span, now time.Time) ([]api.Annotation, bool, error) {
	fields := make([]string, 0, len(annotated))
	for name := range annotated {
		fields = append(fields, name)
	}
	changes, err := s.store.ChangesOf(ctx, actor.Workspace, l.ID, span, fields, MaxAnnotations+1)
	if err != nil {
		return nil, false, err
	}
	var notes []api.Annotation
	// The expiry of a link stands in no entry of its history.
	if e := l.ExpiresAt; !e.IsZero() && !e.After(now) && !e.Before(span.From()) && e.Before(span.To()) {
		notes = append(notes, api.Annotation{T: e.UTC(), Changes: []string{"expired"}, By: &api.Changer{Kind: "system", Name: "waypost"}})
	}
	for _, c := range changes {
		a := api.Annotation{T: c.At.UTC()}
		if c.What != "changed" {
			a.Changes = []string{c.What}
		}
		for _, f := range c.Fields {
			if name, of := annotated[f.Name]; of && c.What == "changed" && !slices.Contains(a.Changes, name) {
				a.Changes = append(a.Changes, name)
			}
		}
		if actor.Can(ScopeLinksRead) && c.By.Kind != "" {
			a.By = &c.By
		}
		notes = append(notes, a)
	}
	slices.SortStableFunc(notes, func(a, b api.Annotation) int { return b.T.Compare(a.T) })
	return notes[:min(len(notes), MaxAnnotations)], len(notes) > MaxAnnotations, nil
}
