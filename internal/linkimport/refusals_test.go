package linkimport_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/client"
	"waypost/internal/linkimport"
)

func TestRefusals_HaveTheRowsOfTheFileBehindTheReasons(t *testing.T) {
	for name, c := range map[string]struct{ file, want, again string }{
		"commas": {
			"\uFEFFtitle,original_url,custom_code\r\n,,\r\nOne,https://example.com/1,one\r\n\r\n\"Two, \"\"lines\"\"\r\n" +
				"of title\",ftp://example.com/2,two\r\n" +
				"too,few\r\na \"bare quote,https://example.com/3,\r\n'=x,broken,four",
			"\uFEFFrefused,title,original_url,custom_code\n" +
				"\"line 5: no \"\"web\"\" address\",\"Two, \"\"lines\"\"\r\nof title\",ftp://example.com/2,two\n" +
				"\"line 7: 2 fields instead of 3\",too,few\n" +
				"\"line 8: no valid CSV: bare \"\" in non-quoted-field\",a \"bare quote,https://example.com/3,\n" +
				"\"line 9: no \"\"web\"\" address\",'=x,broken,four\n",
			"\uFEFFrefused,title,original_url,custom_code\n" +
				"\"line 2: no \"\"web\"\" address\",\"Two, \"\"lines\"\"\r\nof title\",ftp://example.com/2,two\n" +
				"\"line 4: 3 fields instead of 4\",too,few\n" +
				"\"line 5: no valid CSV: bare \"\" in non-quoted-field\",a \"bare quote,https://example.com/3,\n" +
				"\"line 6: no \"\"web\"\" address\",'=x,broken,four\n",
		},
		"a named separator, and CR alone": {
			"sep=;\roriginal_url;title\rftp://a;\"one\rtwo\"\rhttps://b;\rftp://c;x",
			"sep=;\rrefused;original_url;title\n\"line 3: no \"\"web\"\" address\";ftp://a;\"one\rtwo\"\n" +
				"\"line 5: no \"\"web\"\" address\";ftp://c;x\n",
			"sep=;\rrefused;original_url;title\n\"line 3: no \"\"web\"\" address\";ftp://a;\"one\rtwo\"\n" +
				"\"line 4: no \"\"web\"\" address\";ftp://c;x\n",
		},
		"tabs": {
			"original_url\ttitle\nftp://a\t\"so called\" x\nhttps://b\t\nftp://c\t\"x\ny\"\n",
			"refused\toriginal_url\ttitle\nline 2: no 'web' address\tftp://a\t\"so called\" x\nline 4: no 'web' address\tftp://c\t\"x\ny\"\n",
			"refused\toriginal_url\ttitle\nline 2: no 'web' address\tftp://a\t\"so called\" x\nline 3: no 'web' address\tftp://c\t\"x\ny\"\n",
		},
		"tabs and quotes": {
			"\"original_url\"\t\"title\"\n\"ftp://a\"\t\"x\"\n", "\"refused\"\t\"original_url\"\t\"title\"\n" +
				"line 2: no 'web' address\t\"ftp://a\"\t\"x\"\n",
			"\"refused\"\t\"original_url\"\t\"title\"\nline 2: no 'web' address\t\"ftp://a\"\t\"x\"\n",
		},
		"JSON lines": {
			"\uFEFF{\"original_url\":\"ftp://a\",\"tags\":[\"x\"]}\n\n{\"original_url\":\"https://b\"}\nno JSON\r\n{}\n" +
				"{ \"original_url\":\"ftp://c\" }",
			"{\"refused\":\"line 1: no \\\"web\\\" address\",\"original_url\":\"ftp://a\",\"tags\":[\"x\"]}\nno JSON\n{}\n" +
				"{\"refused\":\"line 6: no \\\"web\\\" address\", \"original_url\":\"ftp://c\" }\n",
			"",
		},
		"no refused row": {"url,title\nhttps://a,\n", "refused,url,title\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := refusals(t, c.file)
			require.Equal(t, c.want, got)
			if c.again != "" {
				require.Equal(t, c.again, refusals(t, got), "what an import of the refused rows refuses")
			}
		})
	}
}

// refusals imports a file through an API that takes web addresses alone, and returns the
// file of refused rows.
func refusals(t *testing.T, file string) string {
	t.Helper()
	var written strings.Builder
	refused := linkimport.NewRefusals(io.NewSectionReader(strings.NewReader(file), 0, int64(len(file))), "", &written)
	im := linkimport.Import{API: webOnly{}, Refused: func(r linkimport.Row) error { return refused.Add(r.Line, r.Reason) }}
	report, err := im.Run(t.Context(), strings.NewReader(file))
	require.NoError(t, err)
	require.NoError(t, refused.Flush())
	require.Equal(t, report.Rows-report.Created, report.NotCreated)
	return written.String()
}

// webOnly is an API that takes web addresses alone.
type webOnly struct{ refusing }

func (webOnly) CreateBulk(_ context.Context, ns []client.NewLink) ([]client.Outcome, error) {
	outcomes := make([]client.Outcome, len(ns))
	for i := range outcomes {
		outcomes[i].Status = http.StatusCreated
		if !strings.HasPrefix(ns[i].OriginalURL, "https://") {
			outcomes[i] = client.Outcome{Status: 422, Error: &client.ProblemBody{Detail: `no "web" address`}}
		}
	}
	return outcomes, nil
}
