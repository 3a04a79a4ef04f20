package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"waypost/api"
	"waypost/client"
)

// ask runs a command against an API.
func ask(t *testing.T, api http.HandlerFunc, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out bytes.Buffer
	code, stderr = askWith(t.Context(), t, &out, api, args...)
	return code, out.String(), stderr
}

func askWith(ctx context.Context, t *testing.T, stdout io.Writer, api http.HandlerFunc, args ...string) (code int, stderr string) {
	t.Helper()
	server := httptest.NewServer(api)
	defer server.Close()
	var errs bytes.Buffer
	p := &program{
		stdin: strings.NewReader(""), stdout: stdout, stderr: &errs,
		environ: []string{"WAYPOST_API=" + server.URL, "WAYPOST_API_KEY=wp_x", "XDG_CONFIG_HOME=" + t.TempDir()},
	}
	code = p.run(ctx, args)
	return code, errs.String()
}

// refuse answers with a problem.
func refuse(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"detail": detail}) // the test fails without it
}

const aLink = `{"short_code":"spring","short_url":"https://go.example.com/spring","domain":"go.example.com",
	"original_url":"https://example.com/","redirect_status":302,"forward_query":true,"forward_path":true,"title":"Spring",
	"description":"of the year","tags":["a","b,c"],"metadata":{"a":1},"created_by":"ann","active":true,"click_count":7,
	"created_at":"2026-01-02T03:04:05Z"}`

func TestLinksGet_ShowsEveryField(t *testing.T) {
	code, stdout, _ := ask(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(aLink)) }, "links", "get", "spring")
	require.Zero(t, code)
	require.Equal(t, `short URL    https://go.example.com/spring
domain       go.example.com
target       https://example.com/
redirect     302
forwards     query and path
title        Spring
description  of the year
tags         a, b,c
metadata     {"a":1}
state        live
clicks       7
created      2026-01-02T03:04:05Z by ann
expires      never
`, stdout)
}

func TestLinksGet_ShowsThatALinkHasExpired(t *testing.T) {
	expired := strings.Replace(aLink, `"active"`, `"expires_at":"2026-01-03T03:04:05Z","active"`, 1)
	code, stdout, _ := ask(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(expired)) }, "links", "get", "spring")
	require.Zero(t, code)
	require.Contains(t, stdout, "state        expired\n")
}

func TestLinkName_TakesShortURLs(t *testing.T) {
	for argument, want := range map[string][2]string{
		"spring":                        {"", "spring"},
		"spring+":                       {"", "spring"},
		"https://go.example.com/spring": {"go.example.com", "spring"},
		"https://go.example.com:8443/spring+?a=b#": {"go.example.com", "spring"},
		"go.example.com/summer/2026/":              {"go.example.com", "summer/2026"},
		"https://go.example.com/caf%C3%A9+":        {"go.example.com", "café"},
		"summer/2026":                              {"", "summer/2026"},
		"http://localhost:8081/spring":             {"", "spring"},
		"http://[::1]:8081/spring":                 {"::1", "spring"},
		"http://%zz/spring":                        {"", "http://%zz/spring"},
	} {
		host, code := linkName("", argument)
		require.Equal(t, want, [2]string{host, code}, argument)
	}
	host, code := linkName("other.example", "https://go.example.com/spring")
	require.Equal(t, [2]string{"other.example", "spring"}, [2]string{host, code}, "the flag decides")
}

func TestLinksGet_TakesAShortURL(t *testing.T) {
	var asked string
	code, _, stderr := ask(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.String()
		_, _ = w.Write([]byte(aLink))
	}, "links", "get", "https://go.example.com/spring+")
	require.Zero(t, code, stderr)
	require.Equal(t, "/api/v1/urls/spring?domain=go.example.com&expired=true", asked)
}

