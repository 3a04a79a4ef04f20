package controlplane_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/keys"
	"waypost/controlplane/postgres"
	"waypost/internal/dnstest"
	"waypost/internal/pgserver/pgservertest"
	"waypost/keyrange"
	"waypost/migrations"
	"waypost/rules"
)

var cluster = &pgservertest.Cluster{Prepare: migrations.Up}

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

var (
	actor    = controlplane.Actor{Workspace: waypost.DefaultWorkspace}
	operator = controlplane.Actor{Workspace: waypost.DefaultWorkspace, Scopes: []controlplane.Scope{controlplane.ScopeAdmin}}
)

type system struct {
	*controlplane.Services
	db     *postgres.DB
	hand   *pgx.Conn
	url    string
	minter *keys.Minter
	ranges *keys.Ranges
	dns    *dnstest.Server                                          // knows the proofs of domains
	lookUp func(ctx context.Context, name string) ([]string, error) // in its place; nil: it answers
	now    atomic.Int64                                             // Unix ms; 0: the real clock
}

// start brings up the services on a database of its own.
func start(t *testing.T) *system {
	t.Helper()
	url := cluster.Database(t)
	db, err := postgres.Open(t.Context(), postgres.Config{URL: url})
	require.NoError(t, err)
	t.Cleanup(db.Close)
	_, err = db.EnsureCluster(t.Context(), postgres.ClusterConfig{CodeLength: 7, PrefixLength: 2, DefaultHost: "go.example.com"})
	require.NoError(t, err)
	space, err := keyrange.NewSpace(7, 2)
	require.NoError(t, err)
	s := &system{db: db, url: url, dns: dnstest.Start(t)}
	s.minter = keys.NewMinter(keys.MinterConfig{
		Store: db, Coder: keyrange.NewCoder(space, [32]byte{}), Region: "eu", Node: "test/1", Size: 100, Patience: time.Minute,
		Logger: slog.New(slog.DiscardHandler),
	})
	s.ranges = keys.NewRanges(keys.Config{Store: db, Minter: s.minter})
	s.Services = controlplane.New(controlplane.Config{
		Store: db, Minter: s.minter,
		OwnHosts: func(host string) bool { return host == "go.example.com" }, Patience: time.Minute,
		APIHosts: func(host string) bool { return host == "api.example.net" },
		Resolver: s,
		Now: func() time.Time {
			if ms := s.now.Load(); ms != 0 {
				return time.UnixMilli(ms)
			}
			return time.Now()
		},
	})
	t.Cleanup(func() { require.NoError(t, s.Close(context.Background())) })
	byHand, err := pgx.ParseConfig(url)
	require.NoError(t, err)
	byHand.User = "postgres"
	s.hand, err = pgx.ConnectConfig(t.Context(), byHand)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.hand.Close(context.Background())) })
	return s
}

// LookupTXT implements controlplane.Resolver.
func (s *system) LookupTXT(ctx context.Context, name string) ([]string, error) {
	if s.lookUp != nil {
		return s.lookUp(ctx, name)
	}
	return s.dns.Resolver().LookupTXT(ctx, name)
}

// visit returns the visit to a path below the root.
func visit(path string) *waypost.Visit {
	v := waypost.ParseVisit([]byte("/" + path))
	return &v
}

func wish(change ...func(*controlplane.NewLink)) controlplane.NewLink {
	n := controlplane.NewLink{OriginalURL: "https://example.com/a?b=c#d"}
	for _, f := range change {
		f(&n)
	}
	return n
}

func custom(code string) func(*controlplane.NewLink) {
	return func(n *controlplane.NewLink) { n.CustomCode = code }
}

func TestLinks_CreatedLinkIsFoundResolvedAndDeleted(t *testing.T) {
	s := start(t)
	l, at, err := s.Links.Create(t.Context(), actor, wish())
	require.NoError(t, err)
	require.False(t, at.IsZero())
	require.Len(t, l.Code, 7)
	got, err := s.Links.Find(t.Context(), actor, "", string(l.Code))
	require.NoError(t, err)
	require.Equal(t, l.OriginalURL, got.OriginalURL)

	res, err := s.Links.Resolve(t.Context(), "anything:8080", visit(string(l.Code)), &rules.Request{})
	require.NoError(t, err)
	require.Equal(t, 302, res.Status)
	require.Equal(t, l.OriginalURL, string(res.Location))

	_, err = s.Links.Remove(t.Context(), actor, "", string(l.Code))
	require.NoError(t, err)
	res, err = s.Links.Resolve(t.Context(), "anything", visit(string(l.Code)), &rules.Request{})
	require.NoError(t, err)
	require.Equal(t, 410, res.Status)
	_, err = s.Links.Find(t.Context(), actor, "", string(l.Code))
	require.Equal(t, waypost.ENotFound, waypost.CodeOf(err))
	_, err = s.Links.Find(t.Context(), actor, "", "../../etc/passwd' OR 1=1")
	require.Equal(t, waypost.ENotFound, waypost.CodeOf(err))
}

