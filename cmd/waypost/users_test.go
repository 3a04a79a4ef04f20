package main

import (
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUsersAdd_SaysHowToChangeTheRoleOfAMember(t *testing.T) {
	for email, want := range map[string]string{
		"ann@example.com": "ann@example.com is in the workspace already: `waypost users set ann@example.com --role viewer` changes the role",
		"bob@example.com": "an operator can add it to this workspace (409)",
	} {
		code, _, stderr := ask(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				_, _ = io.WriteString(w, `{"users":[{"id":7,"email":"ann@example.com","role":"member"}],"next_cursor":""}`)
				return
			}
			refuse(w, http.StatusConflict, "the address has an account already: an operator can add it to this workspace")
		}, "users", "add", email, "--role", "viewer")
		require.Equal(t, 1, code)
		require.Contains(t, stderr, want)
	}
}

func TestUsers_AnEmptyNameIsRefused(t *testing.T) {
	asked := 0
	first := func(w http.ResponseWriter, _ *http.Request) { // as the API lists accounts without an address
		asked++
		_, _ = io.WriteString(w, `{"users":[{"id":1,"email":"admin@example.com"}],"next_cursor":""}`)
	}
	for _, args := range [][]string{
		{"reset-second-factor", ""}, {"invite", "", "--all"}, {"set", "", "--all", "--disable"}, {"remove", "", "--yes"},
	} {
		code, _, stderr := ask(t, first, append([]string{"users"}, args...)...)
		require.NotZero(t, code, args)
		require.Contains(t, stderr, "USER is empty", args)
		require.Zero(t, asked, args)
	}
	code, _, stderr := ask(t, first, "users", "reset-second-factor", "ann@example.com")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "there is no user")
	code, _, stderr = ask(t, first, "users", "remove", "12")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "--yes")
}
