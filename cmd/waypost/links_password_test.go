package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLinks_TakePasswordsFromStandardInput(t *testing.T) {
	for _, c := range []struct {
		args, stdin, want string
		code              int
	}{
		{"create https://example.com/ --password-stdin", "open sesame\n", `"password":"open sesame"`, 0},
		{"update spring --password-stdin", "open sesame\r\n", `"password":"open sesame"`, 0},
		{"update spring --no-password", "", `"password":null`, 0},
		{"update spring --no-password --password-stdin", "x", "", exitUsage},
		{"update spring --no-password=false --enable=false", "", "", exitUsage},
		{"create https://example.com/ --password-stdin", "", "", 1},
		{"create https://example.com/ --password-stdin", "two\nlines", "", 1},
	} {
		var got string
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			got = string(body)
			w.WriteHeader(http.StatusOK)
			_, _ = w.Write([]byte(aLink))
		}))
		var out, errs bytes.Buffer
		p := &program{
			stdin: strings.NewReader(c.stdin), stdout: &out, stderr: &errs,
			environ: []string{"WAYPOST_API=" + server.URL, "WAYPOST_API_KEY=wp_x", "XDG_CONFIG_HOME=" + t.TempDir()},
		}
		code := p.run(t.Context(), append([]string{"links"}, strings.Fields(c.args)...))
		server.Close()
		require.Equal(t, c.code, code, "%s: %s", c.args, errs.String())
		require.Contains(t, got, c.want)
		require.Equal(t, c.want == "", got == "", "nothing is sent")
		require.NotContains(t, out.String()+errs.String(), "sesame")
	}
}

func TestLinksCreate_NamesWhereNoPasswordWas(t *testing.T) {
	code, _, stderr := ask(t, http.NotFound, "links", "create", "https://example.com/", "--password-stdin")
	require.Equal(t, exitFailure, code)
	require.Equal(t, "waypost: there is no password on standard input\n", stderr)
}
