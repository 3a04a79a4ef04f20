package linkfile_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"waypost/internal/linkfile"
)

// FuzzRead reads any bytes with any options: every row is in UTF-8, a refused one has its
// reason, and the file of refused rows has the same rows when it is read again.
func FuzzRead(f *testing.F) {
	for _, pattern := range []string{"testdata/sources/*", "testdata/tables/*"} {
		files, err := filepath.Glob(pattern)
		require.NoError(f, err)
		for _, path := range files {
			text, err := os.ReadFile(path)
			require.NoError(f, err)
			f.Add(uint8(0), uint8(0), false, text)
		}
	}
	formats, encodings := linkfile.Formats(), linkfile.Encodings()
	f.Fuzz(func(t *testing.T, format, encoding uint8, raw bool, file []byte) {
		o := linkfile.Options{Raw: raw}
		if format > 0 {
			o.Format = formats[int(format)%len(formats)]
		}
		if encoding > 0 {
			o.Encoding = encodings[int(encoding)%len(encodings)]
		}
		shape, rows := fuzzRead(t, string(file), o)
		if len(rows) == 0 {
			return
		}
		mapping := shape.Suggest(rows)
		m, err := linkfile.NewMapper(&shape, mapping, linkfile.MapOptions{})
		if err == nil {
			for _, row := range rows {
				if link, err := m.Link(row); err == nil {
					require.NotEmpty(t, link.OriginalURL)
				} else {
					require.NotEmpty(t, err.Error())
				}
			}
		}
		var written strings.Builder
		w := linkfile.NewRefusedWriter(&written, &shape)
		for _, row := range rows {
			require.NoError(t, w.Add(row, "refused again"))
		}
		require.NoError(t, w.Flush())
		if shape.Layout != linkfile.Table { // mended in its own notation, which may be no notation at all
			return
		}
		o.Encoding, o.Format = linkfile.UTF8, linkfile.CSV
		_, again := fuzzRead(t, written.String(), o)
		require.Equal(t, len(rows), len(again), "%q", written.String())
		for i := range rows {
			want := rows[i].Cells
			if shape.Separator == "" {
				break // a dump has no apostrophes
			}
			require.Equal(t, want, again[i].Cells, "%q", written.String())
		}
	})
}

func fuzzRead(t *testing.T, text string, o linkfile.Options) (linkfile.Shape, []linkfile.Row) {
	t.Helper()
	r, err := linkfile.NewReader(strings.NewReader(text), o)
	if err != nil {
		require.NotEmpty(t, err.Error())
		return linkfile.Shape{}, nil
	}
	var rows []linkfile.Row
	for {
		row, err := r.Next()
		if err != nil {
			require.True(t, errors.Is(err, io.EOF) || errors.Is(err, linkfile.ErrUnreadable), "%v", err)
			return r.Shape(), rows
		}
		require.LessOrEqual(t, len(row.Cells), 256)
		require.False(t, slices.ContainsFunc(row.Cells, func(cell string) bool { return !utf8.ValidString(cell) }))
		require.NotZero(t, row.Line)
		rows = append(rows, row)
	}
}

// endless reads a text, and then one byte again and again.
type endless struct {
	begin string
	with  byte
	left  int
}

func (e *endless) Read(p []byte) (int, error) {
	if e.begin != "" {
		n := copy(p, e.begin)
		e.begin = e.begin[n:]
		return n, nil
	}
	if e.left == 0 {
		return 0, io.EOF
	}
	n := min(len(p), e.left)
	for i := range p[:n] {
		p[i] = e.with
	}
	e.left -= n
	return n, nil
}

func TestReader_HasBoundedMemoryForALineWithoutEnd(t *testing.T) {
	size := 1 << 30 // of one line in the first case
	for _, c := range []struct {
		begin string
		with  byte
	}{
		{"url,title\nhttps://example.com,", 'x'},
		{"url,title\nhttps://example.com,\"", 'x'},
		{"url,title\nhttps://example.com,\"", '\n'},
		{"url,title\nhttps://example.com", ','},
		{"url\ttitle\nhttps://example.com\t", 'x'},
		{"url\ttitle\nhttps://example.com\t\"", '\t'},
		{"", 'x'},
		{"", ','},
		{"url,title\n", '\n'},
		{"{\"url\":\"", 'x'},
		{"[{\"url\":\"", 'x'},
		{"[", '['},
		{"[{\"a\":", '['},
		{"[", ' '},
		{"https://example.com/", 'x'},
		{"INSERT INTO `yourls_url` VALUES ('", 'x'},
		{"INSERT INTO `yourls_url` VALUES (", ','},
		{"-- ;", 'x'},
		{"-- ;\n/*", '*'},
		{"-- ;\n", '('},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		most := uint64(0)
		r, err := linkfile.NewReader(&endless{c.begin, c.with, size}, linkfile.Options{})
		size = 16 << 20
		for err == nil {
			var row linkfile.Row
			if row, err = r.Next(); err == nil {
				require.NotEmpty(t, row.Reason, fmt.Sprintf("%.40q %q", c.begin, c.with))
			}
			runtime.ReadMemStats(&after)
			most = max(most, after.TotalAlloc-before.TotalAlloc)
		}
		runtime.ReadMemStats(&after)
		most = max(most, after.TotalAlloc-before.TotalAlloc)
		require.Error(t, err)
		require.Less(t, most, uint64(24<<20), fmt.Sprintf("%.40q %q", c.begin, c.with))
	}
}
