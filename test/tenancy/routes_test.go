package tenancy_test

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/argon2"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/blocks"
	"waypost/internal/hotp"
)

// Short names of the scopes.
const (
	read      = controlplane.ScopeLinksRead
	write     = controlplane.ScopeLinksWrite
	analytics = controlplane.ScopeAnalytics
	admin     = controlplane.ScopeAdmin
)

// request is one call of a route.
type request struct {
	path, body string // path "": the route's own
	once       string // Idempotency-Key
	instead    string // the credential's text, where it is used up
}

// route says who may do what by one operation of the API.
type route struct {
	public   bool
	scopes   []controlplane.Scope // any of which it needs; none: any credential will do
	operator bool                 // only actors of the default workspace may
	everyone bool                 // its answer to operators shows what all workspaces have

	// who says more exactly who may; nil: all who have a scope.
	who     func(c *credential) bool
	refused int // what others with a good credential are answered; default 403

	// own is a request that must be answered with 2xx, or for a public route with
	// anything below 400, when the actor may make it.
	own func(w *world, c *credential) request

	// foreign names something of the victim's, in one way or several. All who may make such
	// a request for himself must get the status. Nil: the route names nothing of a
	// workspace.
	foreign func(w *world) []request
	status  int // default 404
}

// success is any status of 2xx.
const success = 2

func plain(*world, *credential) request { return request{} }

func path(format string) func(w *world, c *credential) request {
	return func(w *world, c *credential) request { return request{path: fmt.Sprintf(format, w.link(c.ws))} }
}

func patched(format, body string) func(w *world, c *credential) request {
	return func(w *world, c *credential) request {
		return request{path: fmt.Sprintf(format, w.link(c.ws)), body: body}
	}
}

// deletedFirst names a link of one's own that was deleted.
func deletedFirst(format string) func(w *world, c *credential) request {
	return func(w *world, c *credential) request {
		code := w.link(c.ws)
		w.exec(`UPDATE link SET deleted_at = now() WHERE code = $1`, code)
		return request{path: fmt.Sprintf(format, code)}
	}
}

// victims names the victim's link by its code alone, which is of the shared domain, and
// under the victim's own.
func victims(format, body string) func(w *world) []request {
	return func(w *world) []request {
		named := fmt.Sprintf(format, w.victimCode)
		return []request{{path: named, body: body}, {path: named + "?domain=" + hostOf(victim), body: body}}
	}
}

// asks is answered with what is the actor's own, whatever it asks for of the
// victim's.
func asks(queries ...string) func(w *world) []request {
	return func(*world) []request {
		all := make([]request, len(queries))
		for i, q := range queries {
			all[i] = request{path: strings.ReplaceAll(q, "{host}", hostOf(victim))}
		}
		return all
	}
}

func body(text string) func(*world, *credential) request {
	return func(*world, *credential) request { return request{body: text} }
}

// newView and viewPath are for routes of saved views.
func newView(w *world, c *credential) request {
	w.exec(`DELETE FROM stats_view WHERE workspace_id = $1`, c.ws)
	return request{body: `{"name": "mine"}`}
}

func viewPath(body string) func(w *world, c *credential) request {
	return func(w *world, c *credential) request {
		newView(w, c)
		return request{path: fmt.Sprintf("/api/v1/stats/views/%d", w.number(`
			INSERT INTO stats_view (workspace_id, name, query) VALUES ($1, 'old', '') RETURNING id`, c.ws)), body: body}
	}
}

// victimView names a view of the victim's, or its link for a view.
func victimView(format, body string) func(w *world) []request {
	return func(w *world) []request {
		if format == "" {
			return []request{{body: fmt.Sprintf(body, w.victimCode)}}
		}
		id := w.number(`SELECT id FROM stats_view WHERE workspace_id = 30`)
		return []request{{path: fmt.Sprintf("/api/v1/stats/views"+format, id), body: body}}
	}
}

