package system_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waypost/api"
	"waypost/client"
	"waypost/test/devtest"
)

// requireUnknown follows visitors who ask for addresses that name no link to the command
// line, until there is a link.
func requireUnknown(t *testing.T, s *devtest.System) {
	t.Helper()
	env := []string{"WAYPOST_DATA_DIR=" + s.DataDir()}
	edges := s.State().Edges
	ask := func(path string, visitors int) {
		t.Helper()
		for n := range visitors {
			status, err := visitFrom(t.Context(), edges[n%len(edges)].URL, path, fmt.Sprintf("203.0.113.%d", n), "Mozilla/5.0 Firefox/140.0", "")
			require.NoError(t, err)
			require.Equal(t, http.StatusNotFound, status)
		}
	}
	list := func() (all api.UnknownAddresses) {
		t.Helper()
		r := devtest.Run(t, env, "stats", "unknown", "--output", "json")
		require.Zero(t, r.Code, r.Stderr)
		require.NoError(t, json.Unmarshal([]byte(r.Stdout), &all))
		return all
	}
	server, err := client.New(s.State().API, s.State().APIKey)
	require.NoError(t, err)
	defer server.Close()
	listed := func() []api.UnknownAddress {
		all, err := client.Get[api.UnknownAddresses](t.Context(), server, api.PathUnknown)
		if _, passing := client.Passing(err); !passing {
			require.NoError(t, err)
		}
		return all.Addresses
	}

	ask("four-asked", 4)
	ask("of/ann%40example.com", 6)
	ask("reset/"+strings.Repeat("9f86d081", 6), 6)
	flood := devtest.Follower{Agent: "Mozilla/5.0 Firefox/140.0"}
	defer flood.Close()
	for i := range 20_000 {
		status, _, err := flood.Follow(strings.TrimPrefix(edges[0].URL, "http://"), fmt.Sprintf("random-%d", i))
		require.NoError(t, err)
		require.Equal(t, http.StatusNotFound, status)
		if i == 10_000 {
			ask("intran%65t?secret=1", 5)
		}
	}
	eventually(t, time.Minute, "listed", func() bool { return len(listed()) > 0 })
	bot, err := visitFrom(t.Context(), edges[0].URL, "intranet", "203.0.113.77", "Googlebot/2.1", "")
	require.NoError(t, err)
	require.Equal(t, http.StatusNotFound, bot)
	eventually(t, time.Minute, "asked for by a bot", func() bool { return listed()[0].Bots == 1 })
	all := list()
	require.Len(t, all.Addresses, 1)
	require.Equal(t, api.UnknownAddress{Path: "intranet", People: 5, Bots: 1, Days: all.Addresses[0].Days}, all.Addresses[0])
	require.Equal(t, all.To, all.Addresses[0].Days[0].Day)
	table := devtest.Run(t, env, "stats", "unknown", "--limit", "1").Stdout
	require.Contains(t, table, "ADDRESS    PEOPLE  BOTS  LAST        ANSWER\n/intranet  5       1     20")

	hand, err := pgx.Connect(t.Context(), s.State().DatabaseURL)
	require.NoError(t, err)
	defer func() { require.NoError(t, hand.Close(context.WithoutCancel(t.Context()))) }()
	var paths []string
	require.NoError(t, hand.QueryRow(t.Context(), `
		SELECT array_agg(DISTINCT path) FROM unknown_address, set_config('role', 'waypost_operator', false)
		WHERE path NOT LIKE 'random-%'`).Scan(&paths))
	require.ElementsMatch(t, []string{"intranet", "four-asked"}, paths, "what may be private is not kept")
	var random int
	require.NoError(t, hand.QueryRow(t.Context(), `SELECT count(*) FROM unknown_address WHERE path LIKE 'random-%'`).Scan(&random))
	require.LessOrEqual(t, random, 32)

	require.Zero(t, devtest.Run(t, env, "links", "create", "https://example.com/", "--code", all.Addresses[0].Path).Code)
	for _, edge := range edges {
		eventually(t, time.Minute, "a link on "+edge.URL, func() bool {
			return visit{method: http.MethodGet}.to(t, edge.URL, "intranet") == http.StatusFound
		})
	}
	require.Empty(t, list().Addresses)
	require.Contains(t, devtest.Run(t, env, "stats", "unknown").Stdout, "no address without a link was asked for by five people")
}