func TestLinks_CreatorWithALongNameIsCutToWhatALinkCanHold(t *testing.T) {
	s := start(t)
	a := controlplane.Actor{
		Workspace: waypost.DefaultWorkspace, SessionID: 1, UserID: 1,
		Name: strings.Repeat("\U0001d51e", 99) + "a", Email: strings.Repeat("é", 121) + "@example.com",
	}
	require.Greater(t, len(a.Title()), waypost.MaxTitle)
	l, _, err := s.Links.Create(t.Context(), a, wish())
	require.NoError(t, err)
	require.True(t, utf8.ValidString(l.CreatedBy))
	require.True(t, strings.HasPrefix(a.Title(), l.CreatedBy))
	require.Len(t, l.CreatedBy, waypost.MaxTitle-1, "between characters")
	_, _, err = s.Links.Create(t.Context(), a, wish(func(n *controlplane.NewLink) { n.CreatedBy = a.Title() }))
	require.Equal(t, waypost.EInvalid, waypost.CodeOf(err), "a name that the request has is not cut")
}

func TestLinks_ALinkThatBeginsAfterItsEndIsRefused(t *testing.T) {
	s := start(t)
	soon := time.Now().Add(time.Hour)
	for begins, want := range map[time.Time]waypost.ErrorCode{
		soon.Add(-time.Minute): "", soon: waypost.EInvalid, soon.Add(time.Minute): waypost.EInvalid,
	} {
		_, _, err := s.Links.Create(t.Context(), actor, wish(func(n *controlplane.NewLink) { n.ExpiresAt, n.Rules.ValidFrom = soon, begins }))
		require.Equal(t, want, waypost.CodeOf(err), begins)
	}
}

func TestLinks_LinkExpiresAtItsTimeAndNotBefore(t *testing.T) {
	s := start(t)
	expiry := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	l, _, err := s.Links.Create(t.Context(), actor, wish(func(n *controlplane.NewLink) { n.ExpiresAt = expiry.Add(500 * time.Microsecond) }))
	require.NoError(t, err)
	require.True(t, l.ExpiresAt.Equal(expiry), "expiry is in whole milliseconds, as edges judge it")
	for _, c := range []struct {
		at     time.Time
		status int
		err    waypost.ErrorCode
	}{{expiry.Add(-time.Millisecond), 302, ""}, {expiry, 410, waypost.EGone}} {
		s.now.Store(c.at.UnixMilli())
		res, err := s.Links.Resolve(t.Context(), "", visit(string(l.Code)), &rules.Request{})
		require.NoError(t, err)
		require.Equal(t, c.status, res.Status)
		_, err = s.Links.Find(t.Context(), actor, "", string(l.Code))
		require.Equal(t, c.err, waypost.CodeOf(err))
	}
}

func TestLinks_BadWishesAreRefusedWithTheirReason(t *testing.T) {
	s := start(t)
	for name, c := range map[string]struct {
		wish controlplane.NewLink
		code waypost.ErrorCode
	}{
		"no target":           {controlplane.NewLink{}, waypost.EMalformed},
		"a script":            {controlplane.NewLink{OriginalURL: "javascript:alert(1)"}, waypost.EMalformed},
		"our own domain":      {controlplane.NewLink{OriginalURL: "https://GO.example.com/abcd"}, waypost.EInvalid},
		"a private address":   {controlplane.NewLink{OriginalURL: "http://0x7f.1/"}, waypost.EInvalid},
		"a short custom code": {wish(custom("abc")), waypost.EInvalid},
		"a reserved word":     {wish(custom("health")), waypost.EInvalid},
		"a status":            {wish(func(n *controlplane.NewLink) { n.RedirectStatus = 200 }), waypost.EInvalid},
		"an expiry passed":    {wish(func(n *controlplane.NewLink) { n.ExpiresAt = time.Unix(1, 0) }), waypost.EInvalid},
		"a long title":        {wish(func(n *controlplane.NewLink) { n.Title = strings.Repeat("x", 513) }), waypost.EInvalid},
		"NUL in a title":      {wish(func(n *controlplane.NewLink) { n.Title = "a\x00b" }), waypost.EInvalid},
		"bad UTF-8":           {wish(func(n *controlplane.NewLink) { n.Description = "\xff" }), waypost.EInvalid},
		"an empty tag":        {wish(func(n *controlplane.NewLink) { n.Tags = []string{""} }), waypost.EInvalid},
		"metadata, an array":  {wish(func(n *controlplane.NewLink) { n.Metadata = []byte(`[1]`) }), waypost.EInvalid},
		"metadata with NUL":   {wish(func(n *controlplane.NewLink) { n.Metadata = []byte(`{"a":"\u0000"}`) }), waypost.EInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := s.Links.Create(t.Context(), actor, c.wish)
			require.Equal(t, c.code, waypost.CodeOf(err), "%v", err)
		})
	}
	page, err := s.Links.List(t.Context(), actor, controlplane.ListRequest{Limit: 10})
	require.NoError(t, err)
	require.Empty(t, page.Links, "nothing was written")
}

