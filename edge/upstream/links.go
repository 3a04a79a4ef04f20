package upstream

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"waypost"
	"waypost/keyrange"
	"waypost/replication"
)

// Links is the replica, and the control plane behind it. Its methods may be called by
// many goroutines at once; Link waits for the control plane at most, and never
// allocates unless it asks.
type Links struct {
	cfg   Config
	space atomic.Pointer[keyrange.Space]   // nil: not known yet
	keys  atomic.Pointer[keyrange.Decoder] // nil: none are known
	wants chan struct{}                    // a token: there are prefixes without a key
	held  atomic.Pointer[holding]          // nil: no answer is ahead of the replica
	quiet atomic.Int64                     // Unix nanoseconds until which nothing is asked

	suspended atomic.Bool

	count [stripes]counters

	mu      sync.Mutex // of what follows; taken only to ask
	flights map[key]*flight
	unknown negatives
	breaker breaker
	rate    *rate.Limiter
}

// key is a link, without a pointer to follow.
type key struct {
	domain waypost.DomainID
	length uint8
	code   [keyrange.MaxCodeLength]byte
}

// flight is a question under way.
type flight struct {
	done   chan struct{} // closed when the rest is final
	record []byte        // nil: there is none, or nobody knows
	passed bool          // the replica knows better
}

// New makes Links. Nothing is asked before KeySpace is called.
func New(cfg Config) *Links {
	cfg = cfg.withDefaults()
	l := &Links{
		cfg: cfg, wants: make(chan struct{}, 1), flights: make(map[key]*flight), unknown: newNegatives(cfg.Remember),
		breaker: breaker{failures: cfg.Failures, min: cfg.MinPause, max: cfg.MaxPause},
		rate:    rate.NewLimiter(rate.Limit(cfg.PerSecond), cfg.PerSecond),
	}
	if cfg.Metrics != nil {
		cfg.Metrics.MustRegister(collector{l})
	}
	return l
}

// KeySpace says what generated codes look like: no others are asked for.
func (l *Links) KeySpace(s keyrange.Space) {
	l.space.Store(&s)
	l.want()
}

// Keys says how counters are told from codes: then only those are asked for whose counters can have been
// issued. Of a prefix without a key all are.
func (l *Links) Keys(d *keyrange.Decoder) { l.keys.Store(d) }

// Wants gives a token when Keys may be of use: after KeySpace, and when a code is asked for of whose prefix the key is
// not known.
func (l *Links) Wants() <-chan struct{} { return l.wants }

func (l *Links) want() {
	select {
	case l.wants <- struct{}{}:
	default:
	}
}

// Domain is the replica's.
func (l *Links) Domain(host []byte) (waypost.DomainID, bool) { return l.cfg.Replica.Domain(host) }

// Targets is the replica's.
func (l *Links) Targets(domain waypost.DomainID) waypost.DomainTargets {
	return l.cfg.Replica.Targets(domain)
}

// Link finds the record of a code in the replica, and otherwise in what the control
// plane answers. A visitor never sees a link in an older state than an earlier one
// has: an answer that is ahead of the replica stands until the replica has passed it. But
// for one that stands for longer than Config.HoldFor: after that the replica counts again, and
// of what it does not have the control plane is asked anew.
func (l *Links) Link(domain waypost.DomainID, code, buf []byte) (rec waypost.Record, grown []byte, found bool, err error) {
	// Looked at before the replica: what is not held any more the replica has, or has had its time.
	held := l.held.Load()
	var at waypost.Position
	if held != nil {
		at = l.cfg.Replica.Position()
	}
	rec, grown, found, err = l.cfg.Replica.Link(domain, code, buf)
	if err != nil {
		return rec, grown, found, err
	}
	if held != nil {
		if raw, ahead := l.ahead(held, at, domain, code); ahead {
			return decode(raw, grown)
		}
	}
	if found {
		return rec, grown, true, nil
	}
	k, ok := l.mayBeNew(domain, code)
	if !ok {
		return rec, grown, false, nil
	}
	raw, passed := l.ask(k, code)
	if passed {
		return l.cfg.Replica.Link(domain, code, grown[:0])
	}
	if raw == nil {
		return rec, grown, false, nil
	}
	return decode(raw, grown)
}

// decode gives a copy of a record behind buf.
func decode(raw, buf []byte) (rec waypost.Record, grown []byte, found bool, err error) {
	at := len(buf)
	buf = append(buf, raw...)
	if err := replication.DecodeRecord(buf[at:], &rec); err != nil {
		return waypost.Record{}, buf, false, err
	}
	return rec, buf, true, nil
}

