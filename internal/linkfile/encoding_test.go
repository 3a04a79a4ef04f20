package linkfile_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/encoding/charmap"

	"waypost/internal/linkfile"
)

func TestReader_SaysThatAFileCannotBeRead(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "the file is empty",
		"\uFEFF \r\n":                   "the file is empty",
		"PK\x03\x04\x14\x00":            "the file is a spreadsheet or another zip archive: save it as CSV in UTF-8",
		"\x1f\x8b\x08\x00":              "the file is packed with gzip: unpack it first",
		"\x28\xb5\x2f\xfd\x00\x00":      "the file is packed with zstd",
		"\xfd7zXZ\x00\x00":              "the file is packed with xz",
		"u\x00r\x00l\x00\n\x00":         "if it is in UTF-16, say utf-16le or utf-16be",
		"url,ti\x00tle\nhttps://a,b\n":  "a name has a NUL byte",
		"url,t\nhttps://a,M\xfcnchen\n": "line 2: the text is not in UTF-8: say its encoding, such as windows-1252",
		"url,t\rhttps://a,b\r\xfc,c\r":  "line 3: the text is not in UTF-8",
		"https://a,b\nhttps://c,d\n":    "the first line has no names of columns",
		"a" + strings.Repeat(",a", 256): "the header has more than 256 columns",
		"{\"links\":3}\nx":              "",
		"-- dump\nSELECT 1;":            "the dump has no rows of the table yourls_url",
	} {
		_, err := linkfile.NewReader(strings.NewReader(text), linkfile.Options{})
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, want, "%.20q", text)
	}
	_, err := linkfile.NewReader(strings.NewReader("\x1f\x8b\x08\x00"), linkfile.Options{Encoding: linkfile.Windows1252, Format: linkfile.CSV})
	require.EqualError(t, err, "the file is packed with gzip: unpack it first")
	_, err = linkfile.NewReader(strings.NewReader("url"), linkfile.Options{Format: "xls"})
	require.EqualError(t, err, `the format "xls" is unknown`)
	_, err = linkfile.NewReader(strings.NewReader("url"), linkfile.Options{Encoding: "latin9"})
	require.ErrorContains(t, err, `the encoding "latin9" is unknown`)
	_, err = linkfile.NewReader(strings.NewReader("\uFEFFurl"), linkfile.Options{Encoding: linkfile.Windows1252})
	require.ErrorContains(t, err, "begins with the byte order mark of utf-8")
}

func TestReader_ReadsTheEncodingThatIsTold(t *testing.T) {
	const text = "url,title\nhttps://example.com/1,München – “so” €\n"
	windows, err := charmap.Windows1252.NewEncoder().String(text)
	require.NoError(t, err)
	links, refused := linksOf(t, windows, linkfile.Options{Encoding: linkfile.Windows1252})
	require.Empty(t, refused)
	require.Equal(t, "München – “so” €", links[0].Title)
}

func TestReader_RefusesRowsWithLostCharacters(t *testing.T) {
	csv := "original_url,title\nhttps://example.com/1,M\xfcnchen\nhttps://example.com/2,M\uFFFDnchen\nhttps://example.com/3,M\x00nchen\nhttps://example.com/4,München\n"
	lines := `{"original_url": "https://example.com/1", "title": "M` + "\xfc" + `nchen"}` + "\n" +
		`{"original_url": "https://example.com/2", "title": "M` + "\uFFFD" + `nchen"}` + "\n" +
		`{"original_url": "https://example.com/3", "title": "M\u0000nchen"}` + "\n" +
		`{"original_url": "https://example.com/4", "title": "München"}`
	for _, text := range []string{csv, lines} {
		links, refused := linksOf(t, text, linkfile.Options{Encoding: linkfile.UTF8})
		require.Len(t, refused, 3)
		require.Contains(t, refused[0], "the text is not in UTF-8: say its encoding")
		require.Contains(t, refused[1], "a character was lost")
		require.Contains(t, refused[2], "NUL byte")
		require.Len(t, links, 1)
		require.Equal(t, "München", links[0].Title)
	}
}
