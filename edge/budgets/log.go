package budgets

import (
	"crypto/rand"
	"errors"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waypost"
	"waypost/internal/failpoint"
)

// grantLog keeps the totals of an edge's accounts and the newest epoch on the disk. Its
// lock is held from the plan of a change until the change is durable and in the ledger,
// so that the records are in the order of the changes. No visitor takes the lock.
type grantLog struct {
	dir      directory
	boot     waypost.BootID // names the file
	ledger   *ledger
	logger   *slog.Logger
	failures prometheus.Counter

	broken    atomic.Bool   // the file cannot be written: no click is spent
	epoch     atomic.Uint32 // the newest that was seen; changed with the lock
	adoptions atomic.Int64  // how often files of other boots were taken over; so is it

	mu        sync.Mutex
	file      *os.File             // nil: not open yet, or closed
	sync      func(*os.File) error // makes written entries durable
	size      int64                // of the file
	rewriteAt int64                // at that size the file is replaced
	tried     time.Time            // when it was last to be replaced
	disk      diskID               // zero before the files of earlier boots were read
	adopting  bool                 // the files of other boots are to be taken over
	lost      bool                 // a file of an earlier boot could not be read
	killed    bool                 // an earlier boot was killed
}

// save writes the present state to a new file, with the accounts of earlier boots if they
// are to be adopted. The lock is held, as for all methods except seeEpoch
// and followsKill.
func (l *grantLog) save() error {
	if l.file == nil { // later the directory has to come back
		if err := os.MkdirAll(l.dir.root, 0o700); err != nil {
			return err
		}
	}
	if !l.adopting {
		return l.rewrite()
	}
	others, err := l.dir.readOthers(l.boot)
	if err != nil {
		return err
	}
	if others.fault != nil && !l.lost {
		l.lost = true
		l.logger.Error("cannot read grants of click budgets; all of them count as spent", "error", others.fault)
		_, _ = rand.Read(l.disk[:]) // never fails
	} else if l.disk == (diskID{}) {
		if l.disk = others.disk; l.disk == (diskID{}) {
			_, _ = rand.Read(l.disk[:]) // never fails
		}
	}
	l.killed = l.killed || others.killed
	l.epoch.Store(max(l.epoch.Load(), others.epoch))
	l.ledger.inherit(others.accounts)
	if err := l.rewrite(); err != nil {
		return err
	}
	l.adoptions.Add(1)
	if err := errors.Join(l.dir.setAside(others.damaged), l.dir.remove(others.files)); err != nil {
		return err
	}
	l.adopting = false
	return nil
}

// rewrite replaces the file by one with the present state. After a failure it is unknown
// which of the two is there, and no click is spent.
func (l *grantLog) rewrite() error {
	text := appendEpoch([]byte(magic), l.epoch.Load())
	if l.disk != (diskID{}) {
		text = appendDisk(text, l.disk)
	}
	text, accounts := l.ledger.appendTotals(text)
	f, err := l.dir.write(l.boot, text)
	if err != nil {
		l.broken.Store(true)
		return err
	}
	if l.file != nil {
		_ = l.file.Close() // replaced
	}
	l.file, l.size, l.rewriteAt = f, int64(len(text)), rewriteBytes+8*int64(accounts)*maxBody
	l.broken.Store(false)
	return nil
}

// mend writes a new file when the present one has failed, or has become large, or when
// accounts of earlier boots could not be adopted.
func (l *grantLog) mend() {
	now := time.Now()
	if !l.broken.Load() && !l.adopting && l.size < l.rewriteAt || now.Sub(l.tried) < rewriteInterval {
		return
	}
	l.tried = now
	if err := l.save(); err != nil {
		l.fail("cannot write the grants of click budgets", err)
	}
}

// keep makes totals durable. It reports false when that failed: then no click is spent
// before a whole new file could be written.
func (l *grantLog) keep(all []changed) bool {
	var records []byte
	for _, c := range all {
		records = appendAccount(records, c.account.entry, c.totals)
	}
	return len(records) == 0 || l.append(records)
}

func (l *grantLog) append(records []byte) bool {
	if l.broken.Load() || l.file == nil {
		return false
	}
	_, err := l.file.Write(records)
	if err == nil {
		err = l.sync(l.file)
	}
	if err != nil {
		l.fail("cannot keep grants of click budgets; no click of them is spent", err)
		l.broken.Store(true)
		return false
	}
	failpoint.Hit("grants: durable")
	l.size += int64(len(records))
	return true
}

// seeEpoch remembers an epoch, and returns the newest that was seen. The lock is not
// held.
func (l *grantLog) seeEpoch(epoch uint32) uint32 {
	if epoch <= l.epoch.Load() {
		return l.epoch.Load()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if epoch > l.epoch.Load() && l.append(appendEpoch(nil, epoch)) {
		l.epoch.Store(epoch)
	}
	return l.epoch.Load()
}

// followsKill reports whether an earlier boot was killed. The lock is not held.
func (l *grantLog) followsKill() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.killed
}

// close closes the file of a boot that has given back all its clicks.
func (l *grantLog) close() {
	l.append(appendRecord(nil, []byte{kindEnd}))
	if l.file != nil {
		_ = l.file.Close() // everything in it is synced
		l.file = nil
	}
}

func (l *grantLog) fail(message string, err error) {
	l.failures.Inc()
	l.logger.Warn(message, "error", err)
}
