package postgres

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"waypost"
)

// Memory keeps one small document on disk. Save is durable, and all or nothing, when it
// returns; Load returns nil if nothing was ever saved.
type Memory interface {
	Load() ([]byte, error)
	Save(document []byte) error
	// SetAside keeps a document that cannot be read out of the way, for people to look at.
	SetAside() error
}

// watchInterval is the time between looks at the changes of other control planes. The gap
// of a new epoch covers keys that were issued since the last look.
const watchInterval = 5 * time.Second

// rememberedRange is a range as the highWaterMark has seen it: counters below Next may
// have been issued.
type rememberedRange struct {
	Prefix int    `json:"prefix"`
	Region string `json:"region"`
	Lo     int64  `json:"lo"`
	Hi     int64  `json:"hi"`
	Next   int64  `json:"next"`
}

// sight is the state of the changelog and the key ranges that this process has seen.
type sight struct {
	cluster  string // "" until it is known
	position waypost.Position
	at       float64 // of the last whole look in the epoch, seconds since 1970 by PostgreSQL's clock; or 0
	keys     []rememberedRange
	epoch    uint32 // that the keys were seen in

	superseding waypost.Epoch // the newest epoch that a follower has seen, and PostgreSQL did not have; or zero
}

func (s *sight) revision() waypost.Revision { return s.position.Revision() }

// checkCluster refuses a database of another cluster, and one that was set up again,
// because it would issue every key a second time.
func (s *sight) checkCluster(cluster *string) error {
	if s.cluster == "" || cluster != nil && *cluster == s.cluster {
		return nil
	}
	return waypost.Errorf(waypost.EUnavailable, "the data directory remembers the keys of another cluster (%s) than this database's: restore that database, or give the control plane another data directory if this is a new cluster with a secret of its own", s.cluster)
}

// superseded returns an epoch beyond PostgreSQL's own that a follower has seen, or nil.
func (s *sight) superseded(own waypost.Epoch) *waypost.Epoch {
	if !beyond(s.superseding, own) {
		return nil
	}
	return &s.superseding
}

// beyond reports whether an epoch is not in the past of PostgreSQL's own: it is newer, or
// another one with the same ordinal, as when two databases are promoted or restored
// within one minute.
func beyond(seen, own waypost.Epoch) bool {
	return seen.Ordinal > own.Ordinal || seen.Ordinal == own.Ordinal && seen.ID != own.ID
}

// foreign reports whether the keys were seen in an epoch before the given one, which does
// not know of the keys yet.
func (s *sight) foreign(epoch uint32) bool { return s.epoch != 0 && epoch > s.epoch }

func (s *sight) ranges() []byte {
	b, err := json.Marshal(s.keys)
	if err != nil || s.keys == nil {
		return []byte("[]") // strings and numbers always marshal
	}
	return b
}

// mark returns the argument mark of changelog_open_epoch, nil if nothing was seen.
func (s *sight) mark() []byte {
	if s.epoch == 0 {
		return nil
	}
	return fmt.Appendf(nil, `{"at": %f, "ranges": %s}`, s.at, s.ranges())
}

// highWaterMark remembers the newest state of the changelog and the key ranges that this
// control plane has seen, so that it notices a database that went back in time, and no
// key is issued again. It may be used by many goroutines.
type highWaterMark struct {
	memory Memory
	log    *slog.Logger

	saving  sync.Mutex // held while the document is written
	saved   waypost.Position
	savedAt time.Time
	unsaved atomic.Pointer[error] // why the newest save failed; nil: it did not

	mu   sync.Mutex
	seen sight
}

// savedAtLeast is the interval after which even an unchanged document is written, to
// renew its time.
const savedAtLeast = 30 * time.Second