func TestRefusals_NameFlags(t *testing.T) {
	for _, c := range []struct {
		args          []string
		status        int
		detail, wants string
	}{
		{
			[]string{"links", "create", "https://a.example"},
			422, "body.redirect_status: expected value to be one of 301",
			"--status: expected value to be one of 301 (422)",
		},
		{[]string{"links", "create", "https://a.example"}, 422, "custom_code must be 4 to 32 characters", "--code must be 4 to 32 characters (422)"},
		{[]string{"links", "create", "https://a.example"}, 422, "body.original_url: too long", "the URL: too long (422)"},
		{[]string{"links", "update", "a", "--title", "x"}, 422, "body.original_url: too long", "--target: too long (422)"},
		{
			[]string{"links", "create", "https://a.example"},
			422, "body.rules[0].when[0].agent[0]: expected value to be one of ios",
			"waypost: rules[0].when[0].agent[0]: expected value to be one of ios (422)",
		},
		{
			[]string{"links", "rules", "a", "--clear"},
			422, "body.rules[1].to: expected length <= 8192", "waypost: rules[1].to: expected length <= 8192 (422)",
		},
		{
			[]string{"links", "get", "a"},
			403, "the API key belongs to another workspace than the header Waypost-Workspace asks for",
			"waypost: the API key belongs to another workspace than --workspace asks for (403)",
		},
		{[]string{"links", "get", "a"}, 404, "there is no code spring_sale", "there is no code spring_sale (404)"},
		{[]string{"links", "get", "a"}, 401, "a key is required", "a key is required (401): run `waypost login`, or set WAYPOST_API_KEY or --api-key-file"},
		{[]string{"accept", "token", "--password-file", "/dev/stdin"}, 401, "the invitation was used", "the invitation was used (401)\n"},
	} {
		if c.args[0] == "accept" {
			file := t.TempDir() + "/password"
			require.NoError(t, os.WriteFile(file, []byte("a long password\n"), 0o600))
			c.args[3] = file
		}
		code, _, stderr := ask(t, func(w http.ResponseWriter, _ *http.Request) { refuse(w, c.status, c.detail) }, c.args...)
		require.Equal(t, 1, code)
		require.Contains(t, stderr, c.wants)
	}
}

func TestLinks_RefuseFlagsThatMakeNoSense(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"links", "create", "https://a.example", "--max-clicks", "0"}, "--max-clicks: 0 is less than 1"},
		{[]string{"links", "update", "spring", "--max-clicks", "-1"}, "--max-clicks: -1 is less than 1"},
		{
			[]string{"links", "create", "https://a.example", "--expires-in", "1s", "--expires-at", "2090-12-31T00:00:00Z"},
			"--expires-in and --expires-at contradict one another",
		},
		{[]string{"links", "create", "https://a.example", "--expires-at", ""}, "--expires-at is empty: leave it out for none"},
		{[]string{"links", "create", "https://a.example", "--tag", "a", "--tag", ""}, "--tag: a tag is empty"},
		{[]string{"links", "update", "spring", "--tag", ""}, "--tag: a tag is empty: --no-tags takes all away"},
	} {
		code, _, stderr := ask(t, func(http.ResponseWriter, *http.Request) { t.Error("the API was asked") }, c.args...)
		require.Equal(t, exitUsage, code, c.args)
		require.Contains(t, stderr, "waypost: "+c.want+" (see", c.args)
	}
}

func TestMoment_TakesTimes(t *testing.T) {
	p := linksCommands{&program{stderr: io.Discard}}
	for text, want := range map[string]time.Time{
		"":                          {},
		"2030-12-31T23:59:59.5Z":    time.Date(2030, 12, 31, 23, 59, 59, 5e8, time.UTC),
		"2030-12-31T23:59+01:00":    time.Date(2030, 12, 31, 22, 59, 0, 0, time.UTC),
		"2030-12-31T23:59:59+01:00": time.Date(2030, 12, 31, 22, 59, 59, 0, time.UTC),
	} {
		got, err := p.moment(t.Context(), "--at", text)
		require.NoError(t, err, text)
		require.Equal(t, want, got.UTC(), text)
	}
	for text, want := range map[string]string{
		"2030-12-31T23:59:59": `--at: "2030-12-31T23:59:59" has no time zone: write 2030-12-31T23:59:59Z, or an offset such as +01:00 instead of Z`,
		"2030-12-31 23:59":    `--at: "2030-12-31 23:59" has no time zone: write 2030-12-31T23:59:00Z, or an offset`,
		"tomorrow":            `--at: "tomorrow" is no time such as 2030-12-31T23:59:59Z, and no day such as 2030-12-31`,
	} {
		_, err := p.moment(t.Context(), "--at", text)
		require.ErrorContains(t, err, want)
	}
	f := filterFlags{createdAfter: "2030-12-31 23:59"}
	_, err := f.filter(t.Context(), p)
	require.ErrorContains(t, err, "--created-after: \"2030-12-31 23:59\" has no time zone")
}

