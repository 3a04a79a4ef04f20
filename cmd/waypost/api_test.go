package main

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestACommandAsksTheSystemOfItsFlagsAndNoOther(t *testing.T) {
	var asked []string
	api := func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.Path)
		w.WriteHeader(http.StatusTeapot)
	}
	empty := t.TempDir()
	for _, args := range [][]string{{"links", "list"}, {"links", "delete", "spring", "--yes"}, {"whoami"}} {
		code, _, stderr := ask(t, api, append(args, "--data-dir", empty)...)
		require.Equal(t, exitFailure, code)
		require.Contains(t, stderr, "no development system runs in "+empty)
	}
	code, _, stderr := ask(t, api, "keys", "create", "--name", "x", "--database-url", "postgres://waypost@127.0.0.1:1/waypost")
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, "is PostgreSQL running there")
	require.Empty(t, asked, "WAYPOST_API is another system")

	_, _, _ = ask(t, api, "links", "get", "spring")
	require.Equal(t, []string{"GET /api/v1/urls/spring"}, asked)
}

func TestDomainsRemove_AsksBeforeItDeletesLinks(t *testing.T) {
	var removed int
	api := func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			removed++
			w.WriteHeader(http.StatusNoContent)
			return
		}
		_, _ = w.Write([]byte(`{"domains":[{"id":17,"host":"go.example.org"}]}`))
	}
	code, _, stderr := ask(t, api, "domains", "remove", "go.example.org", "--force")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "nothing was changed: type go.example.org when asked, or add --yes")
	require.Zero(t, removed)
	code, stdout, stderr := ask(t, api, "domains", "remove", "go.example.org", "--force", "--yes")
	require.Zero(t, code, stderr)
	require.Equal(t, "removed go.example.org\n", stdout)
	require.Equal(t, 1, removed)
}
