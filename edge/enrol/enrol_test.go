package enrol_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/edge/enrol"
)

// exchange is a control plane that takes a token once, for one secret.
type exchange struct {
	sync.Mutex // a client may come again before the answer to it has ended
	hash       string
	previous   string
	answers    []func(w http.ResponseWriter) // one for each request; beyond these it answers well
}

func (x *exchange) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body map[string]string
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || r.URL.Path != "/replication/v1/enrol" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	x.Lock()
	defer x.Unlock()
	if x.hash == "" {
		x.hash, x.previous = body["credential_sha256"], body["previous"]
	}
	if len(x.answers) > 0 {
		answer := x.answers[0]
		x.answers = x.answers[1:]
		answer(w)
		return
	}
	if body["credential_sha256"] != x.hash {
		w.WriteHeader(http.StatusGone)
		_, _ = w.Write([]byte(`{"detail": "the enrolment token was used\u001b already"}`))
		return
	}
	_, _ = w.Write([]byte(`{"node": "` + body["node"] + `", "region": "eu", "role": "edge"}`))
}

func lost(http.ResponseWriter) { panic(http.ErrAbortHandler) }

func busy(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) }

func config(t *testing.T, x *exchange) enrol.Config {
	t.Helper()
	server := httptest.NewServer(x)
	t.Cleanup(server.Close)
	return enrol.Config{Dir: t.TempDir(), URL: server.URL, Token: "token", Node: "eu-1", Region: "eu", Client: server.Client()}
}

func TestAnAnswerThatIsLostStrandsNobody(t *testing.T) {
	x := &exchange{answers: []func(http.ResponseWriter){lost, busy}}
	cfg := config(t, x)
	for range 2 {
		_, err := enrol.Enrol(t.Context(), cfg)
		require.Error(t, err)
		var refused *enrol.RefusedError
		require.NotErrorAs(t, err, &refused)
		none, err := enrol.Read(cfg.Dir)
		require.NoError(t, err)
		require.Nil(t, none)
	}
	got, err := enrol.Enrol(t.Context(), cfg) // as after a restart: only the directory is the same
	require.NoError(t, err)
	require.True(t, got.GotWith("token"))
	kept, err := enrol.Read(cfg.Dir)
	require.NoError(t, err)
	require.Equal(t, got, kept)
	require.NoFileExists(t, filepath.Join(cfg.Dir, "credential.new"))
	info, err := os.Stat(filepath.Join(cfg.Dir, "credential"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

func TestAnotherTokenMakesAnotherSecretAndShowsTheOneBefore(t *testing.T) {
	x := &exchange{}
	cfg := config(t, x)
	first, err := enrol.Enrol(t.Context(), cfg)
	require.NoError(t, err)
	_, err = enrol.Enrol(t.Context(), cfg)
	var refused *enrol.RefusedError
	require.ErrorAs(t, err, &refused, "the token is used up, and the secret of it is no pending one")
	require.ErrorContains(t, err, `the enrolment token was used\x1b already (HTTP 410)`)

	again := config(t, x)
	again.Dir, again.Token, again.Present = cfg.Dir, "another", first
	x.hash = ""
	second, err := enrol.Enrol(t.Context(), again)
	require.NoError(t, err)
	require.NotEqual(t, first.Secret, second.Secret)
	require.Equal(t, first.Secret, x.previous)
	require.False(t, second.GotWith("token"))
}

func TestWhatIsNoCredentialSaysWhatToDo(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "credential"), []byte(`{"secret": "x"}`), 0o600))
	_, err := enrol.Read(dir)
	require.ErrorContains(t, err, "waypost edges enrol --node NAME")
	cfg := config(t, &exchange{answers: []func(http.ResponseWriter){func(w http.ResponseWriter) {
		_, _ = w.Write([]byte(`<html>`))
	}}})
	require.NoError(t, os.WriteFile(filepath.Join(cfg.Dir, "credential.new"), []byte("torn"), 0o600))
	_, err = enrol.Enrol(t.Context(), cfg)
	require.ErrorContains(t, err, "is the URL right?")
	_, err = enrol.Enrol(t.Context(), cfg)
	require.NoError(t, err)
}
