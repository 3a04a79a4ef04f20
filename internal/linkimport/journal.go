package linkimport

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// maxEntry bounds one line of a journal: the refused rows of one batch fit.
const maxEntry = 64 << 20

// Source identifies the file and the destination of an import. A journal serves one only.
type Source struct {
	SHA256    string `json:"sha256"` // of the whole file, in hex
	Size      int64  `json:"size"`   // in bytes
	API       string `json:"api"`
	Workspace string `json:"workspace"`        // slug of that which the links are for
	Domain    string `json:"domain,omitempty"` // that rows without one go to
	Format    Format `json:"format,omitempty"` // as it was given
	Site      string `json:"site,omitempty"`
	Dedupe    bool   `json:"dedupe,omitempty"`
	Raw       bool   `json:"raw,omitempty"`
	KeepCodes bool   `json:"keep_codes,omitempty"`
}

// Journal keeps the progress of an import in a file, so that another run can go on after
// any stop and create nothing twice. The file consists of JSON lines. The first line
// holds the source. A line is synced before each batch is sent, and a line after it holds
// the outcome of the batch, in the order of the imported file. Several batches may be
// under way. A journal is locked while it is open. The nil journal keeps nothing.
type Journal struct {
	file    *os.File
	source  journalSource
	total   stretch  // of the lines that are done, without refused rows
	refused int      // how many these are
	flight  []flight // in the order in which they were sent; their outcomes are unknown
	sent    bool     // something was, ever
}

// entry is a line of the file: one of its fields is set.
type entry struct {
	Source *journalSource `json:"source,omitempty"`
	Send   *flight        `json:"send,omitempty"`
	Done   *stretch       `json:"done,omitempty"`
}

type journalSource struct {
	Source
	Run string `json:"run"` // distinguishes imports of the same file
}

// flight is a batch on its way.
type flight struct {
	First int       `json:"first"` // line of its first row
	Last  int       `json:"last"`  // line of its last row
	At    time.Time `json:"at"`    // when it was first sent, by the API's clock
}

// stretch is the outcome of the lines up to one.
type stretch struct {
	Line    int   `json:"line"`
	Rows    int   `json:"rows"`
	Created int   `json:"created"`
	Found   int   `json:"found,omitempty"`
	Refused []Row `json:"refused,omitempty"`
}

// OpenJournal begins the journal at path, or goes on with it when resume is set.
// It is an error to begin where an unfinished import is noted, and to go on with
// the journal of another source, or with none.
func OpenJournal(path string, of Source, resume bool) (*Journal, error) {
	flags := os.O_RDWR
	if !resume {
		flags |= os.O_CREATE
	}
	file, err := os.OpenFile(path, flags, 0o600)
	if resume && errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no unfinished import to go on with, because there is no %s: leave out --resume to begin one", path)
	}
	if err != nil {
		return nil, fmt.Errorf("open the progress file: %w", err)
	}
	j := &Journal{file: file}
	if err := j.open(of, resume); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return j, nil
}

func (j *Journal) open(of Source, resume bool) error {
	path := j.file.Name()
	if err := j.lock(); err != nil {
		return err
	}
	if err := j.read(); err != nil {
		return err
	}
	switch {
	case !j.sent:
		return j.writeHeader(of)
	case !resume:
		return fmt.Errorf("%s notes an unfinished import: continue it with --resume, or remove that file to import everything again", path)
	case j.source.SHA256 != of.SHA256 || j.source.Size != of.Size:
		return fmt.Errorf("the file has changed since its import began: bring back the old one, or remove %s to import everything again", path)
	case j.source.API != of.API:
		return fmt.Errorf("the import was begun with the API %s, not %s: continue there, or remove %s to import everything again",
			j.source.API, of.API, path)
	case j.source.Domain != of.Domain:
		return fmt.Errorf("the import was begun with --domain %q, not %q: continue so, or remove %s to import everything again",
			j.source.Domain, of.Domain, path)
	case j.source.Dedupe != of.Dedupe:
		return begun(j.source.Dedupe, "--dedupe", path)
	case j.source.Raw != of.Raw:
		return begun(j.source.Raw, "--raw", path)
	case j.source.KeepCodes != of.KeepCodes:
		return begun(j.source.KeepCodes, "--keep-codes", path)
	case j.source.Workspace != of.Workspace:
		return fmt.Errorf("the import was begun into the workspace %q, not %q: continue there, or remove %s to import everything again",
			j.source.Workspace, of.Workspace, path)
	}
	return nil
}

func begun(given bool, flag, path string) error {
	with := map[bool]string{true: "with", false: "without"}[given]
	return fmt.Errorf("the import was begun %s %s: continue so, or remove %s to import everything again", with, flag, path)
}

