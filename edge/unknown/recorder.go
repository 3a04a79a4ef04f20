package unknown

import (
	"cmp"
	"hash/maphash"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"waypost"
)

// The buffers of visits. All of them together take 5,120 visits a second, which bounds
// the time that a flood costs, and less than a megabyte.
const (
	stripeCount = 16
	stripeSlots = 32
	ofNetwork   = 4 // visits of a network that a buffer takes until it is emptied
	networkSlot = 256

	// maxSent bounds a path as it was sent: each byte of a code may be escaped.
	maxSent = 3 * waypost.MaxUnknownPath
)

// Profiler distinguishes visitors. One goroutine calls it.
type Profiler interface {
	// Visitor returns the number of a visitor on the day of at, in Unix milliseconds, and
	// whether the agent is a bot's. The number is 0 without an address, or without the
	// salt of the day.
	Visitor(agent []byte, from netip.Addr, at int64) (visitor uint64, bot bool)
}

// Config configures a Recorder. The fields up to Logger are required.
type Config struct {
	Profiler Profiler
	URL      string // of the control plane
	Client   *http.Client
	Boot     waypost.BootID // this start of the edge
	Logger   *slog.Logger

	Metrics  prometheus.Registerer // nil: metrics are not registered
	Interval time.Duration         // of reports; default 5 s
	Tick     time.Duration         // between two emptyings of the buffers; default 100 ms
}

// Recorder counts visits of unknown addresses.
type Recorder struct {
	cfg     Config
	node    string
	seed    maphash.Seed
	stripes [stripeCount]stripe
	dropped [stripeCount]struct { // visits that found their buffer in use
		atomic.Uint64
		_ [120]byte
	}
	results *prometheus.CounterVec

	// Run owns the rest.
	spare []slot
	table table
	seq   uint64 // of the newest report
	buf   pathBuffer
}

// stripe buffers the visits of some networks.
type stripe struct {
	mu       sync.Mutex
	used     int
	slots    []slot
	networks [networkSlot]uint8 // visits in slots
	limited  uint64             // visits since the last emptying that networks had too many of
	full     uint64             // visits that had no room
	_        [128]byte
}

// slot is a visit in a buffer.
type slot struct {
	domain      waypost.DomainID
	traits      waypost.DomainTraits
	kind        waypost.UnknownKind
	at          int64
	from        netip.Addr
	network     uint64
	path, agent int // lengths
	text        [maxSent + waypost.MaxAgent]byte
}

// New makes a recorder. Until Run begins, it takes as many visits as its buffers hold.
func New(cfg Config) *Recorder {
	cfg.Interval = cmp.Or(cfg.Interval, 5*time.Second)
	cfg.Tick = cmp.Or(cfg.Tick, 100*time.Millisecond)
	r := &Recorder{cfg: cfg, seed: maphash.MakeSeed(), spare: make([]slot, stripeSlots), table: newTable()}
	for i := range r.stripes {
		r.stripes[i].slots = make([]slot, stripeSlots)
	}
	r.results = promauto.With(cfg.Metrics).NewCounterVec(prometheus.CounterOpts{
		Name: "waypost_unknown_visits_total",
		Help: "Visits of addresses that name no link, by what became of their counts: counted; not counted because only bots ask for the address (bot), " +
			"or because it may be private or is none of a person (unfit); dropped because a network asks for too many (limited), or for lack of room (full).",
	}, []string{"result"})
	for _, result := range results {
		r.results.WithLabelValues(result)
	}
	return r
}

// The values of the label result.
const (
	counted = "counted"
	ofBot   = "bot"
	unfit   = "unfit"
	limited = "limited"
	full    = "full"
)

var results = []string{counted, ofBot, unfit, limited, full}

// Record takes a visit, or drops it. Many goroutines may call it at once. It neither
// keeps the slices, nor allocates, nor waits.
func (r *Recorder) Record(v waypost.UnknownVisit) {
	network := r.networkOf(v.From)
	at := network % stripeCount
	s := &r.stripes[at]
	if !s.mu.TryLock() {
		r.dropped[at].Add(1)
		return
	}
	defer s.mu.Unlock()
	before := &s.networks[network/stripeCount%networkSlot]
	switch {
	case *before >= ofNetwork:
		s.limited++
		return
	case s.used == len(s.slots):
		s.full++
		return
	}
	*before++
	to := &s.slots[s.used]
	s.used++
	to.domain, to.traits, to.kind, to.at, to.from, to.network = v.Domain, v.Traits, v.Kind, v.At, v.From, network
	to.path = len(v.Path) // one that is too long is unfit
	to.agent = copy(to.text[copy(to.text[:maxSent], v.Path):], v.Agent[:min(len(v.Agent), waypost.MaxAgent)])
}

// networkOf returns a keyed hash of an IPv4 address, or of the /48 of an IPv6 one, which
// is the least that a site has.
func (r *Recorder) networkOf(from netip.Addr) uint64 {
	address := from.As16()
	if from.Unmap().Is6() {
		clear(address[6:])
	}
	return maphash.Bytes(r.seed, address[:])
}

// empty counts the visits in the buffers.
func (r *Recorder) empty() {
	for i := range r.stripes {
		s := &r.stripes[i]
		s.mu.Lock()
		visits := s.slots[:s.used]
		s.slots, s.used = r.spare, 0
		over, noRoom := s.limited, s.full
		s.limited, s.full = 0, 0
		clear(s.networks[:])
		s.mu.Unlock()
		r.results.WithLabelValues(limited).Add(float64(over))
		r.results.WithLabelValues(full).Add(float64(noRoom + r.dropped[i].Swap(0)))
		for j := range visits {
			r.results.WithLabelValues(r.count(&visits[j])).Inc()
		}
		r.spare = visits[:cap(visits)]
	}
}

// count counts one visit.
func (r *Recorder) count(s *slot) (result string) {
	if s.path > maxSent {
		return unfit
	}
	path, ok := r.buf.fitPath(s.text[:s.path], s.traits)
	if !ok {
		return unfit
	}
	visitor, bot := r.cfg.Profiler.Visitor(s.text[s.path:s.path+s.agent], s.from, s.at)
	return r.table.count(address{s.domain, waypost.Day(s.at), s.kind, path}, visitor&waypost.VisitorBits, bot, s.network, s.at)
}
