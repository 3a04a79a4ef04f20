package rules_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane"
	"waypost/rules"
)

const secret = "Öffne dich, 5esam"

// ask sends a request to the edge, of a form when it has a password.
func (e *edgeServer) ask(t *testing.T, method, path, password, cookie string) *http.Response {
	t.Helper()
	conn, err := net.Dial("tcp", e.addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(30*time.Second)))
	lines, body := "", ""
	if password != "" {
		body = url.Values{"password": {password}}.Encode()
		lines = fmt.Sprintf("Content-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n", len(body))
	}
	if cookie != "" {
		lines += "Cookie: " + cookie + "\r\n"
	}
	_, err = io.WriteString(conn, method+" "+path+" HTTP/1.1\r\nHost: go.example.com\r\n"+lines+"\r\n"+body)
	require.NoError(t, err)
	res, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	require.NoError(t, err)
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NotContains(t, string(text), "target.example")
	return res
}

// change changes the link that has a password, and hands the edge its record.
func (s *system) change(t *testing.T, c controlplane.LinkChange) waypost.Link {
	t.Helper()
	const code = "secret"
	o, _, err := s.Links.Change(t.Context(), actor, "", code, c)
	require.NoError(t, err)
	s.edge.mu.Lock()
	defer s.edge.mu.Unlock()
	s.edge.records[code] = s.record(t, code)
	return o.Link
}

func TestPassword_FromTheControlPlaneToTheRedirect(t *testing.T) {
	s := start(t)
	const where = "https://target.example/private"
	s.create(t, controlplane.NewLink{OriginalURL: where, CustomCode: "secret", Password: secret})
	s.create(t, controlplane.NewLink{OriginalURL: where, CustomCode: "other-secret", Password: secret})

	pass := func(code, password string) string {
		t.Helper()
		res := s.edge.ask(t, "POST", "/"+code, password, "")
		require.Equal(t, 303, res.StatusCode)
		return res.Cookies()[0].Name + "=" + res.Cookies()[0].Value
	}
	status := func(path, cookie string) int { return s.edge.ask(t, "GET", path, "", cookie).StatusCode }
	require.Equal(t, 200, status("/secret", ""))
	require.Equal(t, 403, s.edge.ask(t, "POST", "/secret", "wrong", "").StatusCode)
	cookie := pass("secret", secret)
	res := s.edge.ask(t, "GET", "/secret", "", cookie)
	require.Equal(t, 302, res.StatusCode)
	require.Equal(t, where, res.Header.Get("Location"))
	require.Equal(t, 200, status("/secret", pass("other-secret", secret)), "the cookie of another link with the same password")
	require.Equal(t, 403, status("/secret+", cookie))
	require.Equal(t, 200, status("/secret?waypost_pass="+secretEscaped(), ""), "never in the query")

	t.Run("the control plane discloses nothing", func(t *testing.T) {
		visit := waypost.ParseVisit([]byte("/secret"))
		for _, c := range []string{"", cookie} {
			res, err := s.Links.Resolve(t.Context(), "go.example.com", &visit, &rules.Request{At: june.UnixMilli(), Cookie: []byte(c)})
			require.NoError(t, err)
			require.True(t, res.Gated)
		}
	})
	t.Run("its owner is told where it leads", func(t *testing.T) {
		e, err := s.Links.Explain(t.Context(), actor, "", "secret", &controlplane.Visitor{Request: rules.Request{At: june.UnixMilli()}})
		require.NoError(t, err)
		require.Equal(t, where, string(e.Resolution.Location))
	})
	t.Run("a change of other rules keeps it", func(t *testing.T) {
		s.change(t, controlplane.LinkChange{Rules: controlplane.RulesChange{Rules: &[]rules.Rule{{To: "https://target.example/rule"}}}})
		res := s.edge.ask(t, "GET", "/secret", "", cookie)
		require.Equal(t, "https://target.example/rule", res.Header.Get("Location"))
		require.Equal(t, 200, status("/secret", ""))
		s.change(t, controlplane.LinkChange{Rules: controlplane.RulesChange{Rules: &[]rules.Rule{}}})
		require.Equal(t, 302, status("/secret", cookie))
		require.NoError(t, s.Links.Reschedule(t.Context()))
	})
	t.Run("it refuses permanent redirects", func(t *testing.T) {
		permanent := 301
		_, _, err := s.Links.Change(t.Context(), actor, "", "secret", controlplane.LinkChange{RedirectStatus: &permanent})
		require.Equal(t, waypost.EInvalid, waypost.CodeOf(err))
	})
	t.Run("it survives deletion and restoration", func(t *testing.T) {
		_, err := s.Links.Remove(t.Context(), actor, "", "secret")
		require.NoError(t, err)
		l, _, err := s.Links.Restore(t.Context(), actor, "", "secret")
		require.NoError(t, err)
		require.True(t, rules.HasPassword(l.Programme))
	})
	t.Run("a new one makes cookies void", func(t *testing.T) {
		next := "another"
		l := s.change(t, controlplane.LinkChange{Rules: controlplane.RulesChange{Password: &next}})
		require.JSONEq(t, `{"last_rule": 1}`, string(l.Rules), "the ids of rules do not come back")
		require.Equal(t, 200, status("/secret", cookie))
		require.Equal(t, 403, s.edge.ask(t, "POST", "/secret", secret, "").StatusCode)
		require.Equal(t, 302, status("/secret", pass("secret", next)))
		s.change(t, controlplane.LinkChange{Rules: controlplane.RulesChange{Password: &next}})
	})
	t.Run("a cookie ends after 12 hours", func(t *testing.T) {
		cookie := pass("secret", "another")
		s.at(june.Add(12*time.Hour - time.Second))
		require.Equal(t, 302, status("/secret", cookie))
		s.at(june.Add(12 * time.Hour))
		require.Equal(t, 200, status("/secret", cookie))
		s.at(june)
	})
	t.Run("without it the link is as before", func(t *testing.T) {
		none := ""
		l := s.change(t, controlplane.LinkChange{Rules: controlplane.RulesChange{Password: &none}})
		require.JSONEq(t, `{"last_rule": 1}`, string(l.Rules))
		require.Nil(t, l.Programme)
		require.Equal(t, 302, status("/secret", ""))
	})
	t.Run("history tells that it changed, and nothing of it", func(t *testing.T) {
		changes, _, err := s.Links.History(t.Context(), actor, "", "secret", 50, "")
		require.NoError(t, err)
		var told []string
		for _, c := range changes {
			for _, f := range c.Fields {
				if f.Name == "password" {
					told = append(told, string(f.Before)+" "+string(f.After))
				}
			}
		}
		require.Equal(t, []string{"true false", "true true", "true true"}, told)
		text, err := json.Marshal(changes)
		require.NoError(t, err)
		require.NotContains(t, string(text), secret)
	})
}