func TestLinks_InABulkEachWishHasItsOwnOutcome(t *testing.T) {
	s := start(t)
	_, _, err := s.Links.Create(t.Context(), actor, wish(custom("taken")))
	require.NoError(t, err)
	outcomes, at, err := s.Links.CreateBulk(t.Context(), actor, []controlplane.NewLink{
		wish(), wish(custom("taken")),
		{OriginalURL: "ftp://x"},
		wish(custom("twice")), wish(custom("twice")), wish(),
		// passes our rules, but PostgreSQL's jsonb does not take it
		wish(func(n *controlplane.NewLink) { n.Metadata = []byte(`{"n": 1e999999}`) }),
	})
	require.NoError(t, err)
	require.False(t, at.IsZero())
	var codes []waypost.ErrorCode
	for _, o := range outcomes {
		codes = append(codes, waypost.CodeOf(o.Err))
	}
	require.Equal(t, []waypost.ErrorCode{"", waypost.EConflict, waypost.EMalformed, "", waypost.EConflict, "", waypost.EInvalid}, codes)
}

func TestLinks_ConcurrentCreatesNeverShareACodeAndLeaveNoGapInTheLog(t *testing.T) {
	s := start(t)
	const clients, each = 32, 40
	codes := make([][]waypost.Code, clients)
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			for range each {
				l, _, err := s.Links.Create(t.Context(), actor, wish())
				if err != nil {
					t.Error(err)
					return
				}
				codes[c] = append(codes[c], l.Code)
			}
		})
	}
	wg.Wait()
	seen := make(map[waypost.Code]bool)
	for _, cs := range codes {
		for _, code := range cs {
			require.False(t, seen[code])
			seen[code] = true
		}
	}
	require.Len(t, seen, clients*each)
	var stored, seqs, newest int
	require.NoError(t, s.hand.QueryRow(t.Context(), `SELECT count(*) FROM link`).Scan(&stored))
	require.NoError(t, s.hand.QueryRow(t.Context(), `SELECT count(DISTINCT seq) - 1, max(seq) FROM changelog`).Scan(&seqs, &newest))
	require.Equal(t, clients*each, stored)
	require.Equal(t, newest, seqs)
	require.Less(t, seqs, clients*each, "concurrent creates share transactions")
}

func TestLinks_MintedCodeThatACustomOneHasTakenIsMintedAnew(t *testing.T) {
	s := start(t)
	space, err := keyrange.NewSpace(7, 2)
	require.NoError(t, err)
	coder := keyrange.NewCoder(space, [32]byte{})
	first, _, err := s.Links.Create(t.Context(), actor, wish())
	require.NoError(t, err)
	prefix, counter, ok := coder.Decode(first.Code)
	require.True(t, ok)
	for i := int64(1); i <= 3; i++ {
		_, err := s.hand.Exec(t.Context(), `INSERT INTO link (workspace_id, domain_id, code, original_url) VALUES (1, 1, $1, 'https://by-hand.example/')`,
			string(coder.Encode(prefix, counter+i)))
		require.NoError(t, err)
	}
	next, _, err := s.Links.Create(t.Context(), actor, wish())
	require.NoError(t, err)
	require.Equal(t, coder.Encode(prefix, counter+4), next.Code)
}

func TestLinks_NewEpochEndsTheLeasesThatAreStillInMemory(t *testing.T) {
	s := start(t)
	before, at, err := s.Links.Create(t.Context(), actor, wish())
	require.NoError(t, err)
	_, err = s.hand.Exec(t.Context(), `SELECT opened FROM changelog_head, changelog_open_epoch('test', epoch, epoch, NULL, seq + 1, 0, jsonb_build_object('at', extract(epoch FROM clock_timestamp()), 'ranges', '[]'::jsonb), 1000, 0)`)
	require.NoError(t, err)
	after, at2, err := s.Links.Create(t.Context(), actor, wish())
	require.NoError(t, err)
	require.Greater(t, at2.Epoch.Ordinal, at.Epoch.Ordinal)
	space, err := keyrange.NewSpace(7, 2)
	require.NoError(t, err)
	coder := keyrange.NewCoder(space, [32]byte{})
	_, was, _ := coder.Decode(before.Code)
	_, is, _ := coder.Decode(after.Code)
	require.GreaterOrEqual(t, is-was, int64(60_000))
}