// importRoute is a route of an import of one's own in a state.
func importRoute(format, body, state string) route {
	r := route{
		scopes: []controlplane.Scope{write}, who: func(c *credential) bool { return c.can(read) && c.can(write) },
		own: func(w *world, c *credential) request {
			w.exec(`DELETE FROM import WHERE workspace_id = $1`, c.ws) // of which it may have few
			if state == "" {
				return request{body: body}
			}
			return request{path: api.PathImports + fmt.Sprintf(format, w.importOf(c.ws, state)), body: body}
		},
	}
	if state != "" {
		r.foreign = func(w *world) []request {
			return []request{{path: api.PathImports + fmt.Sprintf(format, victimImport), body: body}}
		}
	}
	return r
}

// shownImport is importRoute for a route that changes nothing.
func shownImport(format, state string) route {
	r := importRoute(format, "", state)
	r.scopes, r.who = []controlplane.Scope{read}, nil
	return r
}

// userPath and userOf are for routes of one user.
func userPath(body string) func(w *world, c *credential) request {
	return func(w *world, c *credential) request {
		return request{path: fmt.Sprintf("/api/v1/users/%d", w.user(c.ws, "viewer")), body: body}
	}
}

func victimUser(body string) func(w *world) []request {
	return func(w *world) []request {
		return []request{{path: fmt.Sprintf("/api/v1/users/%d", w.victimUser), body: body}}
	}
}

// endsSession names a new session of a user.
func endsSession(w *world, user int64) request {
	return request{path: fmt.Sprintf("/api/v1/me/sessions/%d", w.number(`
		INSERT INTO user_session (user_id, hash, expires_at) VALUES ($1, sha256($2::text::bytea), now() + interval '1 hour') RETURNING id`,
		user, w.fresh()))}
}

// firstCode proposes a second factor to a user, and confirms it.
func firstCode(w *world, c *credential) request {
	code := "123456"
	if c.user != 0 && c.good {
		w.exec(`DELETE FROM second_factor WHERE user_id = $1`, c.user)
		f, err := w.service.Access.BeginSecondFactor(w.t.Context(), controlplane.Actor{SessionID: 1, UserID: c.user}, "")
		require.NoError(w.t, err)
		code, err = hotp.Code(f.Secret, uint64(time.Now().Unix()/30))
		require.NoError(w.t, err)
	}
	return request{body: fmt.Sprintf(`{"code": %q}`, code)}
}

// recoveryCode turns a second factor of a user on, and proves it.
func recoveryCode(w *world, c *credential) request {
	if c.user != 0 {
		w.exec(`DELETE FROM second_factor WHERE user_id = $1`, c.user)
		hash := argon2.IDKey([]byte("AAAABBBBCCCCDDDD"), nil, 2, 19<<10, 1, 32)
		w.exec(`INSERT INTO second_factor (user_id, secret, confirmed_at, recovery_codes) VALUES ($1, '', now(), ARRAY[$2::bytea])`, c.user, hash)
	}
	return request{body: `{"code": "AAAA-BBBB-CCCC-DDDD"}`}
}

func keyPath(format string) func(w *world, c *credential) request {
	return func(w *world, c *credential) request { return request{path: fmt.Sprintf(format, w.keyID(c))} }
}

func victimsKey(format string) func(w *world) []request {
	return func(w *world) []request { return []request{{path: fmt.Sprintf(format, w.victimKID)}} }
}

// keepers may manage keys: administrators, and all who have signed in their own.
func keepers(c *credential) bool { return c.signed || c.can(admin) }

func signed(c *credential) bool { return c.signed }

// edgeOrderRoute asks something of an edge that has reported once.
func edgeOrderRoute(what string) route {
	return route{scopes: []controlplane.Scope{admin}, operator: true, own: func(w *world, _ *credential) request {
		w.exec(`INSERT INTO click_progress (node, region, has_left) VALUES ('asked-1', 'eu', false) ON CONFLICT DO NOTHING`)
		return request{path: "/api/admin/edges/asked-1/" + what, body: "{}"}
	}}
}

const newRoot = `{"root_url": "https://example.org/"}`