func secretEscaped() string { return url.QueryEscape(secret) }

func TestPassword_IsBoundedPerRequest(t *testing.T) {
	s := start(t)
	const most = controlplane.MaxBulkPasswords
	ns := make([]controlplane.NewLink, most+2)
	for i := range ns {
		ns[i] = controlplane.NewLink{OriginalURL: "https://target.example/", CustomCode: fmt.Sprintf("many-%02d", i), Password: "x"}
	}
	ns[0].Password = strings.Repeat("x", 129)
	for _, create := range []func() []controlplane.Outcome{
		func() []controlplane.Outcome {
			outcomes, err := s.Links.DryRun(t.Context(), actor, ns)
			require.NoError(t, err)
			return outcomes
		},
		func() []controlplane.Outcome {
			outcomes, _, err := s.Links.CreateBulk(t.Context(), actor, ns)
			require.NoError(t, err)
			return outcomes
		},
	} {
		for i, o := range create() {
			if i > 0 && i < most {
				require.NoError(t, o.Err)
			} else {
				require.Equal(t, waypost.EInvalid, waypost.CodeOf(o.Err), i)
			}
		}
	}
	for _, bad := range []string{"a\nb", "a\x00", "gr\xff"} {
		_, _, err := s.Links.Create(t.Context(), actor, controlplane.NewLink{OriginalURL: "https://target.example/", Password: bad})
		require.Equal(t, waypost.EInvalid, waypost.CodeOf(err), bad)
	}
	dedupe := true
	n := controlplane.NewLink{OriginalURL: "https://target.example/", Password: "x", Dedupe: &dedupe}
	_, _, err := s.Links.Create(t.Context(), actor, n)
	require.Equal(t, waypost.EInvalid, waypost.CodeOf(err))
}
