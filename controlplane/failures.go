package controlplane

import (
	"context"
	"net/netip"
	"sync"
	"time"
)

// FailedSignIns counts the sign-ins of an account that failed since they were last noted.
type FailedSignIns struct {
	UserID    int64
	Passwords int        // that were wrong
	Codes     int        // of the second factor, after the right password or a link
	Address   netip.Addr // of the last one; it may be invalid
}

// failuresInterval is the least time between two entries of the audit log on the failed
// sign-ins of one account, so that guesses do not fill it.
const failuresInterval = time.Minute

// failures collects failed sign-ins until they are noted. Zero is ready to use.
type failures struct {
	mu sync.Mutex
	by map[int64]*failed // bounded by maxNoted; failures of further accounts are not noted
}

type failed struct {
	FailedSignIns
	notedAt time.Time // zero: never
}

func (f *failures) countFailure(user int64, code bool, from netip.Addr) {
	f.mu.Lock()
	defer f.mu.Unlock()
	of := f.by[user]
	if of == nil {
		if len(f.by) >= maxNoted {
			return
		}
		if f.by == nil {
			f.by = make(map[int64]*failed)
		}
		of = &failed{FailedSignIns: FailedSignIns{UserID: user}}
		f.by[user] = of
	}
	if code {
		of.Codes++
	} else {
		of.Passwords++
	}
	of.Address = from
}

// due takes the failures of accounts without an entry within the interval, or of all
// accounts.
func (f *failures) due(now time.Time, all bool) (due []FailedSignIns) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for user, of := range f.by {
		waits := !all && now.Sub(of.notedAt) < failuresInterval
		switch none := of.Passwords+of.Codes == 0; {
		case waits:
		case none:
			delete(f.by, user)
		default:
			due = append(due, of.FailedSignIns)
			of.FailedSignIns, of.notedAt = FailedSignIns{UserID: user}, now
		}
	}
	return due
}

// noteFailures writes failed sign-ins to the audit log.
func (s *Access) noteFailures(ctx context.Context, all bool) {
	due := s.failed.due(s.now(), all)
	if len(due) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	if err := s.sessions.NoteFailures(ctx, due); err != nil {
		s.log.Warn("cannot note failed sign-ins", "accounts", len(due), "error", err)
	}
}