func TestLinksCreate_DaysAreThoseOfTheWorkspacesTimeZone(t *testing.T) {
	var sent map[string]any
	api := func(w http.ResponseWriter, r *http.Request) {
		if path.Base(r.URL.Path) == "me" {
			_, _ = io.WriteString(w, `{"workspace":{"slug":"default","time_zone":"Europe/Berlin"}}`)
			return
		}
		assert.NoError(t, json.NewDecoder(r.Body).Decode(&sent))
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, aLink)
	}
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(rules, []byte("rules:\n  - to: https://b.example\n    when:\n      - until: 2027-10-31\n"), 0o600))
	code, _, stderr := ask(t, api, "links", "create", "https://a.example", "--expires-at", "2027-12-31", "--valid-from", "2027-07-01",
		"--rules", rules)
	require.Zero(t, code, stderr)
	require.Contains(t, fmt.Sprint(sent["rules"]), "until:2027-10-31T23:00:00Z")
	require.Contains(t, stderr, "waypost: until 2027-10-31 is 2027-11-01T00:00:00+01:00 (Europe/Berlin)\n")
	require.Equal(t, "2027-12-31T23:00:00Z", sent["expires_at"])
	require.Equal(t, "2027-06-30T22:00:00Z", sent["valid_from"])
	require.Contains(t, stderr, "waypost: --expires-at 2027-12-31 is 2028-01-01T00:00:00+01:00 (Europe/Berlin)\n")
	require.Contains(t, stderr, "waypost: --valid-from 2027-07-01 is 2027-07-01T00:00:00+02:00 (Europe/Berlin)\n")
}

func TestHelp_RefusesWhatIsNoCommand(t *testing.T) {
	for args, want := range map[string]string{
		"help nope":         "waypost: unknown command \"nope\" for \"waypost\" (see `waypost --help`)\n",
		"help link":         "waypost: unknown command \"link\" for \"waypost\": did you mean links? (see `waypost --help`)\n",
		"help links lisst":  "waypost: unknown command \"lisst\" for \"waypost links\": did you mean list? (see `waypost --help`)\n",
		"links list --tags": "waypost: unknown flag: --tags: did you mean --tag? (see `waypost links list --help`)\n",
		"links list --tga":  "waypost: unknown flag: --tga: did you mean --tag? (see `waypost links list --help`)\n",
		"links list --foo":  "waypost: unknown flag: --foo (see `waypost links list --help`)\n",
		"links list -x":     "waypost: unknown shorthand flag: 'x' in -x (see `waypost links list --help`)\n",
	} {
		code, stdout, stderr := ask(t, http.NotFound, strings.Fields(args)...)
		require.Equal(t, exitUsage, code, args)
		require.Empty(t, stdout, args)
		require.Equal(t, want, stderr, args)
	}
	for _, args := range []string{"help", "help links", "help links list", "help help"} {
		code, stdout, stderr := ask(t, http.NotFound, strings.Fields(args)...)
		require.Zero(t, code, args)
		require.Contains(t, stdout, "Usage:", args)
		require.Empty(t, stderr, args)
	}
}

func TestForgetClicks_CountsEventsOnlyWhereThereAreSome(t *testing.T) {
	for answer, want := range map[string]string{
		`{"clicks":2,"events":0}`: "deleted 2 clicks of spring\n",
		`{"clicks":1,"events":1}`: "deleted 1 click of spring, 1 of which had been kept one by one\n",
	} {
		_, stdout, stderr := ask(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(answer)) },
			"links", "forget-clicks", "spring", "--yes")
		require.Equal(t, want, stdout, stderr)
	}
}

