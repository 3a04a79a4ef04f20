package node

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api/clickbatch"
	"waypost/replication"
)

func TestControls_LeaveOneThatDoesNotAnswer(t *testing.T) {
	var status atomic.Int64
	status.Store(http.StatusOK)
	serve := func(name string, status *atomic.Int64) *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if status != nil {
				w.WriteHeader(int(status.Load()))
			}
			_, _ = io.WriteString(w, name+" "+r.Host+r.URL.Path)
		}))
		t.Cleanup(s.Close)
		return s
	}
	first, second := serve("first", &status), serve("second", nil)
	c, err := newControls([]string{first.URL, second.URL})
	require.NoError(t, err)
	client := &http.Client{Transport: c.through(http.DefaultTransport)}
	ask := func() (string, error) {
		res, err := client.Get(first.URL + "/path")
		if err != nil {
			return "", err
		}
		text, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return string(text), res.Body.Close()
	}
	says := func(want *httptest.Server, name string) {
		t.Helper()
		for range 3 {
			text, err := ask()
			require.NoError(t, err)
			require.Equal(t, name+" "+strings.TrimPrefix(want.URL, "http://")+"/path", text)
		}
	}
	says(first, "first")
	status.Store(http.StatusForbidden) // an answer
	says(first, "first")
	status.Store(http.StatusServiceUnavailable)
	_, err = ask()
	require.NoError(t, err, "the caller repeats it")
	says(second, "second")
	second.Close()
	_, err = ask()
	require.Error(t, err)
	status.Store(http.StatusOK)
	says(first, "first")

	_, err = newControls(nil)
	require.Error(t, err)
}

// history is that of a replica.
type history struct {
	cluster replication.Cluster
	at      waypost.Position
}

func (h *history) Cluster() (replication.Cluster, bool) {
	return h.cluster, h.cluster != replication.Cluster{}
}
func (h *history) Position() waypost.Position { return h.at }

func TestHistoryStamp_NamesTheHistoryOfTheReplica(t *testing.T) {
	var sent http.Header
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { sent = r.Header }))
	t.Cleanup(s.Close)
	h := &history{}
	client := &http.Client{Transport: historyStamp{h, http.DefaultTransport}}
	_, err := client.Get(s.URL)
	require.ErrorIs(t, err, errNoReplica)
	h.cluster, h.at = replication.Cluster{0xab}, waypost.Position{Epoch: waypost.Epoch{Ordinal: 7, ID: waypost.EpochID{1}}, Seq: 3}
	res, err := client.Get(s.URL)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, "ab000000000000000000000000000000", sent.Get(clickbatch.HeaderCluster))
	require.Equal(t, h.at.String(), sent.Get(clickbatch.HeaderPosition))
}