// mayBeNew reports whether the control plane may know a code that the replica does not:
// it has the shape of a generated one, is of a prefix of which codes were issued, and has a counter that can be one
// of them, where counters can be told.
func (l *Links) mayBeNew(domain waypost.DomainID, code []byte) (k key, ok bool) {
	c := &l.count[code[len(code)-1]%stripes]
	space := l.space.Load()
	if space == nil || l.suspended.Load() || !l.cfg.Fresh() {
		c.skipped[stale].Add(1)
		return k, false
	}
	prefix, suffix, ok := space.Split(waypost.Code(code))
	if !ok {
		c.skipped[custom].Add(1)
		return k, false
	}
	if !l.cfg.Replica.Issuable(prefix) || !l.issued(space, prefix, suffix) {
		c.skipped[neverIssued].Add(1)
		return k, false
	}
	if until := l.quiet.Load(); until != 0 && l.cfg.Clock().UnixNano() < until {
		c.skipped[away].Add(1)
		return k, false
	}
	return newKey(domain, code), true
}

func (l *Links) issued(space *keyrange.Space, prefix int, suffix int64) bool {
	if d := l.keys.Load(); d != nil && d.Space() == *space {
		if counter, known := d.Counter(prefix, suffix); known {
			return l.cfg.Replica.Issued(prefix, counter)
		}
	}
	l.want()
	return true
}

func newKey(domain waypost.DomainID, code []byte) key {
	k := key{domain: domain, length: uint8(len(code))}
	copy(k.code[:], code)
	return k
}

// ask gives the control plane's record of a link, nil when it has none, or none can be
// had. Passed says that the replica has come as far as the answer.
func (l *Links) ask(k key, code []byte) (record []byte, passed bool) {
	c := &l.count[k.code[k.length-1]%stripes]
	f, lead, why := l.board(k)
	switch {
	case f == nil:
		c.skipped[why].Add(1)
		return nil, false
	case !lead:
		c.skipped[joined].Add(1)
		<-f.done // within the timeout
		return f.record, f.passed
	}
	result, failure := failed, error(nil)
	defer func() { l.land(k, f, result, failure); c.asked[result].Add(1) }()
	ctx, cancel := context.WithTimeout(context.Background(), l.cfg.Timeout)
	defer cancel()
	raw, head, err := l.cfg.Source.Ask(ctx, k.domain, code)
	own, holds := l.cfg.Replica.Cluster()
	at := l.cfg.Replica.Position()
	if err != nil || !holds || own != head.Cluster || at.Epoch != head.Position.Epoch {
		failure = cmp.Or(err, errHistory)
		return nil, false
	}
	if raw == nil {
		result = unknown
		return nil, false
	}
	var rec waypost.Record
	if err := replication.DecodeRecord(raw, &rec); err != nil || rec.Revision.Newer(head.Position.Revision()) {
		failure = cmp.Or(err, errBeyond)
		return nil, false
	}
	result = found
	if at.Seq >= head.Position.Seq {
		f.passed = true
		return nil, true
	}
	if !l.hold(k, raw, head.Position) {
		return nil, false // rather unknown than known and then unknown again
	}
	f.record = raw
	return raw, false
}

var (
	errHistory = errors.New("the answer is of another history than the replica") // for a moment, after a failover
	errBeyond  = errors.New("the answer has a record of after its own position")
)

// board finds the question for a link that is under way, or begins one, in which case
// the caller leads. None is begun when that would be too much: why says in which way.
func (l *Links) board(k key) (f *flight, lead bool, why skip) {
	now := l.cfg.Clock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if f := l.flights[k]; f != nil {
		return f, false, 0
	}
	switch {
	case l.suspended.Load():
		return nil, false, stale
	case l.unknown.has(k, now):
		return nil, false, remembered
	case len(l.flights) >= l.cfg.AtOnce, l.heldCount(now) >= l.cfg.Hold, !l.rate.AllowN(now, 1):
		return nil, false, limited
	case !l.breaker.allows(now):
		return nil, false, away
	}
	f = &flight{done: make(chan struct{})}
	l.flights[k] = f
	return f, true, 0
}

// land ends a question.
func (l *Links) land(k key, f *flight, r result, failure error) {
	now := l.cfg.Clock()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.flights, k)
	close(f.done)
	if r == unknown {
		l.unknown.add(k, now.Add(l.cfg.Negative))
	}
	if opened := l.breaker.note(r != failed, now); opened > 0 {
		l.quiet.Store(now.Add(opened).UnixNano())
		l.cfg.Logger.Warn("the control plane does not answer questions for new links; none are asked for a while", "pause", opened.Round(time.Millisecond), "error", failure)
	}
}