func TestArguments_TooManyAreNamed(t *testing.T) {
	code, _, stderr := ask(t, http.NotFound, "links", "get", "a", "b")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "2 arguments are too many, it takes CODE: the command is `waypost links get CODE")
}

func TestLinksCreate_SaysThatALinkWasFound(t *testing.T) {
	for status, want := range map[int]string{
		http.StatusOK:      "waypost: found: https://go.example.com/spring was there already, and is unchanged\n",
		http.StatusCreated: "",
	} {
		code, stdout, stderr := ask(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(aLink))
		}, "links", "create", "https://example.com/", "--dedupe", "--title", "Foo")
		require.Zero(t, code)
		require.Equal(t, "https://go.example.com/spring\n", stdout)
		require.Equal(t, want, stderr)
	}
}

func TestLinksUpdate_SaysWhatEdgesHave(t *testing.T) {
	for applied, want := range map[string]string{
		"all; edges=2":    "2 edges: all have the change\n",
		"region; edges=1": "1 edge of this region: all have the change\n",
		"none":            "no edge is there to wait for\n",
		"reachable; silent=eu-1,eu-2": "the change is made, and silent edges may serve without it: eu-1, eu-2; " +
			"if one is gone for good: waypost edges gone NODE\n",
		"timeout; behind=eu-1": "the change is made, but not all edges had it in time (timeout; behind=eu-1)\n",
	} {
		api := func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Waypost-Applied", applied)
			_, _ = w.Write([]byte(aLink))
		}
		code, _, stderr := ask(t, api, "links", "update", "spring", "--title", "x", "--wait", "all")
		require.Zero(t, code)
		require.Equal(t, "waypost: "+want, stderr)
		code, _, stderr = ask(t, api, "links", "update", "spring", "--title", "x", "--wait", "all", "--require-wait")
		require.Contains(t, stderr, want)
		if strings.Contains(applied, "edges=") {
			require.Zero(t, code)
			continue
		}
		require.Equal(t, 1, code)
		require.Contains(t, stderr, "spring: the change is made, and is not known to be on every edge that may be serving ("+applied+")")
	}
	code, _, stderr := ask(t, nil, "links", "update", "spring", "--title", "x", "--require-wait")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "--require-wait: there is nothing to wait for without --wait")
}

func TestLinksDelete_NamesTheOutcomesOfWaiting(t *testing.T) {
	code, stdout, _ := ask(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Waypost-Applied", map[string]string{
			"/api/v1/urls/a": "reachable; silent=eu-1", "/api/v1/urls/b": "all; edges=1",
		}[r.URL.Path])
		w.WriteHeader(http.StatusNoContent)
	}, "links", "delete", "a", "b", "--yes", "--wait", "all", "--require-wait", "--output", "json")
	require.Equal(t, 1, code)
	require.JSONEq(t, `{"deleted": ["a", "b"], "applied": {"a": "reachable; silent=eu-1", "b": "all; edges=1"}}`, stdout)
}

func TestUnknownVariables_AreWarnings(t *testing.T) {
	var out, errs bytes.Buffer
	p := &program{stdout: &out, stderr: &errs, environ: []string{"WAYPOST_API=http://127.0.0.1:1", "WAYPOST_DATADIR=x", "HOME=" + t.TempDir()}}
	require.Equal(t, 1, p.run(t.Context(), []string{"links", "list"}))
	require.Contains(t, errs.String(), "waypost: warning: unknown environment variable WAYPOST_DATADIR (did you mean WAYPOST_DATA_DIR?)\n")
	require.Equal(t, 1, strings.Count(errs.String(), "WAYPOST_DATADIR"))

	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	errs.Reset()
	p = &program{stdout: &out, stderr: &errs, environ: []string{"WAYPOST_DATADIR=x"}}
	require.Equal(t, 1, p.run(t.Context(), []string{"dev", "--data-dir", file}))
	require.Contains(t, errs.String(), "waypost: warning: unknown environment variable WAYPOST_DATADIR")
}

