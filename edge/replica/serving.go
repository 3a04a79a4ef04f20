package replica

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"golang.org/x/time/rate"

	"waypost"
	"waypost/edge/lookup"
	"waypost/internal/pacer"
	"waypost/internal/patterns"
	"waypost/replication"
)

// serving has the live store, from which readers are answered, and replaces it. Readers
// take no lock.
type serving struct {
	cfg        *Config
	metrics    *metrics
	storage    *storage
	promotions *promotions
	wakeFill   func()
	logLimiter *rate.Limiter

	live   atomic.Pointer[store] // nil: nothing is held
	closed atomic.Bool

	// mu is held while the live store or its table is written or replaced.
	mu struct {
		sync.Mutex
		restoring  *restore      // nil: none is under way
		repairing  *repair       // nil: none is under way
		skipPacing chan struct{} // closed when replaced stores are to be removed without pauses
	}

	retirements sync.WaitGroup
	retiring    atomic.Int64     // stores that are not closed yet
	ended       [4]atomic.Uint64 // answers of tables that were closed
}

// Link finds the record of a code in the lookup table or, when the table cannot tell, in
// the store, and fills rec in. It copies the record behind buf, and rec refers to that
// copy; grown is the larger buf, to be used again. It does not allocate once buf is large
// enough. Revision and Stamp are set only when the store was read. An error means that
// the store could not be read or holds a record that must not be served; it says nothing
// about the link. Without a link, rec is of no use.
func (db *DB) Link(domain waypost.DomainID, code, buf []byte, rec *waypost.Record) (grown []byte, found bool, err error) {
	if len(code) == 0 || len(code) > waypost.MaxName {
		return buf, false, nil
	}
	table := db.serving.table()
	if table != nil {
		extensions, grown, answer := table.Find(domain, code, buf, rec)
		switch answer {
		case lookup.Found:
			if len(extensions) > 0 {
				if err := replication.DecodeExtensions(extensions, rec); err != nil {
					return grown, false, fmt.Errorf("read a link: %w", err)
				}
			}
			return grown, true, nil
		case lookup.Absent:
			return grown, false, nil
		default:
			buf = grown[:len(buf)]
		}
	}
	slot := waypost.Slot(waypost.KindOf(code), domain, code)
	st := db.serving.pin(slot)
	switch {
	case st == nil && db.serving.closed.Load():
		return buf, false, errClosed
	case st == nil:
		return buf, false, errEmpty
	}
	if grown, found, err = db.serving.stored(st, slot, domain, code, buf, rec); found && table != nil && !table.IsComplete() {
		db.serving.promotions.queueLink(domain, code)
	}
	return grown, found, err
}

// stored finds the record of a code in a pinned store, and unpins the store. (A deferred
// call in Link would allocate.)
func (s *serving) stored(
	st *store, slot uint16, domain waypost.DomainID, code, buf []byte, rec *waypost.Record,
) (grown []byte, found bool, err error) {
	defer st.unpin(slot)
	// The key goes into buf too, because on the stack it would escape.
	kind := waypost.KindOf(code)
	grown = appendRecordKey(buf, slot, kind, domain, code)
	raw, closer, err := st.pdb.Get(grown[len(buf):])
	if err != nil {
		if errors.Is(err, pebble.ErrNotFound) {
			return grown, false, nil
		}
		return grown, false, s.unreadable(st, err, pebble.IsCorruptionError(err))
	}
	at := len(grown)
	grown = append(grown, raw...)
	if err := closer.Close(); err != nil {
		return grown, false, s.unreadable(st, err, false)
	}
	if err = replication.DecodeRecord(grown[at:], rec); err != nil {
		return grown, false, s.unreadable(st, err, errors.Is(err, replication.ErrRecord))
	}
	if rec.Kind != kind || rec.Domain != domain || !bytes.Equal(rec.Name, code) {
		return grown, false, s.unreadable(st, errMisplaced, true)
	}
	return grown, true, nil
}

