// Package tenancy_test tries every operation of the API with every kind of
// credential, on one's own things and on those of another workspace. With the build tag
// rlsonly no query filters by workspace, so that row-level security alone has to keep
// tenants apart.
package tenancy_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane"
	"waypost/internal/pgserver/pgservertest"
	"waypost/migrations"
)

var databases = &pgservertest.Cluster{Prepare: migrations.Up}

func TestMain(m *testing.M) { os.Exit(databases.Main(m)) }

// may reports whether a credential is allowed an operation.
func (c *credential) may(r *route) bool {
	switch {
	case r.public:
		return true
	case !c.good || r.operator && c.ws != waypost.DefaultWorkspace:
		return false
	case r.who != nil:
		return r.who(c)
	}
	return len(r.scopes) == 0 || c.can(r.scopes...)
}

func TestEveryRouteAnswersOnlyThoseWhoMayAndOnlyWithWhatIsTheirs(t *testing.T) {
	w := newWorld(t)
	documented := document(w)
	require.Equal(t, slices.Sorted(maps.Keys(documented)), slices.Sorted(maps.Keys(routes)),
		"each operation of the document has a row in routes, which says who may use it")
	people := credentials(w)
	before, bare := w.belongings(victim)
	require.Empty(t, bare, "the victim has something in every table with rows of workspaces")

	tried := 0
	for _, name := range slices.Sorted(maps.Keys(routes)) {
		r := routes[name]
		require.Equal(t, r.public, documented[name] == nil, "%s: the document tells what is public", name)
		require.ElementsMatch(t, r.scopes, documented[name], "%s: the document tells the scopes", name)
		method, pattern, _ := strings.Cut(name, " ")
		require.True(t, !strings.Contains(pattern, "{") || r.foreign != nil || r.operator || r.public, "%s: it names something, and the victim's is tried", name)
		send := func(c *credential, req request) (int, string) {
			if req.path == "" {
				req.path = pattern
			}
			if req.instead != "" {
				asking := *c
				asking.text = req.instead
				c = &asking
			}
			tried++
			return w.do(method, req, c)
		}
		for i := range people {
			c := &people[i]
			refused := http.StatusForbidden
			if !c.good && c.status == 0 {
				refused = http.StatusUnauthorized
			}
			status, text := send(c, r.own(w, c))
			if !r.everyone || !c.may(&r) {
				w.requireNothingOf(text, name, c.name)
			}
			switch {
			case r.public:
				require.Less(t, status, 400, "%s by %s: %s", name, c.name, text)
			case c.may(&r):
				require.Equal(t, 2, status/100, "%s by %s: %d %s", name, c.name, status, text)
			case c.good && r.refused != 0:
				require.Equal(t, r.refused, status, "%s by %s: %s", name, c.name, text)
			default:
				require.Equal(t, refused, status, "%s by %s: %s", name, c.name, text)
			}
			if r.foreign == nil {
				continue
			}
			want := http.StatusNotFound
			if r.status != 0 {
				want = r.status
			}
			if !c.may(&r) {
				want = refused
			}
			for _, req := range r.foreign(w) {
				status, text = send(c, req)
				if want == success {
					status /= 100
				}
				require.Equal(t, want, status, "%s by %s on what is the victim's: %s", name, c.name, text)
				w.requireNothingOf(text, name, c.name)
			}
		}
	}
	after, _ := w.belongings(victim)
	require.Equal(t, before, after, "nothing of the victim's was changed")
	t.Logf("%d requests, %d routes, %d credentials", tried, len(routes), len(people))
}

// document returns the scopes of every operation that the API describes, nil for one that
// is public.
func document(w *world) map[string][]controlplane.Scope {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.url+"/openapi.json", http.NoBody)
	require.NoError(w.t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(w.t, err)
	defer res.Body.Close()
	var doc struct {
		Paths map[string]map[string]struct {
			Security []map[string][]controlplane.Scope `json:"security"`
		} `json:"paths"`
	}
	require.NoError(w.t, json.NewDecoder(res.Body).Decode(&doc))
	all := map[string][]controlplane.Scope{}
	for path, item := range doc.Paths {
		for method, op := range item {
			var scopes []controlplane.Scope
			if len(op.Security) > 0 {
				scopes = []controlplane.Scope{}
			}
			for _, alternative := range op.Security {
				scopes = append(scopes, alternative["bearer"]...)
			}
			all[strings.ToUpper(method)+" "+path] = scopes
		}
	}
	return all
}
