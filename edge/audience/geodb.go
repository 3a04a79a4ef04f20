package audience

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/oschwald/maxminddb-golang/v2"
	"github.com/prometheus/client_golang/prometheus"
)

// GeoDBConfig says where the database lies. Zero fields mean the default.
type GeoDBConfig struct {
	// File is a database of countries or cities in MaxMind's format, such as
	// GeoLite2-City.mmdb or dbip-city-lite.mmdb. It is held in memory.
	File    string                // required
	Every   time.Duration         // between looks at the file; default 5 s
	Logger  *slog.Logger          // default: discarded
	Metrics prometheus.Registerer // default: none
}

// GeoDB locates visitors by a file that may be replaced at any time. A file that cannot
// be used leaves the previous one in place. Rules and statistics share one GeoDB.
type GeoDB struct {
	cfg     GeoDBConfig
	current atomic.Pointer[database] // nil: there is none yet

	seen             fileState // the newest that was tried; by one goroutine at a time
	failures, errors atomic.Uint64
}

// database is one state of the file.
type database struct {
	reader   *maxminddb.Reader
	known    locationCache
	reported atomic.Bool // an error of it was logged
}

// fileState distinguishes a file from the previous one.
type fileState struct {
	size    int64
	changed time.Time
	missing bool
}

// maxDatabase bounds the file, in bytes; databases of cities have about a tenth.
const maxDatabase = 1 << 30

// OpenGeoDB reads the file. One that cannot be used is logged: without a database
// redirects and clicks are the same, and the file may yet come.
func OpenGeoDB(cfg GeoDBConfig) *GeoDB {
	cfg.Every = cmp.Or(cfg.Every, 5*time.Second)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	p := &GeoDB{cfg: cfg}
	if cfg.Metrics != nil {
		cfg.Metrics.MustRegister(geoDBMetrics{p})
	}
	p.reloadFile()
	return p
}

// Run looks at the file again and again until ctx ends.
func (p *GeoDB) Run(ctx context.Context) {
	tick := time.NewTicker(p.cfg.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			p.reloadFile()
		}
	}
}

// Built returns when the database was built, zero without a database.
func (p *GeoDB) Built() time.Time {
	if p == nil {
		return time.Time{}
	}
	if db := p.current.Load(); db != nil {
		return db.reader.Metadata.BuildTime()
	}
	return time.Time{}
}

// reloadFile takes the file if it is another than the last one that was looked at.
func (p *GeoDB) reloadFile() {
	now := stateOf(p.cfg.File)
	if now == p.seen {
		return
	}
	db, err := readDatabase(p.cfg.File)
	if after := stateOf(p.cfg.File); after != now {
		return // it is being written: the next look finds it as it is then
	}
	p.seen = now
	if err != nil {
		p.failures.Add(1)
		p.cfg.Logger.Error("cannot use the GeoIP database", "file", p.cfg.File, "error", err, "keeps_the_one_before", p.current.Load() != nil)
		return
	}
	p.current.Store(db)
	p.cfg.Logger.Info("read the GeoIP database", "file", p.cfg.File, "type", db.reader.Metadata.DatabaseType, "built", db.reader.Metadata.BuildTime())
}

func stateOf(file string) fileState {
	info, err := os.Stat(file)
	if err != nil {
		return fileState{missing: true}
	}
	return fileState{size: info.Size(), changed: info.ModTime()}
}

// CheckGeoDB says why a file cannot be used.
func CheckGeoDB(file string) error {
	_, err := readDatabase(file)
	return err
}

// readDatabase reads a whole file. It does not map the file, because a write in place
// could then end the process.
func readDatabase(file string) (db *database, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxDatabase {
		return nil, fmt.Errorf("%s is no regular file of at most %d bytes", file, maxDatabase)
	}
	content := make([]byte, info.Size())
	if _, err := io.ReadFull(f, content); err != nil {
		return nil, err
	}
	return newDatabase(content)
}

// newDatabase checks the kind of a database, and samples places all over it.
func newDatabase(content []byte) (db *database, err error) {
	defer func() {
		if p := recover(); p != nil {
			db, err = nil, fmt.Errorf("opening it panicked: %v", p)
		}
	}()
	reader, err := maxminddb.OpenBytes(content)
	if err != nil {
		return nil, err
	}
	kind := strings.ToLower(reader.Metadata.DatabaseType)
	if !strings.Contains(kind, "city") && !strings.Contains(kind, "country") && !strings.Contains(kind, "enterprise") {
		return nil, fmt.Errorf("it is a database of type %.64q, which has neither countries nor cities", reader.Metadata.DatabaseType)
	}
	db = &database{reader: reader}
	for n := range 4096 {
		addr := netip.AddrFrom4([4]byte{byte(n >> 4), byte(n << 4), byte(n * 7), 1})
		if n%4 == 3 && reader.Metadata.IPVersion == 6 {
			addr = netip.AddrFrom16([16]byte{0x20 | byte(n>>7), byte(n), byte(n * 7), byte(n * 13)})
		}
		if _, err := db.find(addr); err != nil {
			return nil, err
		}
	}
	return db, nil
}

// failed notes that an address could not be looked up, and logs the first time.
func (p *GeoDB) failed(db *database, err error) {
	p.errors.Add(1)
	if db.reported.CompareAndSwap(false, true) {
		p.cfg.Logger.Error("the GeoIP database is broken in parts", "file", p.cfg.File, "error", err)
	}
}
