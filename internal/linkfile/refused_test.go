package linkfile_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/internal/linkfile"
)

func TestRefusedWriter_HasTheRowsOfTheFileBehindTheReasons(t *testing.T) {
	for name, c := range map[string]struct {
		file, want string
		options    linkfile.Options
	}{
		"commas": {
			"\uFEFFtitle,original_url,custom_code\r\n,,\r\n\"Two, \"\"lines\"\"\r\nof title\",ftp://example.com/2,two\r\ntoo,few\r\n'=x,broken,four",
			"refused,title,original_url,custom_code\nno web,\"Two, \"\"lines\"\"\r\nof title\",ftp://example.com/2,two\n" +
				"no web,too,few\nno web,'=x,broken,four\n",
			linkfile.Options{},
		},
		"tabs": {
			"original_url\ttitle\nftp://a\t\"so called\" x\n",
			"refused,original_url,title\nno web,ftp://a,\"\"\"so called\"\" x\"\n",
			linkfile.Options{},
		},
		"another encoding": {
			"url;title\nftp://a;M\xfcller\n", "\uFEFFrefused,url,title\nno web,ftp://a,Müller\n", linkfile.Options{Encoding: linkfile.Windows1252},
		},
		"JSON": {
			"[{\"original_url\":\"ftp://a\",\n\"tags\":[\"x\"]},\n{}]",
			"{\"refused\":\"no web\",\"original_url\":\"ftp://a\",\"tags\":[\"x\"]}\n{\"refused\":\"no web\"}\n",
			linkfile.Options{},
		},
		"a dump": {
			"INSERT INTO `yourls_url` VALUES ('a','ftp://a','=1','2020-01-02 03:04:05','192.0.2.1',2);",
			"refused,keyword,url,title,timestamp,clicks\nno web,a,ftp://a,'=1,2020-01-02 03:04:05,2\n",
			linkfile.Options{},
		},
		"redirects": {
			"/docs/*  https://docs.example/:splat 302\n/app/*    /index.html 200\n",
			"# no web\n/docs/*  https://docs.example/:splat 302\n# no web\n/app/*    /index.html 200\n",
			linkfile.Options{Format: "netlify"},
		},
		"a list": {"https://a b\nhttps://c d e\n", "# no web\nhttps://a b\n# no web\nhttps://c d e\n", linkfile.Options{Format: linkfile.List}},
	} {
		t.Run(name, func(t *testing.T) {
			first, rows := refuseAll(t, c.file, c.options)
			require.Equal(t, c.want, first)
			if c.options.Encoding != "" {
				_, err := linkfile.NewReader(strings.NewReader(first), c.options)
				require.ErrorContains(t, err, "leave the encoding out")
				c.options.Encoding = ""
			}
			again, rowsAgain := refuseAll(t, first, c.options)
			require.Equal(t, strings.TrimPrefix(c.want, "\uFEFF"), again, "of a file of refused rows")
			require.Len(t, rowsAgain, len(rows))
			for i := range rows {
				if name != "a dump" { // where a cell has no apostrophe
					require.Equal(t, rows[i].Cells, rowsAgain[i].Cells)
				}
			}
		})
	}
}

// refuseAll reads a file, and returns the file of its rows, all of which are refused.
func refuseAll(t testing.TB, file string, o linkfile.Options) (refused string, rows []linkfile.Row) {
	t.Helper()
	r, err := linkfile.NewReader(strings.NewReader(file), o)
	require.NoError(t, err)
	for {
		row, err := r.Next()
		if errors.Is(err, io.EOF) || errors.Is(err, linkfile.ErrUnreadable) {
			break
		}
		require.NoError(t, err)
		rows = append(rows, row)
	}
	var written strings.Builder
	shape := r.Shape()
	w := linkfile.NewRefusedWriter(&written, &shape)
	for _, row := range rows {
		require.NoError(t, w.Add(row, "no web"))
	}
	require.NoError(t, w.Flush())
	return written.String(), rows
}