// lock keeps a second process from importing the same file at the same time.
func (j *Journal) lock() error {
	path := j.file.Name()
	err := unix.Flock(int(j.file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return fmt.Errorf("another process is importing this file: it holds %s", path)
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", path, err)
	}
	// The one that held it may have removed it since we opened it.
	ours, err := j.file.Stat()
	if err != nil {
		return err
	}
	if there, err := os.Stat(path); err != nil || !os.SameFile(ours, there) {
		return fmt.Errorf("another process has just finished with %s: try again", path)
	}
	return nil
}

// writeHeader writes the first line of an empty journal, durably, its name included.
func (j *Journal) writeHeader(of Source) error {
	*j = Journal{file: j.file, source: journalSource{Source: of, Run: newRunID()}}
	err := j.file.Truncate(0)
	if err == nil {
		_, err = j.file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return fmt.Errorf("begin the progress file: %w", err)
	}
	if err := j.append(entry{Source: &j.source}, true); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(j.file.Name()))
	if err == nil {
		err = errors.Join(dir.Sync(), dir.Close())
	}
	if err != nil {
		return fmt.Errorf("make the progress file durable: %w", err)
	}
	return nil
}

// read applies the lines of the file, and cuts the file off behind its last whole line.
func (j *Journal) read() error {
	lines := entries(j.file)
	var good int64
	for lines.Scan() {
		var e entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil || !j.applyEntry(e, good == 0) {
			return fmt.Errorf("%s is damaged, or no progress file of an import: remove it to import everything again", j.file.Name())
		}
		good += int64(len(lines.Bytes())) + 1
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read the progress file: %w", err)
	}
	// Another's file that was named by mistake is not cut to nothing.
	const begins = `{"source":`
	head := make([]byte, len(begins))
	n, err := j.file.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the progress file: %w", err)
	}
	if !strings.HasPrefix(begins, string(head[:n])) {
		return fmt.Errorf("%s is no progress file of an import", j.file.Name())
	}
	err = j.file.Truncate(good)
	if err == nil {
		_, err = j.file.Seek(good, io.SeekStart)
	}
	if err != nil {
		return fmt.Errorf("mend the progress file: %w", err)
	}
	return nil
}

// tell passes the refused rows of the journal to f, in order.
func (j *Journal) tell(f func(Row) error) error {
	if j.refused == 0 {
		return nil
	}
	lines := entries(io.NewSectionReader(j.file, 0, math.MaxInt64))
	for lines.Scan() {
		var e entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return fmt.Errorf("read the progress file: %w", err)
		}
		if e.Done == nil {
			continue
		}
		for _, row := range e.Done.Refused {
			if err := f(row); err != nil {
				return err
			}
		}
	}
	return lines.Err()
}

func entries(file io.Reader) *bufio.Scanner {
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, maxEntry)
	lines.Split(wholeLines)
	return lines
}

// wholeLines splits like bufio.ScanLines, and leaves out a last line without an end.
func wholeLines(data []byte, _ bool) (advance int, token []byte, err error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i], nil
	}
	return 0, nil, nil
}

// applyEntry applies a line to the journal, and reports whether the line makes sense
// there.
func (j *Journal) applyEntry(e entry, first bool) bool {
	switch {
	case first != (e.Source != nil):
		return false
	case first:
		j.source = *e.Source
		return len(j.source.SHA256) >= 16
	case e.Send != nil:
		j.flight, j.sent = append(j.flight, *e.Send), true
	case e.Done != nil:
		j.total.Line = e.Done.Line
		j.flight = slices.DeleteFunc(j.flight, func(f flight) bool { return f.Last <= j.total.Line })
		j.total.Rows += e.Done.Rows
		j.total.Created += e.Done.Created
		j.total.Found += e.Done.Found
		j.refused += len(e.Done.Refused)
	}
	return true
}

// id names this import of this file.
func (j *Journal) id() string { return j.source.SHA256[:16] + "-" + j.source.Run }

// unsettled returns the batches that were sent but have no known outcome.
func (j *Journal) unsettled() []flight { return slices.Clone(j.flight) }

// sending notes that a batch is about to be sent, durably.
func (j *Journal) sending(f flight) error {
	if j == nil {
		return nil
	}
	j.sent = true
	return j.append(entry{Send: &f}, true)
}

// done notes the outcomes of the lines since the last such note. It does not sync: a
// later run replaces a lost note by settling the batch, and the next batch's note syncs
// this one, too.
func (j *Journal) done(s stretch) error {
	if j == nil {
		return nil
	}
	return j.append(entry{Done: &s}, false)
}

func (j *Journal) append(e entry, durably bool) error {
	line, err := json.Marshal(e)
	if err == nil {
		_, err = j.file.Write(append(line, '\n'))
	}
	if err == nil && durably {
		err = j.file.Sync()
	}
	if err != nil {
		return fmt.Errorf("write the progress file: %w", err)
	}
	return nil
}

// Name returns the name of the file, or "" for the nil journal.
func (j *Journal) Name() string {
	if j == nil {
		return ""
	}
	return j.file.Name()
}

// Close lets go of the journal. It stays for a later run, unless nothing was ever
// sent.
func (j *Journal) Close() error {
	if !j.sent {
		return j.Remove()
	}
	return errors.Join(j.file.Sync(), j.file.Close())
}

// Begun reports whether there is something for a later run to go on with.
func (j *Journal) Begun() bool { return j.sent }

// Remove ends the journal of an import that is complete. It must not be used, not
// closed either, after that.
func (j *Journal) Remove() error {
	if err := errors.Join(os.Remove(j.file.Name()), j.file.Close()); err != nil {
		return fmt.Errorf("remove the progress file: %w", err)
	}
	return nil
}