func TestCompletion_KnowsCodesDomainsAndTags(t *testing.T) {
	api := func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/v1/urls":
			_, _ = w.Write([]byte(`{"urls":[{"short_code":"spring"},{"short_code":"summer"},{"short_code":"autumn"}]}`))
		case "/api/v1/tags":
			_, _ = w.Write([]byte(`{"tags":[{"tag":"sale"},{"tag":"blog"}]}`))
		default:
			_, _ = w.Write([]byte(`{"domains":[{"host":"go.example.com"}],"edges":[{"node":"eu-1"}]}`))
		}
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"links", "get", "s"}, "spring\nsummer\n:4\n"},
		{[]string{"links", "delete", "spring", "su"}, "summer\n:4\n"},
		{[]string{"links", "list", "--tag", "b"}, "blog\n:4\n"},
		{[]string{"links", "get", "--domain", ""}, "go.example.com\n:4\n"},
		{[]string{"domains", "set", ""}, "go.example.com\n:4\n"},
		{[]string{"edges", "gone", "e"}, "eu-1\n:4\n"},
		{[]string{"verify", "--edge", "e"}, "eu-1\n:4\n"},
		{[]string{"links", "create", ""}, ":4\n"},
		{[]string{"import", "x"}, ":0\n"},
	} {
		_, stdout, _ := ask(t, api, append([]string{"__complete"}, c.args...)...)
		require.Equal(t, c.want, stdout, c.args)
	}
}

func TestLinkTable_ShowsStatesWhenALinkIsNotLive(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	before, after := now.Add(-time.Hour), now.Add(time.Hour)
	live := client.Link{ShortCode: "live", Active: true, CreatedAt: before, OriginalURL: "https://example.com/", ExpiresAt: &after, ValidFrom: &before}
	page := client.Page{Links: []client.Link{live}}
	require.Equal(t, "CODE  CREATED              CLICKS  TARGET                TITLE\n"+
		"live  2026-01-02 02:04:05  0       https://example.com/  ", linkTable(page, now, 0))

	off, over, early, blocked := live, live, live, live
	off.Active, over.ExpiresAt, early.ValidFrom, blocked.Blocked = false, &now, &after, &api.LinkBlock{}
	for want, l := range map[string]client.Link{"disabled": off, "expired": over, "not yet valid": early, "blocked": blocked} {
		table := strings.Split(linkTable(client.Page{Links: []client.Link{live, l}}, now, 0), "\n")
		require.Regexp(t, `^CODE  STATE +CREATED`, table[0])
		require.Regexp(t, `^live  live +2026`, table[1])
		require.Regexp(t, `^live  `+want+` +2026`, table[2])
	}
	early.Active = false
	require.Equal(t, "disabled, not yet valid", stateText(&early, now))

	off.DeletedAt = &now
	require.NotContains(t, linkTable(client.Page{Links: []client.Link{off}}, now, 0), "STATE", "none of these is live")
}

func TestLinksSearch_HintsAtOtherWaysWhenNothingIsFound(t *testing.T) {
	answer := `{"urls":[]}`
	api := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(answer)) }
	const get = "waypost: a link is found by its short URL with `waypost links get https://go.example.com/spring`\n"
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"search", "https://go.example.com/spring"}, get},
		{[]string{"list", "--search", "https://go.example.com/spring"}, get},
		{[]string{"list", "--search", "spring"}, ""},
		{[]string{"list"}, ""},
		{[]string{"search", "spr", "--output", "json"}, ""},
	} {
		code, _, stderr := ask(t, api, append([]string{"links"}, c.args...)...)
		require.Zero(t, code)
		require.Equal(t, c.want, stderr, c.args)
	}
	_, stdout, stderr := ask(t, api, "links", "search", "spr")
	require.Equal(t, "no links\n", stdout)
	require.Contains(t, stderr, "`waypost links list --search` takes the beginnings of words")

	answer = `{"urls":[` + aLink + `]}`
	_, _, stderr = ask(t, api, "links", "search", "spring")
	require.Empty(t, stderr)
}

func TestLinksDelete_NeedsAYesWithoutATerminal(t *testing.T) {
	asked := 0
	code, _, stderr := ask(t, func(http.ResponseWriter, *http.Request) { asked++ }, "links", "delete", "spring")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "nothing was changed: type y when asked, or add --yes")
	require.Zero(t, asked)
}

