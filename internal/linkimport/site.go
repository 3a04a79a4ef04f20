package linkimport

import (
	"bytes"
	"fmt"
	"io"

	"waypost/client"
	"waypost/internal/redirectfile"
)

// siteRows yields the redirects of another server's file. Lines that no link can say are
// bad rows.
type siteRows struct {
	file *redirectfile.File // the rest of it
	ends []int64            // of the lines of the file
	line int                // of the last row
}

// newSiteRows reads the whole file.
func newSiteRows(file io.Reader, im *Import) (*siteRows, error) {
	text, err := io.ReadAll(io.LimitReader(file, redirectfile.MaxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read the file: %w", err)
	}
	s := &siteRows{ends: []int64{0}}
	if s.file, err = redirectfile.Read(bytes.NewReader(text), redirectfile.Format(im.Format), im.Site); err != nil {
		return nil, err
	}
	for line := range bytes.Lines(text) {
		s.ends = append(s.ends, s.ends[len(s.ends)-1]+int64(len(line)))
	}
	for _, note := range s.file.Notes {
		if im.Note != nil {
			im.Note(note)
		}
	}
	return s, nil
}

func (s *siteRows) next() (row, error) {
	links, refused := s.file.Redirects, s.file.Refused
	switch {
	case len(refused) > 0 && (len(links) == 0 || refused[0].Line < links[0].Line):
		s.file.Refused, s.line = refused[1:], refused[0].Line
		return row{}, &badRow{line: s.line, reason: refused[0].Reason + ": " + refused[0].Text}
	case len(links) == 0:
		return row{}, io.EOF
	}
	s.file.Redirects, s.line = links[1:], links[0].Line
	r := &links[0]
	return row{line: r.Line, link: client.NewLink{
		OriginalURL: r.Target, CustomCode: r.Code, Domain: r.Host, RedirectStatus: r.Status,
		ForwardPath: r.ForwardPath, ForwardQuery: r.ForwardQuery,
	}}, nil
}

func (s *siteRows) span() (from, to int64) {
	return s.ends[max(s.line-1, 0)], s.ends[min(s.line, len(s.ends)-1)]
}
