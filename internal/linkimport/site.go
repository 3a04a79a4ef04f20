package linkimport

import (
	"io"

	"waypost/client"
	"waypost/internal/redirectfile"
)

// siteRows yields the redirects of another server's file. Lines that no link can say are
// bad rows.
type siteRows struct {
	file *redirectfile.File // what is left of it
	read int64
}

// newSiteRows reads the whole file.
func newSiteRows(file io.Reader, im *Import) (*siteRows, error) {
	counted := &countingReader{from: file}
	read, err := redirectfile.Read(counted, redirectfile.Format(im.Format), im.Site)
	if err != nil {
		return nil, err
	}
	for _, note := range read.Notes {
		if im.Note != nil {
			im.Note(note)
		}
	}
	return &siteRows{read, counted.n}, nil
}

func (s *siteRows) next() (row, error) {
	links, refused := s.file.Redirects, s.file.Refused
	switch {
	case len(refused) > 0 && (len(links) == 0 || refused[0].Line < links[0].Line):
		s.file.Refused = refused[1:]
		return row{}, &badRow{line: refused[0].Line, reason: refused[0].Reason + ": " + refused[0].Text}
	case len(links) == 0:
		return row{}, io.EOF
	}
	s.file.Redirects = links[1:]
	r := &links[0]
	return row{line: r.Line, link: client.NewLink{
		OriginalURL: r.Target, CustomCode: r.Code, Domain: r.Host, RedirectStatus: r.Status,
		ForwardPath: r.ForwardPath, ForwardQuery: r.ForwardQuery,
	}}, nil
}

func (s *siteRows) offset() int64 { return s.read }

// countingReader counts the bytes that are read.
type countingReader struct {
	from io.Reader
	n    int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.n += int64(n)
	return n, err
}
