package clicks

import (
	"os"

	"waypost"
)

// SetSync lets syncs of files and of the directory fail, or be seen.
func (c *Config) SetSync(sync func(*os.File) error) { c.disk.sync = sync }

// SetAllocate lets the disk be full.
func (c *Config) SetAllocate(allocate func(*os.File, int64) error) { c.disk.allocate = allocate }

// TryRecord records a click, or reports that it would be dropped.
func (j *Journal) TryRecord(domain waypost.DomainID, code []byte, at int64) bool {
	return j.record(&waypost.Click{Domain: domain, Code: code, At: at})
}

// Dropped is the number of clicks dropped.
func (j *Journal) Dropped() uint64 { return j.dropped.Load() }

// Walk gives the codes of the records in a part of a segment.
func Walk(b []byte) (codes []string, tail int, hole bool) {
	s := scan{buf: b}
	for {
		r, ok := s.record()
		if !ok {
			return codes, s.tail(), s.hole
		}
		codes = append(codes, string(r.Code))
		s.accept()
	}
}

// AppendRecord appends the bytes of a record to a part of a segment.
func AppendRecord(b []byte, code string) []byte {
	return AppendClick(b, waypost.Click{Domain: 1, Code: []byte(code), At: 1})
}

// AppendClick is AppendRecord of any click.
func AppendClick(b []byte, c waypost.Click) []byte {
	size := recordSize(&c)
	b = append(b, make([]byte, size)...)
	putRecord(b[len(b)-size:], &c)
	return b
}

// ReadClick reads the record with which b begins.
func ReadClick(b []byte) (c waypost.Click, size int) { return getRecord(b) }

// ReencodeBatchFile reads a batch's file and gives it as it would be written.
func ReencodeBatchFile(b []byte) ([]byte, error) {
	f, err := decodeBatchFile(b)
	if err != nil {
		return nil, err
	}
	return f.encode(), nil
}
