package replica

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"
	"strings"

	"github.com/cockroachdb/errors/oserror"

	"waypost"
	"waypost/replication"
)

// The directory of a restore holds its tables, and the file PROGRESS, which says how far they
// reach. It is replaced whenever more slots are durable. A table that it does not name
// counts for nothing.
const progressName = "PROGRESS"

// maxProgress bounds PROGRESS: it has a line of about 150 bytes for each table, of which
// there are about as many as slots at the most.
const maxProgress = 16 << 20

// progress is what PROGRESS says, behind a checksum in hex and a line feed.
type progress struct {
	Format          uint32
	Cluster         replication.Cluster
	Next            int
	Lowest, Highest string // positions
	Digest          uint64 // at Highest
	Tables          []madeTable
}

// told is the part of it that a follower goes on from.
func (p *progress) told() (replication.Progress, error) {
	lowest, err1 := waypost.ParsePosition(p.Lowest)
	highest, err2 := waypost.ParsePosition(p.Highest)
	return replication.Progress{Next: p.Next, Lowest: lowest, Highest: highest, Digest: p.Digest}, errors.Join(err1, err2)
}

func (r *restore) dir() string { return fmt.Sprintf("%s%06d", restorePrefix, r.number) }

func tableName(number int) string { return fmt.Sprintf("%06d.sst", number) }

func (r *restore) tablePath(number int) string {
	return r.db.fs.PathJoin(r.db.path(r.dir()), tableName(number))
}

// save makes the tables that there are, and what they hold, durable.
func (r *restore) save(p replication.Progress) error {
	content, err := json.Marshal(progress{r.format, r.cluster, p.Next, p.Lowest.String(), p.Highest.String(), p.Digest, r.tables})
	if err != nil {
		return fmt.Errorf("write %s: %w", progressName, err)
	}
	dir := r.db.path(r.dir())
	if err := r.db.syncDir(dir); err != nil { // no table comes later than its name
		return err
	}
	r.db.cfg.Points.Hit("keep progress: begun")
	line := fmt.Appendf(nil, "%08x\n", crc32.Checksum(content, castagnoli))
	if _, err := r.db.replaceFile(dir, progressName, append(line, content...)); err != nil {
		return err
	}
	r.whole = len(r.tables)
	r.db.cfg.Points.Hit("keep progress: done")
	return nil
}

// readProgress reads the PROGRESS of a restore. What makes no sense is none.
func (db *DB) readProgress(dir string) (p progress, ok bool, err error) {
	f, err := db.fs.Open(db.fs.PathJoin(db.path(dir), progressName))
	if oserror.IsNotExist(err) {
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
	if _, err := p.told(); err != nil {
		return p, false, nil
	}
	for i := range p.Tables {
		t := &p.Tables[i]
		info, err := db.fs.Stat(db.fs.PathJoin(db.path(dir), tableName(t.Number)))
		if err != nil && !oserror.IsNotExist(err) {
			return p, false, fmt.Errorf("look for a table: %w", err)
		}
		if err != nil || info.Size() != t.Bytes {
			return p, false, nil
		}
	}
	return p, true, nil
}

// restoreNumbers lists the directories of restores, by number.
func (db *DB) restoreNumbers() (numbers []int, err error) {
	all, err := db.fs.List(db.cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("list the replica's directory: %w", err)
	}
	for _, name := range all {
		text, ok := strings.CutPrefix(name, restorePrefix)
		if n, err := strconv.Atoi(text); ok && err == nil {
			numbers = append(numbers, n)
		}
	}
	return numbers, nil
}

// sweepRestores removes the files of restores on which none can go on, and gives the number
// of the one that is left, or 0.
func (db *DB) sweepRestores(live string) (unfinished int, err error) {
	numbers, err := db.restoreNumbers()
	if err != nil {
		return 0, err
	}
	for _, n := range numbers {
		r := restore{db: db, number: n}
		_, ok, err := db.readProgress(r.dir())
		if err != nil {
			return 0, err
		}
		if ok && storeName(n) > live && n > unfinished {
			n, unfinished = unfinished, n
		}
		if n == 0 {
			continue
		}
		r = restore{db: db, number: n, keep: storeName(n) == live}
		if err := r.remove(); err != nil {
			return 0, fmt.Errorf("remove what a restore has left: %w", err)
		}
	}
	return unfinished, nil
}

// resume goes on with a restore that was interrupted, if there is one that fits.
func (r *restore) resume() (bool, error) {
	db := r.db
	live := ""
	if st := db.live.Load(); st != nil {
		live = st.name
	}
	n, err := db.sweepRestores(live)
	if n == 0 || err != nil {
		return false, err
	}
	r.number = n
	p, ok, err := db.readProgress(r.dir())
	if err != nil {
		return false, err
	}
	if !ok || p.Cluster != r.cluster || p.Format != r.format {
		return false, r.remove()
	}
	db.cfg.Points.Hit("resume restore: begun")
	r.durable, r.tables, r.whole = true, p.Tables, len(p.Tables)
	for i := range p.Tables {
		r.next = max(r.next, p.Tables[i].Number)
	}
	if r.begun, err = p.told(); err != nil {
		return false, err
	}
	r.kept = r.begun
	links := db.fs.PathJoin(db.path(r.dir()), "links")
	if err := db.fs.RemoveAll(links); err != nil {
		return false, fmt.Errorf("remove links: %w", err)
	}
	if p.Next < waypost.Slots {
		return true, nil
	}
	return true, r.reopen()
}

// reopen opens the store that the tables were put into, if that was completed.
func (r *restore) reopen() error {
	st, err := r.db.openExisting(storeName(r.number))
	if err != nil {
		if !unreadable(err) {
			return err
		}
		if err := r.db.fs.RemoveAll(r.db.path(storeName(r.number))); err != nil {
			return fmt.Errorf("remove half a store: %w", err)
		}
		return nil
	}
	s := st.applied.Load()
	if s.cluster != r.cluster || s.position.Epoch != r.begun.Lowest.Epoch || s.position.Seq < r.begun.Lowest.Seq {
		return errors.Join(errors.New("the store of a restore is not of its tables"), st.closePebble())
	}
	r.db.cfg.Points.Hit("resume restore: opened")
	r.st, r.begun.Lowest = st, s.position
	if s.position.Seq >= r.begun.Highest.Seq {
		r.begun.Highest, r.begun.Digest = s.position, s.digest
	}
	return nil
}
