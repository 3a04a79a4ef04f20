package controlplane

import (
	"bytes"
	"context"
	"time"
	_ "time/tzdata" // where the system has no time zones

	"waypost"
	"waypost/controlplane/target"
	"waypost/rules"
)

// ScheduleStore keeps the programmes of links with schedules.
type ScheduleStore interface {
	// ScheduledLinks returns up to limit links with offsets of a time zone in their
	// programmes, in the order of their ids, from the first id above after.
	ScheduledLinks(ctx context.Context, after int64, limit int) ([]waypost.Link, error)

	// ReplaceProgramme replaces the programme of a link that was read at a version. The
	// owner still sees that version. It changes nothing and returns false when the link
	// has another version or is gone.
	ReplaceProgramme(ctx context.Context, at Version, l *waypost.Link) (changed bool, err error)
}

// schedulePause is the time between two looks at all schedules. A change of a country's
// time is published days ahead at least, and programmes have offsets for years.
const schedulePause = 6 * time.Hour

// scheduleBatch bounds the links that are read at once.
const scheduleBatch = 500

// keepSchedules compiles schedules again at each start and then from time to time.
func (s *Links) keepSchedules(ctx context.Context) {
	Poll(ctx, schedulePause, s.Reschedule, func(err error) {
		s.log.Warn("cannot compile the schedules of links again, will try later", "error", err)
	})
}

// Reschedule compiles the links with schedules again, with today's time zones: the
// system's, or else the program's. It does not write a link when the programme stays the
// same, and does not change the version that the owner sees.
func (s *Links) Reschedule(ctx context.Context) error {
	var after int64
	for {
		links, err := s.store.ScheduledLinks(ctx, after, scheduleBatch)
		if err != nil {
			return err
		}
		for i := range links {
			l := &links[i]
			after = l.ID
			programme, err := recompile(l, s.now())
			if err != nil {
				s.log.Error("cannot compile the rules of a link again", "link", l.ID, "error", err)
				continue
			}
			if bytes.Equal(programme, l.Programme) {
				continue
			}
			l.Programme = programme
			if _, err := s.store.ReplaceProgramme(ctx, VersionOf(l), l); err != nil {
				return err
			}
		}
		if len(links) < scheduleBatch {
			return nil
		}
	}
}

// recompile compiles the rules of a link again. The targets were judged before, and are
// not judged again by the rules of today.
func recompile(l *waypost.Link, now time.Time) ([]byte, error) {
	source, err := rules.ParseSource(l.Rules)
	if err != nil {
		return nil, err
	}
	with := rules.Compiling{Status: l.RedirectStatus, Now: now}
	setTargets(&with, target.Rules{AllowPrivate: true}, l.Code)
	with.Key, _ = rules.SplitKey(l.Programme)
	with.Password = passwordOf(l)
	return rules.Compile(&source, &with)
}