func TestLinksDelete_GoesOnBehindALinkThatIsNotThere(t *testing.T) {
	api := func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/api/v1/urls/nosuch") {
			refuse(w, http.StatusNotFound, "there is no such link")
			return
		}
		if r.Method == http.MethodPost {
			_, _ = w.Write([]byte(aLink))
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
	code, stdout, stderr := ask(t, api, "links", "delete", "one", "nosuch", "http://go.example.com/two", "--yes")
	require.Equal(t, 1, code)
	require.Equal(t, "deleted one, http://go.example.com/two\n", stdout)
	require.Equal(t, "waypost: delete nosuch: there is no such link (404)\n", stderr)
	code, stdout, _ = ask(t, api, "links", "restore", "one", "two", "--output", "json")
	require.Zero(t, code)
	require.JSONEq(t, `{"restored": ["one", "two"]}`, stdout)
}

func TestLinksQR_GoesToTheTerminalOrAFile(t *testing.T) {
	var asked string
	api := func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.String()
		_, _ = w.Write([]byte("█▀\n ▄\n"))
	}
	code, stdout, stderr := ask(t, api, "links", "qr", "https://go.example.com/spring", "--margin", "1")
	require.Equal(t, "█▀\n ▄\n", stdout, stderr)
	require.Zero(t, code)
	require.Equal(t, "/api/v1/urls/spring/qr?domain=go.example.com&format=text&margin=1", asked)

	file := filepath.Join(t.TempDir(), "spring.svg")
	code, stdout, _ = ask(t, api, "links", "qr", "spring", "--file", file, "--level", "H", "--output", "json")
	require.Zero(t, code)
	require.JSONEq(t, `{"file":"`+file+`"}`, stdout)
	require.Equal(t, "/api/v1/urls/spring/qr?format=svg&level=H", asked)
	written, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "█▀\n ▄\n", string(written))

	sheet := filepath.Join(t.TempDir(), "sheet.pdf")
	code, _, stderr = ask(t, api, "links", "qr", "spring", "https://go.example.com/summer", "--file", sheet, "--millimetres", "30")
	require.Zero(t, code, stderr)
	require.Equal(t, "/api/v1/urls/spring/qr?also=go.example.com%2Fsummer&format=pdf&millimetres=30", asked)
	code, _, stderr = ask(t, api, "links", "qr", "spring", "summer", "--file", "sheet.png")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "several links need a --file whose name ends in .pdf")

	code, _, stderr = ask(t, api, "links", "qr", "spring", "--file", "spring.gif")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, ".svg, .png or .pdf")

	code, _, stderr = ask(t, api, "links", "qr", "spring", "--file", "/nonexistent/x.png")
	require.Equal(t, 1, code)
	require.Equal(t, "waypost: open /nonexistent/x.png: no such file or directory\n", stderr)
}

func TestLinksHistory_ShowsEachField(t *testing.T) {
	t.Setenv("TZ", "UTC")
	var asked string
	code, stdout, stderr := ask(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.String()
		_, _ = w.Write([]byte(`{"changes": [{"id": "3-12", "at": "2026-01-02T03:04:05Z", "what": "changed",
			"by": {"kind": "user", "id": 7, "name": "Ada <ada@example.com>"}, "fields": [{"name": "tags", "before": [], "after": ["a"]},
			{"name": "title", "before": "", "after": "x\u001b"}]},
			{"id": "0-0", "at": "2026-01-02T03:04:05Z", "what": "created", "by": null, "fields": []}],
			"next_cursor": "3-12"}`))
	}, "links", "history", "go.example.com/spring", "--limit", "7")
	require.Zero(t, code, stderr)
	require.Equal(t, "/api/v1/urls/spring/history?domain=go.example.com&limit=7", asked)
	for _, part := range []string{"Ada <ada@example.com>", `["a"]`, "x\uFFFD", "unknown", "created", "more with --cursor 3-12"} {
		require.Contains(t, stdout, part)
	}
	code, _, _ = ask(t, nil, "links", "history", "spring", "--limit", "201")
	require.Equal(t, exitUsage, code)
}