func TestLinks_WhenPostgreSQLIsAwayEveryAnswerSaysUnavailable(t *testing.T) {
	s := start(t)
	l, _, err := s.Links.Create(t.Context(), actor, wish())
	require.NoError(t, err)
	_, err = s.hand.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`)
	require.NoError(t, err)
	cfg := s.hand.Config().Copy()
	cfg.User, cfg.Database = "postgres", "postgres"
	super, err := pgx.ConnectConfig(t.Context(), cfg)
	require.NoError(t, err)
	defer func() { require.NoError(t, super.Close(context.Background())) }()
	name := s.hand.Config().Database
	_, err = super.Exec(t.Context(), fmt.Sprintf(`ALTER DATABASE %s ALLOW_CONNECTIONS false`, name))
	require.NoError(t, err)
	_, err = super.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND application_name = 'waypost'`, name)
	require.NoError(t, err)

	_, _, err = s.Links.Create(t.Context(), actor, wish())
	require.Equal(t, waypost.EUnavailable, waypost.CodeOf(err), "%v", err)
	_, err = s.Links.Find(t.Context(), actor, "", string(l.Code))
	require.Equal(t, waypost.EUnavailable, waypost.CodeOf(err), "%v", err)
	_, err = s.Links.Resolve(t.Context(), "", visit(string(l.Code)), &rules.Request{})
	require.Equal(t, waypost.EUnavailable, waypost.CodeOf(err), "%v", err)
	require.False(t, s.ranges.Health(t.Context()).Database)

	_, err = super.Exec(t.Context(), fmt.Sprintf(`ALTER DATABASE %s ALLOW_CONNECTIONS true`, name))
	require.NoError(t, err)
	require.Eventually(t, func() bool { // the first may come by a connection that was ended
		_, _, err = s.Links.Create(t.Context(), actor, wish())
		return err == nil && s.ranges.Health(t.Context()).Database
	}, time.Minute, time.Millisecond)
}

func TestLinks_ListIsReadPageByPage(t *testing.T) {
	s := start(t)
	var wishes []controlplane.NewLink
	for i := range 25 {
		wishes = append(wishes, wish(custom(fmt.Sprintf("code-%02d", i))))
	}
	_, _, err := s.Links.CreateBulk(t.Context(), actor, wishes)
	require.NoError(t, err)
	var got []waypost.Code
	for cursor, more := "", true; more; more = cursor != "" {
		page, err := s.Links.List(t.Context(), actor, controlplane.ListRequest{Limit: 10, Cursor: cursor})
		require.NoError(t, err)
		for _, l := range page.Links {
			got = append(got, l.Code)
		}
		cursor = page.Next
	}
	require.Len(t, got, 25)
	require.Equal(t, waypost.Code("code-24"), got[0])
	for _, bad := range []string{"x", "aWQ6LTE", strings.Repeat("a", 100), "aWQ6eA"} {
		_, err := s.Links.List(t.Context(), actor, controlplane.ListRequest{Limit: 10, Cursor: bad})
		require.Equal(t, waypost.EMalformed, waypost.CodeOf(err), bad)
	}
}

func TestLinks_KeyOpensItsWorkspaceUntilItIsRevoked(t *testing.T) {
	s := start(t)
	s.now.Store(time.Now().UnixMilli())
	key, err := s.db.CreateKey(t.Context(), "default", "test", []string{"links:write"})
	require.NoError(t, err)
	a, err := s.Access.Authenticate(t.Context(), key)
	require.NoError(t, err)
	require.True(t, a.Can(controlplane.ScopeLinksWrite))
	require.False(t, a.Can(controlplane.ScopeAdmin))

	other := controlplane.NewKey()
	for _, bad := range []string{"", "wp_live_", key[:len(key)-1], key[:len(key)-1] + "!", strings.ToUpper(key), other} {
		_, err := s.Access.Authenticate(t.Context(), bad)
		require.Equal(t, waypost.EUnauthorized, waypost.CodeOf(err), bad)
	}
	_, err = s.hand.Exec(t.Context(), `UPDATE api_key SET revoked_at = now()`)
	require.NoError(t, err)
	s.now.Add(1000)
	_, err = s.Access.Authenticate(t.Context(), key)
	require.Equal(t, waypost.EUnauthorized, waypost.CodeOf(err), "within a second of its revocation")
}
