package budgets

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"waypost"
	"waypost/internal/atomicfile"
	"waypost/rules/budget"
)

// A file of grants is named by the boot that writes it. It begins with magic; then follow
// records: the length of the body (u16), the body, and CRC-32C of both. A body is a kind
// and, by kind,
//
//	1  id (16), domain (u32), granted, returned (u64), code: totals of an account; a
//	   later record of the same account replaces it
//	2  epoch (u32): the newest that the edge has seen
//	3  id (16), made at random when no file had one, or one was damaged: it goes with the
//	   disk
//	4  (empty): the boot has given back all its clicks; nothing follows
//
// Format is the version of the files.
const Format = 1

const (
	magic      = "waypost budgets 1\n"
	filePrefix = "grants-"
	temporary  = "." + filePrefix // begins the name of a file that was not finished
	unreadable = ".unreadable"    // ends the name of a file that was set aside

	kindAccount = 1
	kindEpoch   = 2
	kindDisk    = 3
	kindEnd     = 4

	accountSize = 1 + 16 + 4 + 2*8 // and the code
	maxBody     = accountSize + waypost.MaxName
	maxFile     = 1 << 30
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// name is a link, as the edge knows it.
type name struct {
	domain waypost.DomainID
	code   string
}

// accountID is made at random for each account.
type accountID [16]byte

// entry names an account.
type entry struct {
	name

	id accountID
}

// diskID names the disk of an edge, so that another one is noticed. A disk that loses a
// file gets another, so that the control plane takes it for another.
type diskID [16]byte

// state holds the contents of files.
type state struct {
	epoch    uint32
	disk     diskID // zero: the file has no id
	accounts map[entry]budget.Totals
	ended    bool // the boot that wrote the file that was read last was not killed
}

func appendAccount(b []byte, e entry, t budget.Totals) []byte {
	le := binary.LittleEndian
	body := make([]byte, 0, maxBody)
	body = append(append(body, kindAccount), e.id[:]...)
	body = le.AppendUint32(body, uint32(e.domain))
	for _, n := range []int64{t.Granted, t.Returned} {
		body = le.AppendUint64(body, uint64(n))
	}
	return appendRecord(b, append(body, e.code...))
}

func appendEpoch(b []byte, epoch uint32) []byte {
	return appendRecord(b, binary.LittleEndian.AppendUint32([]byte{kindEpoch}, epoch))
}

func appendDisk(b []byte, id diskID) []byte {
	return appendRecord(b, append([]byte{kindDisk}, id[:]...))
}

func appendRecord(b, body []byte) []byte {
	at := len(b)
	b = append(binary.LittleEndian.AppendUint16(b, uint16(len(body))), body...)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[at:], castagnoli))
}

var errDamaged = errors.New("a record is damaged")

// read adds the records of a file to s. A crash may have cut the last one, which was
// never acted upon.
func (s *state) read(b []byte) error {
	s.ended = false
	rest, ok := bytes.CutPrefix(b, []byte(magic))
	if !ok {
		if bytes.HasPrefix([]byte(magic), b) {
			return nil // cut before the first record
		}
		return errors.New("it does not begin like a file of grants")
	}
	for len(rest) > 0 {
		if len(bytes.Trim(rest, "\x00")) == 0 {
			return nil // space that a crash left unwritten
		}
		n := 0
		if len(rest) >= 2 {
			n = int(binary.LittleEndian.Uint16(rest))
		}
		if n > maxBody {
			return errDamaged
		}
		if len(rest) < 2+n+4 {
			return nil
		}
		end := 2 + n + 4
		if crc32.Checksum(rest[:2+n], castagnoli) != binary.LittleEndian.Uint32(rest[2+n:]) {
			if len(bytes.Trim(rest[end:], "\x00")) == 0 {
				return nil
			}
			return errDamaged
		}
		if !s.addRecord(rest[2 : 2+n]) {
			return errDamaged
		}
		rest = rest[end:]
	}
	return nil
}

func (s *state) addRecord(body []byte) bool {
	le := binary.LittleEndian
	switch {
	case len(body) == 1+len(s.disk) && body[0] == kindDisk:
		s.disk = diskID(body[1:])
		return true
	case len(body) == 1 && body[0] == kindEnd:
		s.ended = true
		return true
	case len(body) == 5 && body[0] == kindEpoch:
		s.epoch = max(s.epoch, le.Uint32(body[1:]))
		return true
	case len(body) <= accountSize || body[0] != kindAccount || !waypost.ValidCode(body[accountSize:]):
		return false
	}
	t := budget.Totals{Granted: int64(le.Uint64(body[21:])), Returned: int64(le.Uint64(body[29:]))}
	if a := (budget.Account{Granted: t.Granted, Returned: t.Returned}); !a.Valid() {
		return false
	}
	e := entry{name{waypost.DomainID(le.Uint32(body[17:])), string(body[accountSize:])}, accountID(body[1:17])}
	s.accounts[e] = t
	return true
}

// directory holds the files of grants.
type directory struct{ root string }

func (d directory) path(file string) string { return filepath.Join(d.root, file) }

func fileOf(boot waypost.BootID) string { return filePrefix + hex.EncodeToString(boot[:]) }

// others holds the names and the contents of the files of other boots.
type others struct {
	state

	files   []string // that were read, or are to be removed
	damaged []string // that cannot be read
	fault   error    // the reason
	killed  bool     // a boot held clicks when it was killed
}

// readOthers reads the files of all boots except one.
func (d directory) readOthers(own waypost.BootID) (o others, err error) {
	o.accounts = make(map[entry]budget.Totals)
	all, err := os.ReadDir(d.root)
	if err != nil {
		return o, err
	}
	for _, f := range all {
		switch file := f.Name(); {
		case strings.HasPrefix(file, temporary):
			o.files = append(o.files, file)
		case strings.HasPrefix(file, filePrefix) && file != fileOf(own) && !strings.HasSuffix(file, unreadable):
			text, err := atomicfile.Read(d.path(file), maxFile)
			if err == nil {
				err = o.read(text)
			}
			o.killed = o.killed || !o.ended
			if err != nil {
				o.fault = fmt.Errorf("%s is set aside: %w", d.path(file), err)
				o.damaged = append(o.damaged, file)
				continue
			}
			o.files = append(o.files, file)
		}
	}
	return o, nil
}

// write makes the file of a boot, or replaces it, as a whole and durably, and returns it
// open for more records.
func (d directory) write(boot waypost.BootID, text []byte) (*os.File, error) {
	path := d.path(fileOf(boot))
	if err := atomicfile.Write(path, text, 0o600); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
}

// setAside renames damaged files. They stay for the operator.
func (d directory) setAside(files []string) error {
	var errs []error
	for _, f := range files {
		if err := os.Rename(d.path(f), d.path(f+unreadable)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (d directory) remove(files []string) error {
	var errs []error
	for _, f := range files {
		if err := os.Remove(d.path(f)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