// unreadable counts a record that cannot be served. When the disk is to blame, the store
// is degraded, so that the follower takes a fresh one.
func (s *serving) unreadable(st *store, err error, corrupt bool) error {
	s.metrics.unreadable.Inc()
	if corrupt {
		st.health.fail(err, true)
	}
	if s.logLimiter.Allow() {
		s.cfg.Logger.Error("cannot read a link", "error", err)
	}
	return fmt.Errorf("read a link: %w", err)
}

// Domain returns the domain of a host, which is in its canonical form as waypost.HostName
// makes it. Of an unknown host it returns the default domain, and false. It neither
// allocates nor waits.
func (db *DB) Domain(host []byte) (id waypost.DomainID, traits waypost.DomainTraits, known bool) {
	st := db.serving.live.Load()
	if st == nil {
		return waypost.DefaultDomain, 0, false
	}
	table := st.hosts.Load()
	d, known := table.byHost[string(host)]
	if !known {
		d = table.shared
	}
	return d.id, d.traits, known
}

// Owner returns the workspace of the domain of a host, 0 for a shared domain, and false
// if no domain has this host. The host is as waypost.HostName writes it.
func (db *DB) Owner(host string) (waypost.WorkspaceID, bool) {
	st := db.serving.live.Load()
	if st == nil {
		return 0, false
	}
	table := st.hosts.Load()
	d, ok := table.byHost[host]
	return table.owners[d.id], ok
}