func newRootOf(ws waypost.WorkspaceID) request {
	return request{path: fmt.Sprintf("/api/v1/domains/%d", domainOf(ws)), body: newRoot}
}

// routes has one row for every operation of the document.
var routes = map[string]route{
	"GET /":         {public: true, own: plain},
	"GET /health":   {public: true, own: plain},
	"GET /{code}":   {public: true, own: path("/%s")},
	"POST /shorten": {scopes: []controlplane.Scope{write}, own: body(`{"url": "https://example.com/"}`)},
	"GET /stats/{code}": {
		scopes: []controlplane.Scope{read, analytics}, own: path("/stats/%s"), foreign: func(w *world) []request { return victims("/stats/%s", "")(w)[:1] }, // the old form knows no domain
	},
	"GET /api/v1/urls": {
		scopes: []controlplane.Scope{read}, own: plain, status: http.StatusOK,
		foreign: asks("/api/v1/urls?q="+marker+"&tag="+marker, "/api/v1/urls?domain={host}", "/api/v1/urls?sort=-clicks", "/api/v1/urls?sort=created&expired=false"),
	},
	"GET /api/v1/urls/export": {
		scopes: []controlplane.Scope{read}, own: plain, status: http.StatusOK,
		foreign: asks("/api/v1/urls/export?format=csv", "/api/v1/urls/export?domain={host}"),
	},
	"GET /api/v1/tags": {scopes: []controlplane.Scope{read}, own: plain, foreign: asks("/api/v1/tags?prefix=" + marker[:2]), status: http.StatusOK},
	"POST /api/v1/urls": {
		scopes: []controlplane.Scope{write}, own: body(`{"original_url": "https://example.com/"}`), status: success,
		foreign: func(*world) []request { // what the victim has asked for makes, or finds, a link of one's own
			return []request{{body: sameBody, once: sameKey}, {body: `{"original_url": "` + sameTarget + `", "dedupe": true}`}}
		},
	},
	"GET /api/v1/imports":                shownImport("", ""),
	"POST /api/v1/imports":               importRoute("", `{}`, ""),
	"GET /api/v1/imports/{id}":           shownImport("/%s", "ready"),
	"PATCH /api/v1/imports/{id}":         importRoute("/%s", `{"dedupe": true}`, "ready"),
	"DELETE /api/v1/imports/{id}":        importRoute("/%s", "", "ready"),
	"PUT /api/v1/imports/{id}/parts/{n}": importRoute("/%s/parts/1", "a,b", "uploading"),
	"POST /api/v1/imports/{id}/read":     importRoute("/%s/read", `{"parts": 1}`, "uploading"),
	"POST /api/v1/imports/{id}/run":      importRoute("/%s/run", `{}`, "stopped"),
	"POST /api/v1/imports/{id}/stop":     importRoute("/%s/stop", "", "running"),
	"POST /api/v1/imports/{id}/undo":     importRoute("/%s/undo", "", "done"),
	"GET /api/v1/imports/{id}/refused":   importRoute("/%s/refused", "", "done"),
	"POST /api/v1/urls/bulk": {
		scopes: []controlplane.Scope{write}, own: body(`{"links": [{"original_url": "https://example.com/"}]}`), status: success,
		foreign: func(*world) []request {
			return []request{{body: `{"links": [{"original_url": "` + sameTarget + `", "dedupe": true}]}`}}
		},
	},
	"GET /api/v1/urls/{code}": {
		scopes: []controlplane.Scope{read}, own: path("/api/v1/urls/%s"), foreign: victims("/api/v1/urls/%s", ""),
	},
	"PATCH /api/v1/urls/{code}": {
		scopes: []controlplane.Scope{write}, own: patched("/api/v1/urls/%s", `{"title": "new"}`), foreign: victims("/api/v1/urls/%s", `{"title": "new"}`),
	},
	"DELETE /api/v1/urls/{code}": {
		scopes: []controlplane.Scope{write}, own: path("/api/v1/urls/%s"), foreign: victims("/api/v1/urls/%s", ""),
	},
	"POST /api/v1/urls/{code}/restore": {
		scopes: []controlplane.Scope{write}, own: deletedFirst("/api/v1/urls/%s/restore"), foreign: victims("/api/v1/urls/%s/restore", ""),
	},
	"GET /api/v1/urls/{code}/aliases": {
		scopes: []controlplane.Scope{read}, own: path("/api/v1/urls/%s/aliases"), foreign: victims("/api/v1/urls/%s/aliases", ""),
	},
	"POST /api/v1/urls/{code}/aliases": {
		scopes: []controlplane.Scope{write}, own: func(w *world, c *credential) request {
			return request{path: "/api/v1/urls/" + w.link(c.ws) + "/aliases", body: `{"short_code": "` + w.fresh() + `"}`}
		}, foreign: victims("/api/v1/urls/%s/aliases", `{"short_code": "theirs"}`),
	},
	"DELETE /api/v1/urls/{code}/aliases/{alias}": {
		scopes: []controlplane.Scope{write}, own: func(w *world, c *credential) request {
			code, alias := w.link(c.ws), w.fresh()
			_, _, err := w.service.Links.AddAlias(w.t.Context(), controlplane.Actor{Workspace: c.ws}, "", code, controlplane.NewAlias{Code: alias})
			require.NoError(w.t, err)
			return request{path: "/api/v1/urls/" + code + "/aliases/" + alias}
		}, foreign: victims("/api/v1/urls/%s/aliases/"+victimAlias, ""),
	},
	"GET /api/v1/urls/{code}/qr": {
		scopes: []controlplane.Scope{read}, own: path("/api/v1/urls/%s/qr"), foreign: victims("/api/v1/urls/%s/qr", ""),
	},
	"GET /api/v1/explain": {
		scopes: []controlplane.Scope{read}, own: path("/api/v1/explain?url=%s"), foreign: func(w *world) []request {
			named := "/api/v1/explain?url=" + w.victimCode
			return []request{{path: named}, {path: named + "&domain=" + hostOf(victim)}}
		},
	},
	"GET /api/v1/urls/{code}/history": {
		scopes: []controlplane.Scope{read}, own: path("/api/v1/urls/%s/history"), foreign: victims("/api/v1/urls/%s/history", ""),
	},
	"GET /api/v1/stats/links": {scopes: []controlplane.Scope{read, analytics}, own: path("/api/v1/stats/links?link=%s")},
	"GET /api/v1/urls/{code}/stats": {
		scopes: []controlplane.Scope{read, analytics}, own: path("/api/v1/urls/%s/stats"), foreign: victims("/api/v1/urls/%s/stats", ""),
	},
	"DELETE /api/v1/urls/{code}/clicks": {
		scopes: []controlplane.Scope{admin}, own: path("/api/v1/urls/%s/clicks"), foreign: victims("/api/v1/urls/%s/clicks", ""),
	},
	"GET /api/v1/stats": {
		scopes: []controlplane.Scope{analytics}, own: plain, foreign: asks("/api/v1/stats?domain={host}"),
	},
	"GET /api/v1/stats/tags":          {scopes: []controlplane.Scope{analytics}, own: plain},
	"GET /api/v1/stats/domains":       {scopes: []controlplane.Scope{analytics}, own: plain},
	"GET /api/v1/stats/creators":      {scopes: []controlplane.Scope{analytics}, own: plain},
	"GET /api/v1/stats/crossed":       {scopes: []controlplane.Scope{analytics}, own: plain, foreign: asks("/api/v1/stats/crossed?domain={host}")},
	"GET /api/v1/stats/views":         {scopes: []controlplane.Scope{analytics}, own: plain},
	"POST /api/v1/stats/views":        {scopes: []controlplane.Scope{write}, own: newView, foreign: victimView("", `{"name": "x", "public": true, "short_code": "%s"}`)},
	"PATCH /api/v1/stats/views/{id}":  {scopes: []controlplane.Scope{write}, own: viewPath(`{"name": "mine"}`), foreign: victimView("/%d", `{"name": "x"}`)},
	"DELETE /api/v1/stats/views/{id}": {scopes: []controlplane.Scope{write}, own: viewPath(""), foreign: victimView("/%d", "")},
	"GET /api/v1/public/{secret}": {public: true, own: func(w *world, _ *credential) request {
		w.exec(`DELETE FROM stats_view WHERE workspace_id = 1`)
		_, secret, err := w.service.Clicks.PublishView(w.t.Context(), controlplane.Actor{Workspace: own},
			"page", "", w.link(own), "", 1, time.UTC)
		require.NoError(w.t, err)
		return request{path: "/api/v1/public/" + secret}
	}},
	"GET /api/v1/stats/unknown": {
		scopes: []controlplane.Scope{analytics},
		own: func(_ *world, c *credential) request {
			return request{path: "/api/v1/stats/unknown?domain=" + hostOf(c.ws)}
		},
		foreign: asks("/api/v1/stats/unknown?domain={host}"),
	},

	"GET /api/v1/domains": {scopes: []controlplane.Scope{read}, own: plain},
	"POST /api/v1/domains": {
		scopes: []controlplane.Scope{admin},
		own: func(w *world, _ *credential) request {
			return request{body: fmt.Sprintf(`{"host": "%s.example.net"}`, w.fresh())}
		},
	},
	"POST /api/v1/domains/{id}/verify": {
		scopes:  []controlplane.Scope{admin},
		own:     func(w *world, c *credential) request { return w.pendingDomain(c, "/api/v1/domains/%d/verify") },
		foreign: asks(fmt.Sprintf("/api/v1/domains/%d/verify", domainOf(victim))),
	},
	"PATCH /api/v1/domains/{id}": {
		scopes: []controlplane.Scope{admin}, own: func(_ *world, c *credential) request { return newRootOf(c.ws) },
		foreign: func(*world) []request { return []request{newRootOf(victim)} },
	},
	"DELETE /api/v1/domains/{id}": {
		scopes: []controlplane.Scope{admin},
		own: func(w *world, c *credential) request {
			return request{path: fmt.Sprintf("/api/v1/domains/%d", w.number(
				`INSERT INTO domain (workspace_id, host) VALUES ($1, $2) RETURNING id`, c.ws, w.fresh()+".example.net"))}
		},
		foreign: asks(fmt.Sprintf("/api/v1/domains/%d?force=true", domainOf(victim))),
	},

	"POST /api/v1/session": {public: true, own: func(w *world, _ *credential) request { return request{body: w.signIn} }},
	"DELETE /api/v1/session": {
		who: signed, refused: http.StatusUnprocessableEntity,
		own: func(w *world, c *credential) request {
			if !c.signed || !c.good {
				return request{}
			}
			return request{instead: w.session(c.user)}
		},
	},
	"GET /api/v1/me":   {own: plain},
	"PATCH /api/v1/me": {who: signed, own: body(`{"name": "New"}`)},
	"POST /api/v1/me/second-factor": {who: signed, own: func(w *world, c *credential) request {
		w.exec(`DELETE FROM second_factor WHERE user_id = $1`, c.user)
		return request{body: "{}"}
	}},
	"PUT /api/v1/me/second-factor":                 {who: signed, own: firstCode},
	"DELETE /api/v1/me/second-factor":              {who: signed, own: recoveryCode},
	"POST /api/v1/me/second-factor/recovery-codes": {who: signed, own: recoveryCode},
	"GET /api/v1/live":                             {own: plain},
	"GET /api/v1/me/sessions":                      {who: signed, own: plain},
	"DELETE /api/v1/me/sessions":                   {who: signed, own: plain},
	"DELETE /api/v1/me/sessions/{id}": {
		who: signed,
		own: func(w *world, c *credential) request {
			if c.user == 0 {
				return request{path: "/api/v1/me/sessions/1"}
			}
			return endsSession(w, c.user)
		},
		foreign: func(w *world) []request { return []request{endsSession(w, w.victimUser)} },
	},
	"GET /api/v1/keys": {who: keepers, own: plain},
	"POST /api/v1/keys": {
		who: keepers, own: body(`{"name": "new", "scopes": ["links:read"]}`),
	},
	"POST /api/v1/keys/{id}/rotate": {who: keepers, own: keyPath("/api/v1/keys/%d/rotate"), foreign: victimsKey("/api/v1/keys/%d/rotate")},
	"DELETE /api/v1/keys/{id}":      {who: keepers, own: keyPath("/api/v1/keys/%d"), foreign: victimsKey("/api/v1/keys/%d")},

	"GET /api/v1/users": {scopes: []controlplane.Scope{admin}, own: plain},
	"POST /api/v1/users": {
		scopes: []controlplane.Scope{admin},
		own: func(w *world, _ *credential) request {
			return request{body: fmt.Sprintf(`{"email": "%s@example.com", "role": "viewer"}`, w.fresh())}
		},
		foreign: func(w *world) []request {
			return []request{{body: fmt.Sprintf(`{"email": "user1@%s.example", "role": "viewer"}`, marker)}}
		},
		status: http.StatusConflict,
	},
	"GET /api/v1/users/{id}":    {scopes: []controlplane.Scope{admin}, own: userPath(""), foreign: victimUser("")},
	"PATCH /api/v1/users/{id}":  {scopes: []controlplane.Scope{admin}, own: userPath(`{"role": "member"}`), foreign: victimUser(`{"role": "viewer", "disabled": true}`)},
	"DELETE /api/v1/users/{id}": {scopes: []controlplane.Scope{admin}, own: userPath(""), foreign: victimUser("")},

	"POST /api/v1/users/{id}/invitation": {
		scopes: []controlplane.Scope{admin},
		own: func(w *world, c *credential) request {
			return request{path: fmt.Sprintf("/api/v1/users/%d/invitation", w.user(c.ws, "viewer"))}
		},
		foreign: func(w *world) []request {
			return []request{{path: fmt.Sprintf("/api/v1/users/%d/invitation", w.victimUser)}}
		},
	},
	"POST /api/v1/invitation": {public: true, own: func(w *world, c *credential) request {
		m, err := w.service.Workspaces.InviteMember(w.t.Context(), controlplane.Actor{Workspace: own, Scopes: []controlplane.Scope{admin}},
			w.user(own, "viewer"))
		require.NoError(w.t, err)
		return request{body: fmt.Sprintf(`{"token": %q, "password": "correct horse battery"}`, m.Invitation.Token)}
	}},

	"GET /api/v1/workspace":   {scopes: []controlplane.Scope{read, analytics}, own: plain},
	"PATCH /api/v1/workspace": {scopes: []controlplane.Scope{admin}, own: body(`{"name": "New"}`)},

	"GET /api/v1/kgs/key":        {scopes: []controlplane.Scope{write}, own: plain},
	"POST /api/v1/kgs/keys/bulk": {scopes: []controlplane.Scope{write}, own: body(`{"count": 2}`)},
	"POST /api/v1/kgs/keys/return": {
		scopes: []controlplane.Scope{write},
		own: func(w *world, c *credential) request {
			key, err := w.api.Keys.ReserveKeys(w.t.Context(), controlplane.Actor{Workspace: c.ws}, "shop", 1)
			require.NoError(w.t, err)
			return request{body: fmt.Sprintf(`{"keys": [%q], "service": "shop"}`, key[0])}
		},
		foreign: func(w *world) []request {
			return []request{{body: fmt.Sprintf(`{"keys": [%q], "service": "shop"}`, w.victimKey)}}
		},
		status: http.StatusOK, // each key has an outcome of its own; that the victim's is unchanged is seen at the end
	},
	"GET /api/v1/kgs/stats": {scopes: []controlplane.Scope{read}, own: plain},

	"GET /api/admin/audit": {scopes: []controlplane.Scope{admin}, own: plain},

	// What follows is for operators, who may name any workspace.
	"GET /api/admin/domains": {scopes: []controlplane.Scope{admin}, operator: true, everyone: true, own: plain},
	"POST /api/admin/domains/{id}/approve": {scopes: []controlplane.Scope{admin}, operator: true, own: func(w *world, c *credential) request {
		return w.pendingDomain(c, "/api/admin/domains/%d/approve")
	}},
	"DELETE /api/admin/domains/{id}": {scopes: []controlplane.Scope{admin}, operator: true, own: func(w *world, c *credential) request {
		return w.pendingDomain(c, "/api/admin/domains/%d")
	}},
	"GET /api/admin/blocks": {scopes: []controlplane.Scope{admin}, operator: true, own: plain},
	"PUT /api/admin/blocks/{code}": {scopes: []controlplane.Scope{admin}, operator: true, own: func(w *world, _ *credential) request {
		return request{path: "/api/admin/blocks/" + w.link(spare), body: `{"policy": "legal", "reason": "court order"}`}
	}},
	"DELETE /api/admin/blocks/{code}": {scopes: []controlplane.Scope{admin}, operator: true, own: func(w *world, _ *credential) request {
		code := w.link(spare)
		_, err := w.api.Blocks.Set(w.t.Context(), controlplane.Actor{Workspace: own, Scopes: []controlplane.Scope{admin}},
			blocks.Request{Code: code, Blocked: true, Reason: "court order"})
		require.NoError(w.t, err)
		return request{path: "/api/admin/blocks/" + code + "?reason=appeal"}
	}},
	"GET /api/admin/digest":        {scopes: []controlplane.Scope{admin}, operator: true, own: plain},
	"POST /api/admin/digest":       {scopes: []controlplane.Scope{admin}, operator: true, own: body(`{}`)},
	"GET /api/admin/cleanup/stats": {scopes: []controlplane.Scope{admin}, operator: true, own: plain},
	"GET /api/admin/edges":         {scopes: []controlplane.Scope{admin}, operator: true, own: plain},
	"DELETE /api/admin/edges/{node}": {scopes: []controlplane.Scope{admin}, operator: true, own: func(w *world, _ *credential) request {
		w.exec(`INSERT INTO click_progress (node, region, has_left, reported_at) VALUES ('gone-1', 'eu', false, now() - interval '1 hour') ON CONFLICT DO NOTHING`)
		return request{path: "/api/admin/edges/gone-1"}
	}},
	"POST /api/admin/edge-enrolments": {scopes: []controlplane.Scope{admin}, operator: true, own: body(`{"region": "eu"}`)},
	"GET /api/admin/edge-credentials": {scopes: []controlplane.Scope{admin}, operator: true, own: plain},
	"DELETE /api/admin/edge-credentials/{node}": {scopes: []controlplane.Scope{admin}, operator: true, own: func(w *world, _ *credential) request {
		w.exec(`INSERT INTO node_credential (node, region, role, hash) VALUES ('stolen-1', 'eu', 'edge', sha256('s')) ON CONFLICT DO NOTHING`)
		return request{path: "/api/admin/edge-credentials/stolen-1"}
	}},
	"POST /api/admin/edges/{node}/verifications": edgeOrderRoute("verifications"),
	"POST /api/admin/edges/{node}/acceptances":   edgeOrderRoute("acceptances"),
	"POST /api/admin/edges/{node}/drains":        edgeOrderRoute("drains"),
	"GET /api/admin/edges/{node}/orders/{id}": {scopes: []controlplane.Scope{admin}, operator: true, own: func(w *world, _ *credential) request {
		w.exec(`INSERT INTO edge_order (id, node, what, ordered_by, until) OVERRIDING SYSTEM VALUE VALUES (1000000, 'asked-1', 'verify', 'somebody', now()) ON CONFLICT DO NOTHING`)
		return request{path: "/api/admin/edges/asked-1/orders/1000000"}
	}},
	"GET /api/admin/ranges":      {scopes: []controlplane.Scope{admin}, operator: true, own: plain},
	"GET /api/admin/ranges/plan": {scopes: []controlplane.Scope{admin}, operator: true, own: plain},
	"GET /api/admin/ranges/{id}": {scopes: []controlplane.Scope{admin}, operator: true, own: func(*world, *credential) request { return request{path: "/api/admin/ranges/1"} }},
	"GET /api/admin/ranges/decode/{code}": {scopes: []controlplane.Scope{admin}, operator: true, own: func(w *world, _ *credential) request {
		return request{path: "/api/admin/ranges/decode/" + w.minted}
	}},
	"POST /api/admin/ranges/changes": {
		scopes: []controlplane.Scope{admin}, operator: true, own: body(`{"steps": [{"action": "assign", "region": "eu"}], "dry_run": true}`),
	},
	"DELETE /api/admin/visitor-salts/{day}": {scopes: []controlplane.Scope{admin}, operator: true, own: func(w *world, _ *credential) request {
		w.days++
		day := time.Date(2026, 1, w.days, 0, 0, 0, 0, time.UTC).Format(time.DateOnly)
		w.exec(`INSERT INTO visitor_salt (day) VALUES ($1::text::date)`, day)
		return request{path: "/api/admin/visitor-salts/" + day}
	}},
	"GET /api/admin/users": {scopes: []controlplane.Scope{admin}, operator: true, own: func(*world, *credential) request {
		return request{path: "/api/admin/users?email=somebody@example.com"}
	}},
	"PATCH /api/admin/users/{id}": {scopes: []controlplane.Scope{admin}, operator: true, own: func(w *world, _ *credential) request {
		return request{path: fmt.Sprintf("/api/admin/users/%d", w.user(spare, "viewer")), body: `{"disabled": true}`}
	}},
	"POST /api/admin/users/{id}/invitation": {scopes: []controlplane.Scope{admin}, operator: true, own: func(w *world, _ *credential) request {
		return request{path: fmt.Sprintf("/api/admin/users/%d/invitation", w.user(spare, "viewer"))}
	}},
	"DELETE /api/admin/users/{id}/second-factor": {scopes: []controlplane.Scope{admin}, operator: true, own: func(w *world, _ *credential) request {
		user := w.user(spare, "viewer")
		w.exec(`INSERT INTO second_factor (user_id, secret, confirmed_at) VALUES ($1, '', now()) ON CONFLICT DO NOTHING`, user)
		return request{path: fmt.Sprintf("/api/admin/users/%d/second-factor", user)}
	}},
	"GET /api/admin/workspaces": {scopes: []controlplane.Scope{admin}, operator: true, own: func(*world, *credential) request {
		return request{path: "/api/admin/workspaces?limit=2"} // before the victim's
	}},
	"POST /api/admin/workspaces": {scopes: []controlplane.Scope{admin}, operator: true, own: func(w *world, _ *credential) request {
		return request{body: `{"slug": "` + w.fresh() + `"}`}
	}},
	"PATCH /api/admin/workspaces/{id}": {scopes: []controlplane.Scope{admin}, operator: true, own: func(*world, *credential) request {
		return request{path: fmt.Sprintf("/api/admin/workspaces/%d", spare), body: `{"name": "New"}`}
	}},
	"DELETE /api/admin/workspaces/{id}": {scopes: []controlplane.Scope{admin}, operator: true, own: func(w *world, _ *credential) request {
		return request{path: fmt.Sprintf("/api/admin/workspaces/%d", w.number(`INSERT INTO workspace (name, slug) VALUES ('Short', $1) RETURNING id`, w.fresh()))}
	}},
	"POST /api/admin/workspaces/{id}/users": {scopes: []controlplane.Scope{admin}, operator: true, own: func(w *world, _ *credential) request {
		return request{path: fmt.Sprintf("/api/admin/workspaces/%d/users", spare), body: fmt.Sprintf(`{"email": "%s@example.com", "role": "admin"}`, w.fresh())}
	}},
}
