package controlplane_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/keys"
	"waypost/controlplane/postgres"
	"waypost/keyrange"
)

// another is a second control plane over the same database.
func (s *system) another(t *testing.T) *controlplane.Services {
	t.Helper()
	db, err := postgres.Open(t.Context(), postgres.Config{URL: s.url})
	require.NoError(t, err)
	t.Cleanup(db.Close)
	space, err := keyrange.NewSpace(7, 2)
	require.NoError(t, err)
	minter := keys.NewMinter(keys.MinterConfig{
		Store: db, Coder: keyrange.NewCoder(space, [32]byte{}), Region: "eu", Node: "test/2", Size: 100, Patience: time.Minute,
	})
	other := controlplane.New(controlplane.Config{
		Store: db, Minter: minter, Patience: time.Minute,
	})
	t.Cleanup(func() { require.NoError(t, other.Close(context.Background())) })
	return other
}

// once returns an idempotent request whose response lists the outcomes.
func once(key string, request byte) controlplane.Idempotency {
	return controlplane.Idempotency{
		Route: "test", Key: key, Request: [32]byte{request},
		Respond: func(outcomes []controlplane.Outcome, at waypost.Position) (controlplane.Response, error) {
			body, err := json.Marshal([]any{codesOf(outcomes), at.String()})
			return controlplane.Response{Status: 201, Header: map[string]string{"Position": at.String()}, Body: body}, err
		},
	}
}

func codesOf(outcomes []controlplane.Outcome) (all []string) {
	for _, o := range outcomes {
		all = append(all, string(o.Link.Code)+" "+string(waypost.CodeOf(o.Err)))
	}
	return all
}

func (s *system) count(t *testing.T, sql string) (n int) {
	t.Helper()
	require.NoError(t, s.hand.QueryRow(t.Context(), sql).Scan(&n))
	return n
}

func TestLinks_RequestThatIsSentSixtyFourTimesToTwoControlPlanesMakesOneLinkAndHasOneAnswer(t *testing.T) {
	s := start(t)
	services := []*controlplane.Services{s.Services, s.another(t)}
	const times = 64
	answers := make([]string, times)
	var wg sync.WaitGroup
	for i := range times {
		wg.Go(func() {
			o := once("my key", 1)
			made, err := services[i%2].Links.CreateOnce(t.Context(), actor, []controlplane.NewLink{wish()}, o)
			if err != nil {
				t.Error(err)
				return
			}
			a := made.Replayed
			if a == nil {
				first, err := o.Respond(made.Outcomes, made.At)
				if err != nil {
					t.Error(err)
					return
				}
				a = &first
			}
			answers[i] = fmt.Sprint(a.Status, a.Header, string(a.Body))
		})
	}
	wg.Wait()
	for i := range answers {
		require.Equal(t, answers[0], answers[i])
	}
	require.Equal(t, 1, s.count(t, `SELECT count(*) FROM link`))
	require.Equal(t, 1, s.count(t, `SELECT count(*) FROM idempotency`))
}

func TestLinks_KeyIsOfOneRequestOneRouteAndOneWorkspace(t *testing.T) {
	s := start(t)
	_, err := s.hand.Exec(t.Context(), `INSERT INTO workspace (id, name, slug) VALUES (7, 'Other', 'other')`)
	require.NoError(t, err)
	made, err := s.Links.CreateOnce(t.Context(), actor, []controlplane.NewLink{wish()}, once("k", 1))
	require.NoError(t, err)
	require.Nil(t, made.Replayed)
	_, err = s.Links.CreateOnce(t.Context(), actor, []controlplane.NewLink{wish()}, once("k", 2))
	require.Equal(t, waypost.EKeyReused, waypost.CodeOf(err))

	elsewhere := once("k", 2)
	elsewhere.Route = "another"
	made, err = s.Links.CreateOnce(t.Context(), actor, []controlplane.NewLink{wish()}, elsewhere)
	require.NoError(t, err)
	require.Nil(t, made.Replayed)
	made, err = s.Links.CreateOnce(t.Context(), controlplane.Actor{Workspace: 7}, []controlplane.NewLink{wish()}, once("k", 2))
	require.NoError(t, err)
	require.Nil(t, made.Replayed)
	require.Equal(t, 3, s.count(t, `SELECT count(*) FROM link`))
}

