package httpapi_test

import (
	"context"
	"time"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/fleet"
)

func (f *links) Find(ctx context.Context, actor controlplane.Actor, domain, code string) (waypost.Link, error) {
	l, err := f.Get(ctx, actor, code)
	if err == nil && l.Host != domain {
		err = waypost.ErrNoLink
	}
	return l, err
}

func (f *links) Read(_ context.Context, actor controlplane.Actor, domain, code string) (waypost.Link, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l, err := f.find(actor, code)
	if err != nil || l.Host != domain {
		return waypost.Link{}, waypost.ErrNoLink
	}
	return *l, nil
}

func (f *links) IgnoresCase(context.Context, controlplane.Actor, string) (bool, error) {
	return f.ignoresCase, nil
}

func (f *links) Restore(ctx context.Context, actor controlplane.Actor, domain, code string) (waypost.Link, waypost.Position, error) {
	if code == "gone" {
		return waypost.Link{}, waypost.Position{}, waypost.Errorf(waypost.EGone, "the link has expired, and cannot be restored")
	}
	l, err := f.Find(ctx, actor, domain, code)
	return l, waypost.Position{Epoch: waypost.Epoch{Ordinal: 1}, Seq: 9}, err
}

func (f *links) AddAlias(
	ctx context.Context, actor controlplane.Actor, domain, code string, n controlplane.NewAlias,
) (waypost.Link, waypost.Position, error) {
	l, err := f.Read(ctx, actor, domain, code)
	if err == nil && n.Code == "taken" {
		err = waypost.Errorf(waypost.EConflict, "the code is taken")
	}
	l.Aliases = append(l.Aliases, waypost.Alias{
		Domain: waypost.DefaultDomain, Code: waypost.Code(n.Code), Title: n.Title, N: 1, AddedAt: l.CreatedAt,
	})
	return l, waypost.Position{Epoch: waypost.Epoch{Ordinal: 1}, Seq: 9}, err
}

func (f *links) RemoveAlias(
	ctx context.Context, actor controlplane.Actor, domain, code, _, alias string,
) (waypost.Link, waypost.Position, error) {
	l, err := f.Read(ctx, actor, domain, code)
	if err == nil && alias == "unknown" {
		err = controlplane.ErrNoAlias
	}
	return l, waypost.Position{Epoch: waypost.Epoch{Ordinal: 1}, Seq: 9}, err
}

func (f *links) History(
	ctx context.Context, actor controlplane.Actor, domain, code string, _ int, cursor string,
) ([]controlplane.Change, string, error) {
	if cursor != "" {
		return []controlplane.Change{{What: "created"}}, "", nil
	}
	l, err := f.Find(ctx, actor, domain, code)
	return []controlplane.Change{{
		Revision: waypost.Revision{Epoch: 3, Seq: 12}, At: l.CreatedAt, What: "changed",
		By: api.Changer{Kind: "user", ID: 7, Name: "Ada <ada@example.com>"},
		Fields: []controlplane.FieldChange{
			{Name: "tags", Before: []byte(`[]`), After: []byte(`["a"]`)},
			{Name: "title", Before: []byte(`""`), After: []byte(`"x"`)},
		},
	}}, "3-12", err
}

func (f *links) DryRun(_ context.Context, _ controlplane.Actor, ns []controlplane.NewLink) ([]controlplane.Outcome, error) {
	outcomes := make([]controlplane.Outcome, len(ns))
	for i, n := range ns {
		if n.CustomCode == "taken" {
			outcomes[i].Err = waypost.Errorf(waypost.EConflict, "the code is taken")
		}
		outcomes[i].Found = n.Dedupe != nil && *n.Dedupe
	}
	return outcomes, nil
}

func (f *links) Remove(ctx context.Context, actor controlplane.Actor, domain, code string) (waypost.Position, error) {
	if _, err := f.Find(ctx, actor, domain, code); waypost.CodeOf(err) == waypost.ENotFound {
		return waypost.Position{}, err
	}
	return f.Delete(ctx, actor, code)
}

func (f *links) Change(ctx context.Context, actor controlplane.Actor, domain, code string,
	c controlplane.LinkChange,
) (controlplane.Outcome, waypost.Position, error) {
	none := func(err error) (controlplane.Outcome, waypost.Position, error) {
		return controlplane.Outcome{}, waypost.Position{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	l, err := f.find(actor, code)
	if err != nil || l.Host != domain {
		return none(waypost.ErrNoLink)
	}
	if c.Match != nil {
		fits := false
		for _, v := range c.Match {
			fits = fits || v == controlplane.VersionOf(l)
		}
		if !fits {
			return none(waypost.Errorf(waypost.EStale, "the link has changed since"))
		}
	}
	f.changed = append(f.changed, c)
	if c.Details != nil {
		c.Details(&l.Details)
	}
	p := f.position()
	l.Revision, l.UpdatedAt = p.Revision(), f.now()
	return controlplane.Outcome{Link: *l}, p, nil
}

func (f *links) CreateOnce(ctx context.Context, actor controlplane.Actor, ns []controlplane.NewLink,
	o controlplane.Idempotency,
) (controlplane.Made, error) {
	f.mu.Lock()
	name := o.Route + " " + o.Key
	kept, ok := f.kept[name]
	f.mu.Unlock()
	switch {
	case o.Key == "busy":
		return controlplane.Made{}, waypost.Errorf(waypost.EInProgress, "still being answered")
	case ok && kept.request != o.Request:
		return controlplane.Made{}, waypost.Errorf(waypost.EKeyReused, "something else was asked")
	case ok:
		return controlplane.Made{Replayed: &kept.answer}, nil
	}
	outcomes, at, err := f.CreateBulk(ctx, actor, ns)
	if err != nil {
		return controlplane.Made{}, err
	}
	answer, err := o.Respond(outcomes, at)
	if err != nil {
		return controlplane.Made{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.kept == nil {
		f.kept = map[string]keptAnswer{}
	}
	if !at.IsZero() {
		f.kept[name] = keptAnswer{o.Request, answer}
	}
	return controlplane.Made{Outcomes: outcomes, At: at}, nil
}

type keptAnswer struct {
	request [32]byte
	answer  controlplane.Response
}

// waiter has one edge, which is late for positions of an odd sequence.
type waiter struct{}

func (waiter) WaitApplied(_ context.Context, at waypost.Position, everywhere bool, most time.Duration) api.Applied {
	if most > 2*time.Second {
		return api.Applied{Outcome: fleet.OutcomeTimeout, Edges: 1, Behind: []string{"edge-1", "edge-2"}, Silent: []string{"edge-3"}}
	}
	if everywhere {
		return api.Applied{Outcome: fleet.OutcomeAll, Edges: 3}
	}
	return api.Applied{Outcome: fleet.OutcomeRegion, Edges: 1}
}