// document is the form of a sight on disk.
type document struct {
	Version  int               `json:"version"`
	Cluster  string            `json:"cluster"`
	Position string            `json:"position"`
	At       float64           `json:"at"`
	Epoch    uint32            `json:"epoch"`
	Ranges   []rememberedRange `json:"ranges"`

	// Superseding is an epoch, as the position before its first transaction.
	Superseding string `json:"superseding,omitempty"`
}

const (
	documentVersion = 1
	maxPrefixes     = 62 * 62 * 62
)

// loadHighWaterMark reads the saved document. It sets an unreadable document aside, and
// then remembers nothing, as on the first start.
func loadHighWaterMark(memory Memory, log *slog.Logger) (*highWaterMark, error) {
	m := &highWaterMark{memory: memory, log: log}
	if memory == nil {
		return m, nil
	}
	text, err := memory.Load()
	if err != nil {
		return nil, fmt.Errorf("recall which keys were issued: %w", err)
	}
	if text == nil {
		return m, nil
	}
	if m.seen, err = readDocument(text); err != nil {
		log.Error("cannot read which keys were issued, setting the file aside", "error", err)
		if err := memory.SetAside(); err != nil {
			return nil, fmt.Errorf("set aside what cannot be read: %w", err)
		}
	}
	return m, nil
}

// sealed adds a line with the document's checksum: a digit that has flipped could
// pass for a number.
func sealed(text []byte) []byte {
	return fmt.Appendf(bytes.Clone(text), "\n%08x\n", crc32.Checksum(text, castagnoli))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func readDocument(kept []byte) (sight, error) {
	text, _, _ := bytes.Cut(kept, []byte{'\n'})
	if !bytes.Equal(sealed(text), kept) {
		return sight{}, errors.New("its checksum does not hold")
	}
	var d document
	if err := json.Unmarshal(text, &d); err != nil {
		return sight{}, err
	}
	if d.Version != documentVersion || d.Cluster == "" {
		return sight{}, fmt.Errorf("version %d is unknown", d.Version)
	}
	p, err := waypost.ParsePosition(d.Position)
	if err != nil {
		return sight{}, err
	}
	var superseding waypost.Position
	if d.Superseding != "" {
		if superseding, err = waypost.ParsePosition(d.Superseding); err != nil {
			return sight{}, err
		}
	}
	if d.At < 0 || d.At > 1e11 {
		return sight{}, fmt.Errorf("%g is no time", d.At)
	}
	for _, r := range d.Ranges {
		if _, err := waypost.ParseRegion(r.Region); err != nil {
			return sight{}, fmt.Errorf("a range of prefix %d has no region: %w", r.Prefix, err)
		}
		if r.Prefix < 0 || r.Prefix >= maxPrefixes || r.Lo < 0 || r.Next < r.Lo || r.Hi < r.Next || r.Lo >= r.Hi {
			return sight{}, fmt.Errorf("a range of prefix %d is not one", r.Prefix)
		}
	}
	return sight{cluster: d.Cluster, position: p, at: d.At, keys: d.Ranges, epoch: d.Epoch, superseding: superseding.Epoch}, nil
}

// current returns the present state.
func (m *highWaterMark) current() sight {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seen
}

// beginEpoch forgets the state that the database was informed of, unless keys of another
// epoch were seen since.
func (m *highWaterMark) beginEpoch(told sight) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seen.epoch == told.epoch {
		m.seen = sight{cluster: m.seen.cluster, superseding: m.seen.superseding}
	}
}

// saw notes a position that is committed.
func (m *highWaterMark) saw(p waypost.Position) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p.Revision().Newer(m.seen.revision()) {
		m.seen.position = p
	}
}

// supersede notes an epoch that a follower has seen and PostgreSQL does not have, and
// makes that durable, so that PostgreSQL takes the follower over neither after a restart
// nor after a restore. After a failed save, a later save has it.
func (m *highWaterMark) supersede(by waypost.Epoch) {
	m.mu.Lock()
	news := beyond(by, m.seen.superseding)
	if news {
		m.seen.superseding = by
	}
	m.mu.Unlock()
	if news {
		m.save()
	}
}

