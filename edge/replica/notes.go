package replica

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"waypost"
	"waypost/internal/patterns"
)

// notes holds the domains, salts and patterns of a store in memory. The writer keeps
// maps, from which it makes tables for readers. A table never changes.
type notes struct {
	log      *slog.Logger
	hosts    atomic.Pointer[domainTable]
	salts    atomic.Pointer[saltTable]
	patterns atomic.Pointer[patternTable]

	// Owned by the writer of the store.
	domains map[waypost.DomainID]waypost.Domain
	byDay   map[int32]*waypost.Salt              // nil: destroyed
	codes   map[waypost.DomainID]map[string]bool // the patterns that are not deleted
	changed map[waypost.DomainID]bool            // since the table of patterns was made
}

// patternTable is the readers' table of patterns. It has the domains with patterns.
type patternTable map[waypost.DomainID]*patterns.Index

// domainTable is the readers' table of domains.
type domainTable struct {
	byHost  map[string]hostDomain
	shared  hostDomain // the default domain
	targets map[waypost.DomainID]waypost.DomainTargets
	owners  map[waypost.DomainID]waypost.WorkspaceID // of those that are not shared
}

// hostDomain is the domain of a host.
type hostDomain struct {
	id     waypost.DomainID
	traits waypost.DomainTraits
}

// saltTable is the readers' table of salts. It has a handful, so that a linear search is
// the fastest.
type saltTable []daySalt

type daySalt struct {
	day  int32
	salt *waypost.Salt
}

// noteRecord adds a record of a domain, a salt or a pattern to the writer's maps.
func (n *notes) noteRecord(r *waypost.Record) {
	switch r.Kind {
	case waypost.KindDomain:
		n.noteDomain(r)
	case waypost.KindSalt:
		n.noteSalt(r)
	case waypost.KindPattern:
		n.notePattern(r)
	case waypost.KindLink, waypost.KindRange, waypost.KindLease: // are read from the store
	}
}

// noteDomain adds a domain. A record that cannot be read removes the domain, and is
// logged.
func (n *notes) noteDomain(r *waypost.Record) {
	id, err := strconv.ParseUint(string(r.Name), 10, 32)
	if err != nil {
		n.log.Error("skipping a domain record because its name is no number", "name", strconv.QuoteToASCII(string(r.Name)))
		return
	}
	domain := waypost.DomainID(id)
	delete(n.domains, domain)
	if r.State != waypost.Live {
		return
	}
	d, err := waypost.DecodeDomain(r.Payload)
	if err != nil {
		n.log.Error("cannot use all of a domain record", "domain", domain, "host", d.Host, "error", err)
	}
	if d.Host != "" {
		n.domains[domain] = d
	}
}

// announceSwitches lets visits try both keys of links in domains of which the case
// changes with a batch, from before the batch is written until its domains are published.
func (n *notes) announceSwitches(batch []waypost.Record) {
	announced := false
	for i := range batch {
		r := &batch[i]
		id, err := strconv.ParseUint(string(r.Name), 10, 32)
		if r.Kind != waypost.KindDomain || r.State != waypost.Live || err != nil {
			continue
		}
		d, held := n.domains[waypost.DomainID(id)]
		next, err := waypost.DecodeDomain(r.Payload)
		if held && err == nil && (d.Traits^next.Traits)&(waypost.IgnoresCase|waypost.CaseSwitching) != 0 {
			d.Traits = d.Traits.With(waypost.IgnoresCase, next.Traits&waypost.IgnoresCase != 0).With(waypost.CaseSwitching, true)
			n.domains[waypost.DomainID(id)], announced = d, true
		}
	}
	if announced {
		n.publishNotes()
	}
}

// noteSalt adds the salt of a day. A record that cannot be read removes the salt, and is
// logged without its content.
func (n *notes) noteSalt(r *waypost.Record) {
	day, salt, err := waypost.DecodeSalt(r.Name, r.Payload)
	if err != nil {
		n.log.Error("cannot read the record of a visitor salt", "name", strconv.QuoteToASCII(string(r.Name)), "error", err)
	}
	delete(n.byDay, day)
	if r.State == waypost.Live && salt != nil {
		n.byDay[day] = salt
	}
}