func TestLinks_RequestThatMadeNothingIsNotKept(t *testing.T) {
	s := start(t)
	_, _, err := s.Links.Create(t.Context(), actor, wish(custom("taken")))
	require.NoError(t, err)
	for range 2 {
		made, err := s.Links.CreateOnce(t.Context(), actor, []controlplane.NewLink{wish(custom("taken")), {OriginalURL: "ftp://x"}}, once("k", 1))
		require.NoError(t, err)
		require.Nil(t, made.Replayed)
		require.Equal(t, waypost.EConflict, waypost.CodeOf(made.Outcomes[0].Err))
	}
	require.Zero(t, s.count(t, `SELECT count(*) FROM idempotency`))
}

func TestLinks_InAKeptBulkEveryOutcomeIsKept(t *testing.T) {
	s := start(t)
	_, _, err := s.Links.Create(t.Context(), actor, wish(custom("taken")))
	require.NoError(t, err)
	bulk := []controlplane.NewLink{wish(), wish(custom("taken")), {OriginalURL: "ftp://x"}, wish(custom("twice")), wish(custom("twice"))}
	o := once("k", 1)
	made, err := s.Links.CreateOnce(t.Context(), actor, bulk, o)
	require.NoError(t, err)
	want, err := o.Respond(made.Outcomes, made.At)
	require.NoError(t, err)
	require.Contains(t, string(want.Body), `"taken conflict"," malformed","twice ","twice conflict"`)
	again, err := s.Links.CreateOnce(t.Context(), actor, bulk, once("k", 1))
	require.NoError(t, err)
	require.Equal(t, want, *again.Replayed)
	require.Equal(t, 3, s.count(t, `SELECT count(*) FROM link`))
}

func TestLinks_BulkThatTheDatabaseRefusesMakesNothingAndTheOthersOfItsTransactionDo(t *testing.T) {
	s := start(t)
	_, err := s.hand.Exec(t.Context(), `ALTER TABLE link ADD CHECK (title <> 'spoilt')`)
	require.NoError(t, err)
	spoilt := wish(func(n *controlplane.NewLink) { n.Title = "spoilt" })
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			bulk := []controlplane.NewLink{wish(), wish()}
			if i == 3 {
				bulk[1] = spoilt
			}
			made, err := s.Links.CreateOnce(t.Context(), actor, bulk, once(fmt.Sprint("k", i), 1))
			if err != nil {
				t.Error(err)
				return
			}
			for _, o := range made.Outcomes {
				if (o.Err != nil) != (i == 3) {
					t.Errorf("%d: %v", i, o.Err)
				}
			}
		})
	}
	wg.Wait()
	require.Equal(t, 14, s.count(t, `SELECT count(*) FROM link`))
	require.Equal(t, 7, s.count(t, `SELECT count(*) FROM idempotency`))
}

func TestLinks_MintedCodeThatIsTakenDoesNotPartALinkFromItsAnswer(t *testing.T) {
	s := start(t)
	first, _, err := s.Links.Create(t.Context(), actor, wish())
	require.NoError(t, err)
	space, err := keyrange.NewSpace(7, 2)
	require.NoError(t, err)
	coder := keyrange.NewCoder(space, [32]byte{})
	prefix, counter, ok := coder.Decode(first.Code)
	require.True(t, ok)
	_, err = s.hand.Exec(t.Context(), `INSERT INTO link (workspace_id, domain_id, code, original_url) VALUES (1, 1, $1, 'https://by-hand.example/')`,
		string(coder.Encode(prefix, counter+2)))
	require.NoError(t, err)
	o := once("k", 1)
	made, err := s.Links.CreateOnce(t.Context(), actor, []controlplane.NewLink{wish(), wish(), wish()}, o)
	require.NoError(t, err)
	want, err := o.Respond(made.Outcomes, made.At)
	require.NoError(t, err)
	for _, outcome := range made.Outcomes {
		require.NoError(t, outcome.Err)
	}
	again, err := s.Links.CreateOnce(t.Context(), actor, nil, once("k", 1))
	require.NoError(t, err)
	require.Equal(t, want, *again.Replayed)
}

