package system_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"io"
	"io/fs"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/client"
	"waypost/edge/audience"
	"waypost/test/devtest"
)

// visitFrom asks an edge for a link as a proxy would for a visitor.
func visitFrom(ctx context.Context, edge, code, address, agent, referrer string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, edge+"/"+code, http.NoBody)
	if err != nil {
		return 0, err
	}
	req.Header.Set("X-Forwarded-For", address)
	req.Header.Set("User-Agent", agent)
	req.Header.Set("Referer", referrer)
	res, err := visitor.Do(req)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, res.Body)
	if closeErr := res.Body.Close(); err == nil {
		err = closeErr
	}
	return res.StatusCode, err
}

// currentSalts returns the salts of the database.
func currentSalts(t *testing.T, url string) saltsByDay {
	t.Helper()
	hand, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { require.NoError(t, hand.Close(context.WithoutCancel(t.Context()))) }()
	salts := saltsByDay{}
	eventually(t, time.Minute, "salted", func() bool {
		rows, err := hand.Query(t.Context(), `SELECT day - '1970-01-01'::date, salt FROM visitor_salt, set_config('role', 'waypost_operator', false)`)
		require.NoError(t, err)
		defer rows.Close()
		for rows.Next() {
			var day int32
			var salt []byte
			require.NoError(t, rows.Scan(&day, &salt))
			salts[day] = (*waypost.Salt)(salt)
		}
		require.NoError(t, rows.Err())
		return len(salts) >= 3
	})
	return salts
}

type saltsByDay map[int32]*waypost.Salt

func (s saltsByDay) Salt(day int32) *waypost.Salt { return s[day] }

// filesWith returns the files below a directory that hold any of some bytes.
func filesWith(t *testing.T, dir string, parts ...[]byte) (found []string) {
	t.Helper()
	read := 0
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		read++
		for _, b := range parts {
			if bytes.Contains(content, b) {
				found = append(found, path)
			}
		}
		return nil
	}))
	require.Greater(t, read, 10)
	return found
}

func TestNoFileOfAnEdgeHoldsTheAddressOfAVisitor(t *testing.T) {
	t.Parallel()
	s := devtest.Start(t, devtest.Config{})
	state := s.State()
	salts := currentSalts(t, state.DatabaseURL)
	api, err := client.New(state.API, state.APIKey)
	require.NoError(t, err)
	defer api.Close()
	link, err := api.Links.Create(t.Context(), client.NewLink{OriginalURL: "https://example.com/"})
	require.NoError(t, err)
	edge := state.Edges[0]
	eventually(t, time.Minute, "redirected", func() bool { // and so it has the salts, which are older
		return visit{method: http.MethodHead}.to(t, edge.URL, link.ShortCode) == http.StatusFound
	})

	v4, v6 := netip.MustParseAddr("198.51.100.197"), netip.MustParseAddr("2001:db8:fedc:ba98:7654:3210:cafe:f00d")
	const agent, referrer = "An-Agent-Of-Its-Own/7.3", "https://www.referring.example/a-private-path?with=a-query"
	dir := filepath.Join(s.DataDir(), "edges", edge.Region)
	for lives := 1; ; lives++ {
		at := killWhileVisited(t, s, link.ShortCode, []netip.Addr{v4, v6}, agent, referrer)
		var sealed [16]byte
		audience.NewSealer(salts).Seal(&sealed, v6, at)
		if len(filesWith(t, dir, sealed[:])) > 0 && len(filesWith(t, dir, []byte(agent))) > 0 {
			break // the journal holds it sealed
		}
		require.Less(t, lives, 10, "the newest visits are never in the journal")
		s.Again()
	}
	binary4, mapped, binary6 := v4.As4(), v4.As16(), v6.As16()
	require.Empty(t, filesWith(t, dir, []byte(v4.String()), []byte(v6.String()), binary4[:], mapped[10:], binary6[:]))
	require.Empty(t, filesWith(t, dir, []byte("a-private-path"), []byte("a-query")))
	for _, secret := range []string{v4.String(), v6.String(), agent, "referring.example"} {
		require.NotContains(t, s.Output(), secret)
	}
	for _, salt := range salts {
		require.NotContains(t, s.Output(), hex.EncodeToString(salt[:]))
	}
}

// killWhileVisited follows a link from some addresses until everything is killed, so that
// the newest visits are nowhere but in the journal, unless all stands still for long
// before the kill. At is when some visits were made.
func killWhileVisited(t *testing.T, s *devtest.System, code string, addresses []netip.Addr, agent, referrer string) (at int64) {
	t.Helper()
	edge := s.State().Edges[0]
	visited := make(chan struct{})
	var visiting sync.WaitGroup
	visiting.Go(func() {
		defer close(visited)
		for n := 0; ; n++ {
			for _, address := range addresses {
				status, err := visitFrom(context.WithoutCancel(t.Context()), edge.URL, code, address.String(), agent, referrer)
				if err != nil {
					return
				}
				if status != http.StatusFound {
					t.Errorf("status %d", status)
					return
				}
			}
			if n == 50 {
				visited <- struct{}{}
			}
		}
	})
	<-visited
	at = time.Now().UnixMilli()
	s.Kill()
	visiting.Wait()
	return at
}
