package controlplane

import (
	"context"
	"time"

	"waypost"
)

// ClickEraser deletes what was counted.
type ClickEraser interface {
	// ForgetClicks deletes the clicks of a link, which may be deleted itself, from
	// every table, durably and in the audit log when it returns; ENotFound when the workspace has no
	// such link. Clicks that come later count again, from zero.
	ForgetClicks(ctx context.Context, by Actor, domain waypost.DomainID, code waypost.Code) (ForgottenClicks, error)
}

// ForgottenClicks is what was deleted of a link's clicks.
type ForgottenClicks struct {
	Clicks, Bots int64 // that it had in all
	Events       int64 // clicks that were kept one by one
}

// ForgetClicks deletes the clicks of a link of the actor's workspace, under the domain
// of a host ("" for the default one). That needs the scope admin.
func (s *Service) ForgetClicks(ctx context.Context, actor Actor, host, code string) (ForgottenClicks, error) {
	if !actor.Can(ScopeAdmin) {
		return ForgottenClicks{}, waypost.Errorf(waypost.EForbidden, "clicks are deleted with the scope admin only")
	}
	if !waypost.ValidCode(code) {
		return ForgottenClicks{}, notFound()
	}
	domain, err := s.domainOfLinks(ctx, actor, host)
	if err != nil {
		return ForgottenClicks{}, err
	}
	return s.eraser.ForgetClicks(ctx, actor, domain, waypost.Code(code))
}

// ForgetVisitors destroys the salt of a UTC day, so that nothing tells any more who clicked on
// it; clicks of the day that come later count without a visitor. That needs
// [Actor.CheckOperator].
func (s *Service) ForgetVisitors(ctx context.Context, actor Actor, day time.Time) (waypost.Position, error) {
	if err := actor.CheckOperator(); err != nil {
		return waypost.Position{}, err
	}
	if s.salts == nil {
		return waypost.Position{}, waypost.Errorf(waypost.ENotFound, "there is no salt of that day")
	}
	return s.salts.DestroySalt(ctx, actor, int32(day.Unix()/(24*60*60)))
}
