package main

import (
	"bytes"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/internal/dev"
)

func TestALoginTellsWhichCredentialGoesBeforeIt(t *testing.T) {
	server := httptest.NewServer(&rangesAPI{answers: map[string]string{
		"POST /api/v1/session": `{"token": "wp_sess_x", "expires_at": "2100-01-01T00:00:00Z", "user": {"id": 7, "email": "ann@example.com"},
			"workspaces": [{"slug": "default", "role": "admin"}]}`,
		"POST /api/v1/invitation": `{"id": 7, "email": "ann@example.com"}`,
	}})
	defer server.Close()
	withKey, withoutKey := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(dev.StateFile(withKey), []byte(`{"api": "`+server.URL+`", "api_key": "wp_live_x"}`), 0o600))
	require.NoError(t, os.WriteFile(dev.StateFile(withoutKey), []byte(`{"api": "`+server.URL+`"}`), 0o600))

	for name, c := range map[string]struct {
		env  []string
		args []string
		want string // nothing else is on standard error
	}{
		"nothing goes before it":         {env: []string{"WAYPOST_API=" + server.URL}},
		"a key":                          {[]string{"WAYPOST_API=" + server.URL, "WAYPOST_API_KEY=wp_live_x"}, nil, "the session only without it"},
		"the development system's":       {[]string{"WAYPOST_DATA_DIR=" + withKey}, nil, "the API key of the development system in " + withKey + ", and the session only with --api " + server.URL},
		"a development system without":   {env: []string{"WAYPOST_DATA_DIR=" + withoutKey}},
		"a development system elsewhere": {[]string{"WAYPOST_DATA_DIR=" + withKey}, []string{"--api", server.URL}, "commands without --api go to the development system in " + withKey},
		"the API of the environment": {
			[]string{"WAYPOST_DATA_DIR=" + withKey, "WAYPOST_API=" + server.URL},
			[]string{"--api", server.URL},
			"",
		},
	} {
		for _, command := range [][]string{{"login", "--email", "ann@example.com"}, {"accept", "wp_inv_x"}} {
			t.Run(name+", "+command[0], func(t *testing.T) {
				var stdout, stderr bytes.Buffer
				p := &program{
					stdin: strings.NewReader("correct horse battery\n"), stdout: &stdout, stderr: &stderr,
					environ: append([]string{"HOME=" + t.TempDir(), "XDG_CONFIG_HOME=" + t.TempDir()}, c.env...),
				}
				require.Zero(t, p.run(t.Context(), append(command, c.args...)), stderr.String())
				require.Contains(t, stdout.String(), "ann@example.com")
				if c.want == "" {
					require.Empty(t, stderr.String())
					return
				}
				require.Contains(t, stderr.String(), c.want)
				require.Equal(t, 1, strings.Count(stderr.String(), "\n"))
			})
		}
	}
}
