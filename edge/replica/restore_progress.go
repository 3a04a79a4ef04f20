package replica

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strconv"
	"strings"

	"waypost"
	"waypost/replication"
)

// The directory of a restore holds its tables and the file PROGRESS, which names them. It
// is replaced whenever more slots are durable. A table that it does not name is ignored.
const progressName = "PROGRESS"

// maxProgress bounds PROGRESS, which has a line of about 150 bytes for each table. There
// are about as many tables as slots at the most.
const maxProgress = 16 << 20

// progress is the content of PROGRESS after a checksum in hex and a line feed.
type progress struct {
	Format          uint32
	Cluster         replication.Cluster
	Next            int
	Lowest, Highest string // positions
	Digest          uint64 // at Highest
	Tables          []madeTable
}

// parse returns the part from which a follower continues.
func (p *progress) parse() (replication.Progress, error) {
	lowest, err1 := waypost.ParsePosition(p.Lowest)
	highest, err2 := waypost.ParsePosition(p.Highest)
	return replication.Progress{Next: p.Next, Lowest: lowest, Highest: highest, Digest: p.Digest}, errors.Join(err1, err2)
}

// save makes the present tables, and the progress that they hold, durable.
func (r *restore) save(p replication.Progress) error {
	content, err := json.Marshal(progress{storeFormat, r.cluster, p.Next, p.Lowest.String(), p.Highest.String(), p.Digest, r.tables.made})
	if err != nil {
		return fmt.Errorf("write %s: %w", progressName, err)
	}
	if err := r.db.storage.syncDir(r.dir()); err != nil { // tables are durable before PROGRESS names them
		return err
	}
	r.db.cfg.Points.Hit("keep progress: begun")
	line := fmt.Appendf(nil, "%08x\n", crc32.Checksum(content, castagnoli))
	if _, err := r.db.storage.replaceFile(r.dir(), progressName, append(line, content...)); err != nil {
		return err
	}
	r.db.cfg.Points.Hit("keep progress: done")
	return nil
}

// readProgress reads the PROGRESS of a restore. It returns false for an unreadable one.
func (s *storage) readProgress(restore string) (p progress, ok bool, err error) {
	fs, dir := s.cfg.FS, s.path(restore)
	f, err := fs.Open(fs.PathJoin(dir, progressName))
	if errors.Is(err, os.ErrNotExist) {
		return p, false, nil
	}
	if err != nil {
		return p, false, fmt.Errorf("open %s: %w", progressName, err)
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxProgress))
	if err = errors.Join(err, f.Close()); err != nil {
		return p, false, fmt.Errorf("read %s: %w", progressName, err)
	}
	sum, content, _ := strings.Cut(string(raw), "\n")
	if n, err := strconv.ParseUint(sum, 16, 32); err != nil || uint32(n) != crc32.Checksum([]byte(content), castagnoli) {
		return p, false, nil
	}
	if err := json.Unmarshal([]byte(content), &p); err != nil || p.Next < 1 || p.Next > waypost.Slots {
		return p, false, nil
	}
	if _, err := p.parse(); err != nil {
		return p, false, nil
	}
	for i := range p.Tables {
		t := &p.Tables[i]
		info, err := fs.Stat(fs.PathJoin(dir, tableName(t.Number)))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return p, false, fmt.Errorf("look for a table: %w", err)
		}
		if err != nil || info.Size() != t.Bytes {
			return p, false, nil
		}
	}
	return p, true, nil
}

// resume continues an interrupted restore, if the directory holds one of the same cluster
// and format.
func (r *restore) resume() (bool, error) {
	db := r.db
	live := ""
	if st := db.serving.live.Load(); st != nil {
		live = st.name
	}
	n, err := db.storage.sweepRestores(live)
	if n == 0 || err != nil {
		return false, err
	}
	r.number = n
	p, ok, err := db.storage.readProgress(restoreName(n))
	if err != nil {
		return false, err
	}
	if !ok || p.Cluster != r.cluster || p.Format != storeFormat {
		return false, r.remove()
	}
	db.cfg.Points.Hit("resume restore: begun")
	r.durable, r.tables.made = true, p.Tables
	for i := range p.Tables {
		r.tables.next = max(r.tables.next, p.Tables[i].Number)
	}
	if r.resumed, err = p.parse(); err != nil {
		return false, err
	}
	r.kept = r.resumed
	if err := db.cfg.FS.RemoveAll(db.cfg.FS.PathJoin(r.dir(), "links")); err != nil {
		return false, fmt.Errorf("remove links: %w", err)
	}
	if p.Next < waypost.Slots {
		return true, nil
	}
	return true, r.reopen()
}

// reopen opens the store that was made of the tables, if it was completed.
func (r *restore) reopen() error {
	st, err := r.db.storage.openExisting(storeName(r.number))
	if err == nil && st.torn { // its digest says nothing about its records
		err = errors.Join(errManifest, st.closePebble())
	}
	if err != nil {
		if !unreadable(err) {
			return err
		}
		if err := r.db.cfg.FS.RemoveAll(r.db.storage.path(storeName(r.number))); err != nil {
			return fmt.Errorf("remove half a store: %w", err)
		}
		return nil
	}
	s := st.applied.Load()
	if s.cluster != r.cluster || s.position.Epoch != r.resumed.Lowest.Epoch || s.position.Seq < r.resumed.Lowest.Seq {
		return errors.Join(errors.New("the store of a restore does not fit its tables"), st.closePebble())
	}
	r.db.cfg.Points.Hit("resume restore: opened")
	r.st, r.resumed.Lowest = st, s.position
	if s.position.Seq >= r.resumed.Highest.Seq {
		r.resumed.Highest, r.resumed.Digest = s.position, s.digest
	}
	return nil
}