// notePattern adds a pattern. A deleted link leaves its addresses to other patterns.
func (n *notes) notePattern(r *waypost.Record) {
	if n.codes[r.Domain] == nil {
		n.codes[r.Domain] = map[string]bool{}
	}
	n.changed[r.Domain] = true
	if r.State == waypost.Live || r.State == waypost.Disabled {
		n.codes[r.Domain][string(r.Name)] = true
		return
	}
	delete(n.codes[r.Domain], string(r.Name))
}

// publishPatterns makes a table of patterns, with new indexes of the domains that have
// changed. It takes milliseconds for ten thousand patterns.
func (n *notes) publishPatterns() {
	t := patternTable{}
	if old := n.patterns.Load(); old != nil {
		t = maps.Clone(*old)
	}
	for domain := range n.changed {
		delete(t, domain)
		if x := patterns.New(slices.Sorted(maps.Keys(n.codes[domain]))); x != nil {
			t[domain] = x
		}
	}
	clear(n.changed)
	n.patterns.Store(&t)
}

// publishNotes makes tables for readers from the writer's maps. Of two domains that claim
// one host, the older has it.
func (n *notes) publishNotes() {
	if len(n.changed) > 0 || n.patterns.Load() == nil {
		n.publishPatterns()
	}
	m := &domainTable{
		byHost: make(map[string]hostDomain, len(n.domains)), targets: map[waypost.DomainID]waypost.DomainTargets{},
		owners: map[waypost.DomainID]waypost.WorkspaceID{},
		shared: hostDomain{waypost.DefaultDomain, n.domains[waypost.DefaultDomain].Traits},
	}
	for id, d := range n.domains {
		if other, taken := m.byHost[d.Host]; !taken || id < other.id {
			m.byHost[d.Host] = hostDomain{id, d.Traits}
		}
		if d.Workspace != 0 {
			m.owners[id] = d.Workspace
		}
		if len(d.Root)+len(d.NotFound)+len(d.Maintenance) > 0 || d.CountUTM {
			m.targets[id] = d.DomainTargets
		}
	}
	n.hosts.Store(m)
	t := make(saltTable, 0, len(n.byDay))
	for day, salt := range n.byDay {
		t = append(t, daySalt{day, salt})
	}
	n.salts.Store(&t)
}

// loadNotes reads the records of domains, salts and patterns, and skips all others.
// Within each slot links lie before them, and ranges and leases between them.
func (st *store) loadNotes() (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("read domains, salts and patterns: %w", err)
		}
	}()
	it, err := st.pdb.NewIter(&pebble.IterOptions{LowerBound: recordStart, UpperBound: recordEnd})
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := it.Close(); err == nil {
			err = closeErr
		}
	}()
	seek := func(slot uint16, kind waypost.Kind) bool {
		return it.SeekGE(appendRecordKey(nil, slot, kind, 0, nil))
	}
	for ok := seek(0, waypost.KindDomain); ok; {
		key := it.Key()
		if len(key) < recordKeyHeader {
			return fmt.Errorf("a key of %d bytes", len(key))
		}
		slot, kind := binary.BigEndian.Uint16(key[1:]), waypost.Kind(key[3])
		switch {
		case kind < waypost.KindDomain:
			ok = seek(slot, waypost.KindDomain)
		case kind == waypost.KindRange, kind == waypost.KindLease:
			ok = seek(slot, waypost.KindSalt)
		case kind > waypost.KindPattern && slot >= waypost.Slots-1:
			ok = false
		case kind > waypost.KindPattern:
			ok = seek(slot+1, waypost.KindDomain)
		default:
			value, err := it.ValueAndErr()
			if err != nil {
				return err
			}
			var r waypost.Record
			if err := judgeRecord(key, value, &r); err != nil {
				return err
			}
			st.noteRecord(&r)
			ok = it.Next()
		}
	}
	st.publishNotes()
	return nil
}
