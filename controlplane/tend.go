package controlplane

import (
	"context"
	"time"
)

// How often access is tended.
const (
	noteInterval  = 10 * time.Second // last uses are written down
	closeInterval = 30 * time.Second // links of deleted workspaces are looked for
	closeBatch    = 1_000            // links a transaction
)

// Tend does what access needs in the background, until ctx ends: it writes down when
// keys and sessions were used, and turns the links of deleted workspaces into tombstones,
// a transaction of at most 1,000 links at a time, so that creates get their turns.
// Several instances may do it at once; what one leaves undone, the next does.
func (s *Service) Tend(ctx context.Context) {
	if s.access == nil {
		return
	}
	note, closing := time.NewTicker(noteInterval), time.NewTicker(closeInterval)
	defer note.Stop()
	defer closing.Stop()
	s.wakeTender() // an instance before this one may not have come to the end
	for {
		select {
		case <-ctx.Done():
			s.noteUses(context.WithoutCancel(ctx))
			return
		case <-note.C:
			s.noteUses(ctx)
		case <-closing.C:
			s.closeWorkspaces(ctx)
		case <-s.tender:
			s.closeWorkspaces(ctx)
		}
	}
}

func (s *Service) wakeTender() {
	select {
	case s.tender <- struct{}{}:
	default: // it is awake
	}
}

func (s *Service) noteUses(ctx context.Context) {
	used := s.auth.used.take()
	if len(used.Keys)+len(used.Sessions) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Patience)
	defer cancel()
	if err := s.access.NoteUses(ctx, used); err != nil {
		s.cfg.Logger.Warn("when keys were used was not written down", "error", err)
	}
}

func (s *Service) closeWorkspaces(ctx context.Context) {
	total := 0
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-pause.C:
		case <-ctx.Done():
			return
		}
		began := time.Now()
		n, err := s.access.CloseWorkspaces(ctx, closeBatch)
		pause.Reset(time.Since(began)) // others want to commit, too
		if err != nil {
			if ctx.Err() == nil {
				s.cfg.Logger.Warn("a round failed, will try again", "doing", "removing the links of deleted workspaces", "error", err)
			}
			return
		}
		if total += n; n == 0 {
			break
		}
	}
	if total > 0 {
		s.cfg.Logger.Info("links of deleted workspaces are gone", "links", total)
	}
}
