package linkimport_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"waypost/internal/linkimport"
)

// The files are as spreadsheets and databases write them.
func TestImport_ReadsTablesAsProgramsWriteThem(t *testing.T) {
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
			text, err := os.ReadFile(filepath.Join("testdata", name))
			require.NoError(t, err)
			a := &api{}
			im := linkimport.Import{API: a, Wait: a.wait}
			report, err := im.Run(t.Context(), iotest.OneByteReader(strings.NewReader(string(text))))
			require.NoError(t, err)
			require.Empty(t, report.Refused)
			var got []string
			for _, n := range a.batches[0] {
				got = append(got, strings.TrimPrefix(n.OriginalURL, "https://example.com/")+" "+n.CustomCode+" "+n.Title+n.Notes)
			}
			require.Equal(t, want, got)
		})
	}
}

func TestImport_NamesTheLineOfTheFileWhateverItsLineEnds(t *testing.T) {
	for _, text := range []string{
		"sep=;\nurl;keyword;\n;;\nhttps://example.com/1;;note\nhttps://example.com/2;a;b;c\n",
		"sep=;\rurl;keyword;\r;;\rhttps://example.com/1;;note\rhttps://example.com/2;a;b;c\r",
		"sep=\t\nurl\tkeyword\t\n\t\t\nhttps://example.com/1\t\tnote\nhttps://example.com/2\ta\tb\tc\n",
	} {
		report, err := run(t, &api{}, text)
		require.NoError(t, err)
		require.Equal(t, []linkimport.Row{
			{Line: 4, Reason: `"note" is in column 3, which has no name in the header`},
			{Line: 5, Reason: "4 fields instead of 3"},
		}, report.Refused, text)
	}
}

func TestImport_TableWithTabsHasRowsOfBoundedLength(t *testing.T) {
	report, err := run(t, &api{}, "url\ttitle\nhttps://example.com/1\t\nhttps://example.com/2\t"+strings.Repeat("x", 300_000)+"\n")
	require.ErrorIs(t, err, linkimport.ErrUnreadable)
	require.Equal(t, 1, report.Created)
}
