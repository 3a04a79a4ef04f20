package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/internal/rulefile"
)

const ruledLink = `{"short_code":"spring","short_url":"https://go.example.com/spring","valid_from":"2026-12-01T08:00:00Z",
	"rules":[{"id":2,"name":"here","when":[{"agent":["ios"]},{"not":true,"country":["NO","AT"]}],"to":"https://example.com/ios"}]}`

func TestLinksRules_AreShownAsAFileThatSetsThem(t *testing.T) {
	var method, match, body string
	api := func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		method, match, body = r.Method+" "+r.URL.String(), r.Header.Get("If-Match"), string(text)
		w.Header().Set("ETag", `"1-7-9"`)
		_, _ = w.Write([]byte(ruledLink))
	}
	code, shown, stderr := ask(t, api, "links", "rules", "spring")
	require.Zero(t, code, stderr)
	file := filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(file, []byte(shown), 0o600))
	code, stdout, stderr := ask(t, api, "links", "rules", "spring", "--set", file)
	require.Zero(t, code, stderr)
	require.Equal(t, "1 rule set\n", stdout)
	require.Equal(t, "PATCH /api/v1/urls/spring", method)
	require.Equal(t, `"1-7-9"`, match, "the state that was read")
	const rules = `{"id":2,"name":"here","when":[{"agent":["ios"]},{"not":true,"country":["NO","AT"]}],"to":"https://example.com/ios"}`
	require.JSONEq(t, `{"rules":[`+rules+`],"valid_from":"2026-12-01T08:00:00Z","expired_url":null}`, body)

	code, _, stderr = ask(t, api, "links", "rules", "spring", "--clear")
	require.Zero(t, code, stderr)
	require.Empty(t, match)
	require.JSONEq(t, `{"rules":null,"valid_from":null,"expired_url":null}`, body)

	code, _, stderr = ask(t, api, "links", "create", "https://example.com/", "--rules", file, "--expired-url", "https://example.com/over")
	require.Zero(t, code, stderr)
	require.JSONEq(t, `{"original_url":"https://example.com/","rules":[`+rules+`],"valid_from":"2026-12-01T08:00:00Z",
		"expired_url":"https://example.com/over"}`, body)

	code, _, stderr = ask(t, api, "links", "update", "spring", "--valid-from", "", "--expired-url", "https://example.com/over")
	require.Zero(t, code, stderr)
	require.JSONEq(t, `{"valid_from":null,"expired_url":"https://example.com/over"}`, body)

	code, stdout, _ = ask(t, api, "links", "rules", "--schema")
	require.Zero(t, code)
	require.Equal(t, string(rulefile.Schema), stdout)
}

func TestLinksRules_MistakesAreShownWithTheirLine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.yaml")
	set := func(text string, args ...string) (int, string) {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		code, _, stderr := ask(t, func(w http.ResponseWriter, _ *http.Request) {
			refuse(w, 422, `rules[0].when[0].country[1]: "D" is no code of a country, such as DE`)
		}, append(args, file)...)
		return code, stderr
	}
	code, stderr := set("rules:\n  - nam: x\n", "links", "rules", "spring", "--set")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, `rules.yaml:2:5: unknown field "nam"`)
	const wrong = "# comment\nrules:\n  - when:\n      - country:\n          - DE\n          - D\n    status: 404\n"
	for _, args := range [][]string{
		{"links", "rules", "spring", "--set"}, {"links", "create", "https://example.com/", "--rules"}, {"links", "update", "spring", "--rules"},
	} {
		code, stderr = set(wrong, args...)
		require.Equal(t, 1, code)
		require.Contains(t, stderr, `rules.yaml:6: rules[0].when[0].country[1]`)
	}
	for _, args := range [][]string{
		{"links", "rules"}, {"links", "rules", "a", "--schema"}, {"links", "rules", "a", "--clear", "--set", "x"},
	} {
		code, _, _ := ask(t, http.NotFound, args...)
		require.Equal(t, exitUsage, code, strings.Join(args, " "))
	}
}
