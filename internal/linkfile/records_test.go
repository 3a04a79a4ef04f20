package linkfile_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/encoding/unicode"

	"waypost/internal/linkfile"
)

// The files are as spreadsheets and databases write them.
func TestReader_ReadsTablesAsProgramsWriteThem(t *testing.T) {
	for name, want := range map[string][]string{
		"used-range.csv":       {"1 one1 First", "2 two2 "},
		"longer-rows.csv":      {"1 one1 First", "2 two2 "},
		"sep.csv":              {"1 one1 First", "2 two2 "},
		"sep-bar.csv":          {"1 one1 First", "2 two2 "},
		"mac.csv":              {"1 one1 First", "2 two2 "},
		"mac-cells.csv":        {"1 one1 a\rb \"c\"\rd", "2 two2 e"},
		"tabs.tsv":             {`1 one1 Say "hello"`, `2 two2 "Quoted" at the start`, `3 tri3 "Open`, `4 for4 closed"`, `5 fiv5 "Whole"`},
		"tabs-spreadsheet.tsv": {"1 one1 Say \"hello\"two\r\nlines", "2 two2 a, b"},
		"tabs-quoted.tsv":      {"1 one1 First", "2 two2 a\tb"},
		"tabs-mac.tsv":         {`1 one1 "Open`, "2 two2 Last"},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("testdata/tables", name))
			require.NoError(t, err)
			text = bytes.TrimPrefix(text, []byte("\uFEFF"))
			big, err := unicode.UTF16(unicode.BigEndian, unicode.UseBOM).NewEncoder().Bytes(text)
			require.NoError(t, err)
			little, err := unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewEncoder().Bytes(text)
			require.NoError(t, err)
			for encoding, file := range map[string][]byte{
				"UTF-8": text, "a mark": append([]byte("\uFEFF"), text...), "UTF-16 BE": big, "UTF-16 LE": little,
			} {
				links, refused := linksOf(t, string(file), linkfile.Options{})
				require.Empty(t, refused, encoding)
				var got []string
				for _, n := range links {
					got = append(got, strings.TrimPrefix(n.OriginalURL, "https://example.com/")+" "+n.CustomCode+" "+n.Title+n.Notes)
				}
				require.Equal(t, want, got, encoding)
			}
			r, err := linkfile.NewReader(iotest.OneByteReader(bytes.NewReader(text)), linkfile.Options{})
			require.NoError(t, err)
			_, err = r.Next()
			require.NoError(t, err)
		})
	}
}

func TestReader_NamesTheLineOfTheFileWhateverItsLineEnds(t *testing.T) {
	for _, text := range []string{
		"sep=;\nurl;keyword;\n;;\nhttps://example.com/1;;note\nhttps://example.com/2;a;b;c\n",
		"sep=;\rurl;keyword;\r;;\rhttps://example.com/1;;note\rhttps://example.com/2;a;b;c\r",
		"sep=\t\nurl\tkeyword\t\n\t\t\nhttps://example.com/1\t\tnote\nhttps://example.com/2\ta\tb\tc\n",
	} {
		_, _, rows := readAll(t, text, linkfile.Options{})
		require.Equal(t, []linkfile.Row{
			{Line: 4, Cells: []string{"https://example.com/1", "", "note"}, Reason: `"note" is in column 3, which has no name in the header`},
			{Line: 5, Cells: []string{"https://example.com/2", "a", "b", "c"}, Reason: "4 fields instead of 3"},
		}, rows, text)
	}
}

func TestReader_NamesTheLineOfARowWithoutEnd(t *testing.T) {
	r, err := linkfile.NewReader(strings.NewReader("url,title\na,b\nc,\"d\n"+strings.Repeat("e,f\n", 300_000)), linkfile.Options{})
	require.NoError(t, err)
	_, err = r.Next()
	require.NoError(t, err)
	_, err = r.Next()
	require.ErrorIs(t, err, linkfile.ErrUnreadable)
	require.ErrorContains(t, err, "line 3: the rest of the file cannot be read: the row is longer than 1048576 bytes: is a quotation mark never closed?")
}

func TestReader_KeepsTheCellsOfRefusedRows(t *testing.T) {
	const bare = "a quotation mark is in a cell that does not begin with one: write the cell in quotation marks, and the mark twice"
	_, _, rows := readAll(t, "url,title\na,b \"c\" d\n\"x\"y,\"two\r\nlines\"\nshort\n", linkfile.Options{})
	require.Equal(t, []linkfile.Row{
		{Line: 2, Cells: []string{"a", `b "c" d`}, Reason: bare},
		{Line: 3, Cells: []string{`"x"y`, `"two`}, Reason: "a text follows the quotation mark that closes a cell"},
		{Line: 4, Cells: []string{`lines"`}, Reason: bare},
		{Line: 5, Cells: []string{"short"}, Reason: "1 fields instead of 2"},
	}, rows)
}

func TestReader_KeepsTheLineEndsOfACell(t *testing.T) {
	notes := []string{"a\r\nb", "a\nb", "a\rb", "\r\n", "a\r\r\nb\n\r", "x\r\n\"q\"\r\n" + strings.Repeat("ü\r\n", 3000), "plain"}
	var text strings.Builder
	text.WriteString("original_url,notes\r\n")
	for _, n := range notes {
		text.WriteString("https://example.com/,\"" + strings.ReplaceAll(n, `"`, `""`) + "\"\r\n\r\n")
	}
	links, refused := linksOf(t, text.String(), linkfile.Options{})
	require.Empty(t, refused)
	var got []string
	for _, n := range links {
		got = append(got, n.Notes)
	}
	require.Equal(t, notes, got)
}

func TestReader_NamesColumns(t *testing.T) {
	shape, mapping, rows := readAll(t, "refused,Title,,title,IP,Ziel,Title,\nx,a,b,c,192.0.2.1,https://example.com,d,\n", linkfile.Options{})
	require.Equal(t, []string{"Title", "column 3", "title", "Ziel", "Title (2)"}, shape.Columns)
	require.Equal(t, []string{"IP"}, shape.Personal)
	require.Equal(t, []linkfile.Row{{Line: 2, Cells: []string{"a", "b", "c", "https://example.com", "d"}}}, rows)
	require.Equal(t, []string{"IP", "column 3", "title", "Ziel", "Title (2)"}, mapping.LeftOut(&shape))
	_, err := linkfile.NewMapper(&shape, mapping, linkfile.MapOptions{})
	require.EqualError(t, err, "no column is mapped to original_url, the target of a link: the columns are Title, column 3, title, Ziel, Title (2)")
	mapping.Columns["Ziel"] = "original_url"
	links, refused := mapAll(t, shape, mapping, rows)
	require.Empty(t, refused)
	require.Equal(t, "https://example.com", links[0].OriginalURL)
	require.Equal(t, "a", links[0].Title)
}
