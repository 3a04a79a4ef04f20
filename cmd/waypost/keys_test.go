package main

import (
	"net/http"
	"path"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestKeysRevoke_AsksAndRevokesItsOwnKeyLast(t *testing.T) {
	var revoked []string
	api := func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodDelete:
			revoked = append(revoked, path.Base(r.URL.Path))
			w.WriteHeader(http.StatusNoContent)
		case path.Base(r.URL.Path) == "me":
			_, _ = w.Write([]byte(`{"credential":"key","key":{"id":7,"name":"mine"},"scopes":["admin"]}`))
		default:
			_, _ = w.Write([]byte(`{"keys":[{"id":7,"name":"mine"},{"id":8,"name":"ci"}]}`))
		}
	}
	code, _, stderr := ask(t, api, "keys", "revoke", "ci")
	require.Equal(t, exitUsage, code)
	require.Equal(t, "waypost: nothing was changed: type y when asked, or add --yes (see `waypost keys revoke --help`)\n", stderr)
	require.Empty(t, revoked)

	code, stdout, stderr := ask(t, api, "keys", "revoke", "mine", "ci", "--yes")
	require.Zero(t, code, stderr)
	require.Equal(t, "revoked mine, ci\n", stdout)
	require.Equal(t, "waypost: mine is the key that this command uses\n", stderr)
	require.Equal(t, []string{"8", "7"}, revoked)

	revoked = nil
	code, _, stderr = ask(t, api, "keys", "revoke", "ci", "nosuch", "--yes")
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, `revoke nosuch: there is no key "nosuch" here`)
	require.Empty(t, revoked)
}
