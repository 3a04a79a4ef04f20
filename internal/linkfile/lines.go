package linkfile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"waypost/internal/redirectfile"
)

// nextText returns the next line that is not blank, without blanks around it. Of a line
// above the limit of a row it returns the beginning, and why the line is refused.
func (s *lineSource) nextText() (text, reason string, err error) {
	for {
		line, err := s.next()
		if errors.Is(err, bufio.ErrBufferFull) {
			text = strings.ToValidUTF8(string(line[:maxReason]), "")
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = s.from.ReadSlice(s.end)
			}
			return text, fmt.Sprintf("the line is longer than %d bytes", maxRow), nil
		}
		if err != nil {
			return "", "", readFault(s.line, err)
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			return string(line), "", nil
		}
	}
}

// listRows reads a list of targets, each perhaps with a code behind it. Lines that begin
// with # are comments.
type listRows struct{ lines *lineSource }

// isList reports whether a text without a format is a list: no header begins with a URL.
// Commas and semicolons may separate cells, so that people have to say that it is a list.
func isList(begin []byte) bool {
	line, _, _ := bytes.Cut(begin, []byte("\n"))
	line, _, _ = bytes.Cut(line, []byte("\r"))
	return (bytes.HasPrefix(line, []byte("http://")) || bytes.HasPrefix(line, []byte("https://"))) && !bytes.ContainsAny(line, ",;")
}

func newListRows(text *bufio.Reader, shape *Shape) *listRows {
	shape.Format, shape.Layout, shape.Raw = List, Lines, true
	shape.Columns = []string{"original_url", "custom_code"}
	return &listRows{newLineSource(text)}
}

func (r *listRows) next() (Row, error) {
	for {
		text, reason, err := r.lines.nextText()
		if err != nil {
			return Row{}, err
		}
		if text[0] == '#' {
			continue
		}
		row := Row{Line: r.lines.line, Cells: []string{"", "", text}, Reason: reason}
		words := strings.Fields(text)
		if copy(row.Cells[:2], words) < len(words) {
			row.refuse(fmt.Sprintf("the line has %d words: a target, and perhaps a code, are expected", len(words)))
		}
		return row, nil
	}
}

// siteRows yields the redirects of another server's file.
type siteRows struct{ file *redirectfile.File } // the rest of it

func newSiteRows(text io.Reader, o Options, shape *Shape) (*siteRows, error) {
	file, err := redirectfile.Read(text, redirectfile.Format(o.Format), o.Site)
	if err != nil {
		return nil, err
	}
	shape.Layout, shape.Raw, shape.Notes = Lines, true, file.Notes
	shape.Columns = []string{"original_url", "custom_code", "domain", "redirect_status", "forward_path", "forward_query"}
	return &siteRows{file}, nil
}

func (s *siteRows) next() (Row, error) {
	if len(s.file.Redirects) == 0 {
		return Row{}, io.EOF
	}
	r := &s.file.Redirects[0]
	s.file.Redirects = s.file.Redirects[1:]
	line := strings.TrimSpace(s.file.Lines[min(r.Line, len(s.file.Lines))-1])
	row := Row{Line: r.Line, Cells: []string{"", "", "", "", "", "", line}}
	if r.Reason == "" {
		copy(row.Cells, []string{
			r.Target, r.Code, r.Host, strconv.Itoa(r.Status), strconv.FormatBool(r.ForwardPath), strconv.FormatBool(r.ForwardQuery),
		})
	}
	row.refuse(r.Reason)
	return row, nil
}