// CustomHosts returns the hosts of the domains that belong to one workspace.
func (db *DB) CustomHosts() (hosts []string) {
	st := db.serving.live.Load()
	if st == nil {
		return nil
	}
	table := st.hosts.Load()
	for host, d := range table.byHost {
		if _, own := table.owners[d.id]; own {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// Patterns returns the patterns of a domain, nil for no patterns. It neither allocates
// nor waits.
func (db *DB) Patterns(domain waypost.DomainID) *patterns.Index {
	st := db.serving.live.Load()
	if st == nil {
		return nil
	}
	return (*st.patterns.Load())[domain]
}

// Targets returns the targets of a domain, to which visitors are led in place of its
// links. The bytes must not be changed. It neither allocates nor waits.
func (db *DB) Targets(domain waypost.DomainID) waypost.DomainTargets {
	st := db.serving.live.Load()
	if st == nil {
		return waypost.DomainTargets{}
	}
	return st.hosts.Load().targets[domain]
}

// Salt returns the salt of a day, in days since 1970, UTC; nil if that day's salt is
// unknown or deleted. The salt must not be changed. It neither allocates nor waits.
func (db *DB) Salt(day int32) *waypost.Salt {
	st := db.serving.live.Load()
	if st == nil {
		return nil
	}
	for _, s := range *st.salts.Load() {
		if s.day == day {
			return s.salt
		}
	}
	return nil
}

// table returns the lookup table of the live store, nil without a table.
func (s *serving) table() *lookup.Table {
	if st := s.live.Load(); st != nil {
		return st.table.Load()
	}
	return nil
}

// Cluster implements replication.Sink.
func (db *DB) Cluster() (replication.Cluster, bool) {
	if st := db.serving.live.Load(); st != nil {
		return st.applied.Load().cluster, true
	}
	return replication.Cluster{}, false
}

// Position implements replication.Sink.
func (db *DB) Position() waypost.Position {
	if st := db.serving.live.Load(); st != nil {
		return st.applied.Load().position
	}
	return waypost.Position{}
}

// Synced returns the position that a crash cannot take back; zero when nothing is held, a
// repair is under way, or the records are not verified.
func (db *DB) Synced() waypost.Position {
	if st := db.serving.live.Load(); st != nil && st.sound() && !st.applied.Load().repairing {
		return *st.synced.Load()
	}
	return waypost.Position{}
}

// Digest returns the XOR of the stamps of all records at the position.
func (db *DB) Digest() uint64 {
	if st := db.serving.live.Load(); st != nil {
		return st.applied.Load().digest
	}
	return 0
}

// Repairing implements replication.Repairer.
func (db *DB) Repairing() bool {
	st := db.serving.live.Load()
	return st != nil && st.applied.Load().repairing
}

// Verified reports whether the records match the digest of the position: since the store
// was opened their sum was found equal to the digest, and no damage was found. It is
// false without a store.
func (db *DB) Verified() bool {
	st := db.serving.live.Load()
	return st != nil && st.sound()
}

// Verifying reports whether the records are still to be added up.
func (db *DB) Verifying() bool {
	st := db.serving.live.Load()
	return st != nil && st.unverified()
}

// failed returns the failure of the live store.
func (s *serving) failed() error {
	if st := s.live.Load(); st != nil {
		return st.health.err()
	}
	return nil
}

// pin returns the live store, nil without one, and keeps it from being closed until unpin
// is called with the same slot. It takes no lock.
func (s *serving) pin(slot uint16) *store {
	for {
		st := s.live.Load()
		if st == nil || s.hold(st, slot) {
			return st
		}
	}
}

// hold pins a store that was the live one. It returns false when the store is live no
// longer: the store may be closing, and must not be used.
func (s *serving) hold(st *store, slot uint16) bool {
	st.pins.pin(slot)
	if s.live.Load() == st {
		return true
	}
	st.unpin(slot)
	return false
}

// retire closes and removes a store that was replaced, once its readers have left. It
// pauses between its steps until skipPacing is called. The caller holds s.mu.
func (s *serving) retire(st *store) {
	s.retiring.Add(1)
	var counted [4]uint64
	table := st.table.Load()
	if table != nil {
		counted = s.count(table, counted)
	}
	stop := s.mu.skipPacing
	s.retirements.Go(func() {
		defer s.wakeFill() // the old table's memory is free then
		defer s.retiring.Add(-1)
		st.awaitReaders()
		pace := &pacer.Pacer{Stop: stop}
		if table != nil {
			st.table.Store(nil)
			s.endTable(table, counted, pace)
		}
		if err := st.closePebble(); err != nil {
			s.cfg.Logger.Warn("cannot close the old store", "error", err)
		}
		if f := st.health.failed(); f != nil && f.corrupt {
			if err := s.storage.quarantine(st.name, f.err); err != nil {
				s.cfg.Logger.Error("cannot quarantine the old store", "error", err)
			}
			return
		}
		s.cfg.Points.Hit("remove store: begun")
		if err := s.storage.removeSlowly(s.storage.path(st.name), pace); err != nil {
			s.cfg.Logger.Warn("cannot remove the old store before the next start", "error", err)
		}
		s.cfg.Points.Hit("remove store: done")
	})
}

// writable reports why no store of the replica may be changed. The caller holds s.mu.
func (s *serving) writable() error {
	if s.closed.Load() {
		return errClosed
	}
	return nil
}

// skipPacing ends the pauses in the removal of stores that were replaced until now.
func (s *serving) skipPacing() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.mu.skipPacing)
	s.mu.skipPacing = make(chan struct{})
}

// closeStore closes a store after its last reader, and its table.
func (s *serving) closeStore(st *store) error {
	if t := st.table.Swap(nil); t != nil {
		s.endTable(t, s.count(t, [4]uint64{}), nil)
	}
	return st.closePebble()
}

// count adds the answers of a table to the metrics, once the live store has another table
// or none. The answers in before were counted already.
func (s *serving) count(t *lookup.Table, before [4]uint64) [4]uint64 {
	now := answers(t)
	for i, n := range now {
		s.ended[i].Add(n - before[i])
	}
	return now
}

// endTable closes a table and counts its answers beyond counted.
func (s *serving) endTable(t *lookup.Table, counted [4]uint64, pace *pacer.Pacer) {
	t.CloseSlowly(pace.Pause)
	s.count(t, counted)
}