// leased notes a block that is about to be issued and makes that durable. After a failed
// save only the database and this process have the block.
func (m *highWaterMark) leased(r rememberedRange, epoch uint32) {
	m.mu.Lock()
	if m.seen.epoch != 0 && m.seen.epoch != epoch {
		m.mu.Unlock()
		return // Watch has to inform the new epoch first, and then learns of the block
	}
	m.seen.epoch = epoch
	keys := make([]rememberedRange, 0, len(m.seen.keys)+1) // others may hold the old slice
	known := false
	for _, k := range m.seen.keys {
		if k.Prefix == r.Prefix && k.Lo <= r.Lo && r.Next <= k.Hi {
			k.Next, known = max(k.Next, r.Next), true
		}
		keys = append(keys, k)
	}
	if !known {
		keys = append(keys, r)
	}
	m.seen.keys = keys
	m.mu.Unlock()
	m.save()
}

// learn takes in a complete look at the database. It ignores a look at another epoch,
// which must first learn of the keys of this one.
func (m *highWaterMark) learn(cluster string, p waypost.Position, keys []rememberedRange, at float64) {
	m.mu.Lock()
	if m.seen.epoch != 0 && m.seen.epoch != p.Epoch.Ordinal {
		m.mu.Unlock()
		return
	}
	keys = remembering(keys, m.seen.keys)
	if p.Revision().Newer(m.seen.revision()) {
		m.seen.position = p
	}
	m.seen.cluster, m.seen.keys, m.seen.epoch, m.seen.at = cluster, keys, p.Epoch.Ordinal, at
	m.mu.Unlock()
	if !m.fresh(p) {
		m.save()
	}
}

// remembering adds to a look the known leases beyond it, because blocks are leased while
// the look is under way.
func remembering(look, known []rememberedRange) []rememberedRange {
	at := make(map[int][]int, len(look)) // by prefix
	for i := range look {
		at[look[i].Prefix] = append(at[look[i].Prefix], i)
	}
	for _, k := range known {
		if at[k.Prefix] == nil {
			look = append(look, k)
		}
		for _, i := range at[k.Prefix] {
			if r := &look[i]; k.Lo < r.Hi && k.Next > r.Next {
				r.Next = min(r.Hi, k.Next)
			}
		}
	}
	return look
}

// fresh reports whether the document need not be written for a position.
func (m *highWaterMark) fresh(p waypost.Position) bool {
	m.saving.Lock()
	defer m.saving.Unlock()
	return m.unsaved.Load() == nil && p == m.saved && time.Since(m.savedAt) < savedAtLeast
}

// save writes the document. A failure, such as of a full disk, stops nothing: this
// process knows what the document lacks, and if PostgreSQL goes back after the process
// has ended, the time in the older document makes the gap of the new epoch larger.
func (m *highWaterMark) save() {
	if m.memory == nil {
		return
	}
	m.saving.Lock()
	defer m.saving.Unlock()
	seen := m.current()
	if seen.cluster == "" {
		return // the first look has it
	}
	d := document{
		Version: documentVersion, Cluster: seen.cluster, Position: seen.position.String(), At: seen.at, Epoch: seen.epoch, Ranges: seen.keys,
	}
	if seen.superseding.Ordinal != 0 {
		d.Superseding = waypost.Position{Epoch: seen.superseding}.String()
	}
	text, err := json.Marshal(d)
	if err == nil {
		err = m.memory.Save(sealed(text))
	}
	if err != nil {
		if m.unsaved.Swap(&err) == nil {
			m.log.Error("cannot remember on the disk which keys were issued", "error", err)
		}
		return
	}
	if m.unsaved.Swap(nil) != nil {
		m.log.Info("remembers on the disk again which keys were issued")
	}
	m.saved, m.savedAt = seen.position, time.Now()
}