// A database that goes away in the middle leaves the client without an answer. The same
// request, sent again, finds out what became of the first.
func TestLinks_AnswerThatWasLostIsFoundUnderItsKey(t *testing.T) {
	s := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := s.minter.Mint(t.Context()) // from now on there are keys, which else would wait for the head, too
	require.NoError(t, err)
	_, err = s.hand.Exec(t.Context(), `BEGIN; SELECT changelog_begin()`) // holds the head
	require.NoError(t, err)
	lost := make(chan error, 1)
	go func() {
		_, err := s.Links.CreateOnce(ctx, actor, []controlplane.NewLink{wish()}, once("k", 1))
		lost <- err
	}()
	require.Eventually(t, func() bool {
		return s.waiting(t) > 0
	}, 60*time.Second, time.Millisecond, "the transaction waits for the head")
	cancel()
	require.Equal(t, waypost.EUnavailable, waypost.CodeOf(<-lost), "the client gives up")
	_, err = s.hand.Exec(t.Context(), `ROLLBACK`)
	require.NoError(t, err)

	made, err := s.Links.CreateOnce(t.Context(), actor, []controlplane.NewLink{wish()}, once("k", 1))
	require.NoError(t, err)
	require.NotNil(t, made.Replayed)
	require.Equal(t, 1, s.count(t, `SELECT count(*) FROM link`))
}

// waiting counts the transactions that wait for a lock.
func (s *system) waiting(t *testing.T) (n int) {
	t.Helper()
	// In a transaction it would stay what it was when it was first read.
	_, err := s.hand.Exec(t.Context(), `SELECT pg_stat_clear_snapshot()`)
	require.NoError(t, err)
	require.NoError(t, s.hand.QueryRow(t.Context(),
		`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&n))
	return n
}

func TestLinks_AnswersAreForgottenAfterTheirTime(t *testing.T) {
	s := start(t)
	for _, key := range []string{"old", "new"} {
		_, err := s.Links.CreateOnce(t.Context(), actor, []controlplane.NewLink{wish()}, once(key, 1))
		require.NoError(t, err)
	}
	_, err := s.hand.Exec(t.Context(), `UPDATE idempotency SET created_at = now() - interval '25 hours' WHERE key = 'old'`)
	require.NoError(t, err)
	require.NoError(t, s.db.MaintainOnce(t.Context()))
	for key, replayed := range map[string]bool{"old": false, "new": true} {
		made, err := s.Links.CreateOnce(t.Context(), actor, []controlplane.NewLink{wish()}, once(key, 1))
		require.NoError(t, err)
		require.Equal(t, replayed, made.Replayed != nil, key)
	}
}

func TestCreateOnce_KeepsNoCheapHashOfAPassword(t *testing.T) {
	s := start(t)
	ns := []controlplane.NewLink{{OriginalURL: "https://target.example/", Password: "secret"}}
	made, err := s.Links.CreateOnce(t.Context(), actor, ns, once("k", 7))
	require.NoError(t, err)
	require.Nil(t, made.Replayed)
	again, err := s.Links.CreateOnce(t.Context(), actor, ns, once("k", 7))
	require.NoError(t, err)
	require.NotNil(t, again.Replayed)
	_, err = s.Links.CreateOnce(t.Context(), actor, ns, once("k", 8))
	require.Equal(t, waypost.EKeyReused, waypost.CodeOf(err))
	require.Zero(t, s.count(t, `SELECT count(*) FROM idempotency WHERE request = decode('07' || repeat('00', 31), 'hex')`))
}
