package controlplane_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane"
)

// deduped is the wish for the one link of a target.
func deduped(url string, change ...func(*controlplane.NewLink)) controlplane.NewLink {
	yes := true
	n := controlplane.NewLink{OriginalURL: url, Dedupe: &yes}
	for _, f := range change {
		f(&n)
	}
	return n
}

func make1(t *testing.T, s *controlplane.Services, n controlplane.NewLink) controlplane.Outcome {
	t.Helper()
	outcomes, at, err := s.Links.CreateBulk(t.Context(), actor, []controlplane.NewLink{n})
	require.NoError(t, err)
	require.NoError(t, outcomes[0].Err)
	require.False(t, at.IsZero(), "also a link that was there has a position at which it is")
	return outcomes[0]
}

func TestLinks_OneTargetFromSixtyFourConnectionsToTwoControlPlanesHasOneLink(t *testing.T) {
	s := start(t)
	services := []*controlplane.Services{s.Services, s.another(t)}
	codes := make([]waypost.Code, 64)
	found := make([]bool, len(codes))
	var wg sync.WaitGroup
	for i := range codes {
		wg.Go(func() {
			outcomes, _, err := services[i%2].Links.CreateBulk(t.Context(), actor,
				[]controlplane.NewLink{deduped(fmt.Sprintf("HTTPS://Example.com:443/a/?utm_source=%d&b=1", i))})
			if err == nil {
				err = outcomes[0].Err
			}
			if err != nil {
				t.Error(err)
				return
			}
			codes[i], found[i] = outcomes[0].Link.Code, outcomes[0].Found
		})
	}
	wg.Wait()
	made := 0
	for i := range codes {
		require.Equal(t, codes[0], codes[i])
		if !found[i] {
			made++
		}
	}
	require.Equal(t, 1, made, "one was told that the link is new")
	require.Equal(t, 1, s.count(t, `SELECT count(*) FROM link`))
}

func TestLinks_OnlyALiveLinkIsFound(t *testing.T) {
	s := start(t)
	const url = "https://example.com/a"
	first := make1(t, s.Services, deduped(url))
	require.Equal(t, first.Link.Code, make1(t, s.Services, deduped(url+"/")).Link.Code)

	for name, end := range map[string]string{
		"disabled": `UPDATE link SET active = false WHERE code = $1`,
		"expired":  `UPDATE link SET expires_at = now() - interval '1 second' WHERE code = $1`,
		"deleted":  `UPDATE link SET deleted_at = now() WHERE code = $1`,
	} {
		before := make1(t, s.Services, deduped(url))
		require.True(t, before.Found, name)
		_, err := s.hand.Exec(t.Context(), end, string(before.Link.Code))
		require.NoError(t, err)
		after := make1(t, s.Services, deduped(url))
		require.False(t, after.Found, name)
		require.NotEqual(t, before.Link.Code, after.Link.Code, name)
	}
}

func TestLinks_LinkThatWasMadeWithoutAskingForOneIsNotFound(t *testing.T) {
	s := start(t)
	plain := make1(t, s.Services, controlplane.NewLink{OriginalURL: "https://example.com/a"})
	one := make1(t, s.Services, deduped("https://example.com/a"))
	require.False(t, one.Found)
	require.NotEqual(t, plain.Link.Code, one.Link.Code)
	again := make1(t, s.Services, controlplane.NewLink{OriginalURL: "https://example.com/a"})
	require.False(t, again.Found, "the default is a new code every time")
}

func TestLinks_WorkspaceDecidesWhatIsUsual(t *testing.T) {
	s := start(t)
	_, err := s.hand.Exec(t.Context(), `UPDATE workspace SET settings = '{"dedupe": true}' WHERE id = 1`)
	require.NoError(t, err)
	plain := controlplane.NewLink{OriginalURL: "https://example.com/a"}
	first := make1(t, s.Services, plain)
	require.True(t, make1(t, s.Services, plain).Found)
	no := false
	require.False(t, make1(t, s.Services, controlplane.NewLink{OriginalURL: plain.OriginalURL, Dedupe: &no}).Found)
	own := make1(t, s.Services, controlplane.NewLink{OriginalURL: plain.OriginalURL, CustomCode: "my-own"})
	require.False(t, own.Found, "a code of one's own is a wish for another link")
	require.Equal(t, first.Link.Code, make1(t, s.Services, plain).Link.Code)

	require.False(t, make1(t, s.Services, deduped("https://example.com/a", custom("others"))).Found, "another code is another link")
	other := start(t)
	make1(t, other.Services, plain)
	require.False(t, make1(t, other.Services, plain).Found)
}

func TestLinks_InABulkOneTargetHasOneLink(t *testing.T) {
	s := start(t)
	before := make1(t, s.Services, deduped("https://example.com/before"))
	bulk := []controlplane.NewLink{
		deduped("https://example.com/a"), deduped("https://example.com/before"), wish(), deduped("https://example.com/a/"),
		deduped("https://example.com/b"),
	}
	for _, keep := range []bool{false, true} {
		var outcomes []controlplane.Outcome
		if keep {
			made, err := s.Links.CreateOnce(t.Context(), actor, bulk, once("k", 1))
			require.NoError(t, err)
			outcomes = made.Outcomes
		} else {
			var err error
			outcomes, _, err = s.Links.CreateBulk(t.Context(), actor, bulk)
			require.NoError(t, err)
		}
		for i, o := range outcomes {
			require.NoError(t, o.Err)
			require.NotZero(t, o.Link.ID)
			require.Equal(t, i == 1 || i == 3 || keep && i != 2, o.Found, i)
		}
		require.Equal(t, before.Link.Code, outcomes[1].Link.Code)
		require.Equal(t, outcomes[0].Link.Code, outcomes[3].Link.Code)
	}
}

func TestLinks_LinkThatIsNotActiveIsNotTheOneOfItsTarget(t *testing.T) {
	s := start(t)
	off := func(n *controlplane.NewLink) { n.Disabled = true }
	const url = "https://example.com/a"
	outcomes, _, err := s.Links.CreateBulk(t.Context(), actor, []controlplane.NewLink{
		deduped(url, off), deduped(url, off), deduped(url), deduped(url), deduped(url, off),
	})
	require.NoError(t, err)
	live := outcomes[2].Link.Code
	for i, o := range outcomes {
		require.NoError(t, o.Err)
		require.Equal(t, i > 2, o.Found, i)
		require.Equal(t, i >= 2, o.Link.Active, i)
		require.Equal(t, i >= 2, o.Link.Code == live, i)
	}
	require.Equal(t, live, make1(t, s.Services, deduped(url)).Link.Code, "also later")
}

func TestLinks_OneLinkOfATargetIsAWorkspacesOwnAndADomains(t *testing.T) {
	s := start(t)
	_, err := s.hand.Exec(t.Context(), `INSERT INTO workspace (id, name, slug) VALUES (7, 'Other', 'other'); INSERT INTO domain (id, host) VALUES (5, 'own.example')`)
	require.NoError(t, err)
	const url = "https://example.com/a"
	mine := make1(t, s.Services, deduped(url))
	outcomes, _, err := s.Links.CreateBulk(t.Context(), controlplane.Actor{Workspace: 7}, []controlplane.NewLink{deduped(url)})
	require.NoError(t, err)
	require.NoError(t, outcomes[0].Err)
	require.False(t, outcomes[0].Found)
	other := make1(t, s.Services, deduped(url, func(n *controlplane.NewLink) { n.Domain = "own.example" }))
	require.False(t, other.Found)
	require.Equal(t, "own.example", other.Link.Host)
	require.NotEqual(t, mine.Link.Code, other.Link.Code)
	require.True(t, make1(t, s.Services, deduped(url, func(n *controlplane.NewLink) { n.Domain = "OWN.example" })).Found)
}

func TestLinks_LinkThatIsOnItsWayCanBeWaitedFor(t *testing.T) {
	s := start(t)
	first := make1(t, s.Services, deduped("https://example.com/a", func(n *controlplane.NewLink) { n.ExpiresAt = time.Now().Add(time.Hour) }))
	outcomes, at, err := s.Links.CreateBulk(t.Context(), actor, []controlplane.NewLink{deduped("https://example.com/a")})
	require.NoError(t, err)
	require.True(t, outcomes[0].Found)
	require.Equal(t, first.Link.Code, outcomes[0].Link.Code)
	require.False(t, first.Link.Revision.Newer(at.Revision()), "at the position that is told the link is there")
}

// A file with codes of its own that is imported again makes nothing twice.
func TestLinks_ACustomCodeThatIsThereWithItsTargetIsFoundOnRequest(t *testing.T) {
	s := start(t)
	yes := true
	links := func() []controlplane.NewLink {
		return []controlplane.NewLink{
			{OriginalURL: "https://example.com/a", CustomCode: "first", Dedupe: &yes},
			{OriginalURL: "https://example.com/other", CustomCode: "other", Dedupe: &yes},
			{OriginalURL: "https://example.com/a", CustomCode: "first"},
			{OriginalURL: "https://example.com/c", CustomCode: "third", Dedupe: &yes},
			{OriginalURL: "https://example.com/d", CustomCode: "gone", Dedupe: &yes},
		}
	}
	for _, code := range []string{"first", "other", "gone"} {
		n := wish(custom(code))
		n.OriginalURL = map[string]string{"first": "https://example.com/a", "gone": "https://example.com/d"}[code]
		if n.OriginalURL == "" {
			n.OriginalURL = "https://example.com/others"
		}
		_, _, err := s.Links.Create(t.Context(), actor, n)
		require.NoError(t, err)
	}
	_, err := s.Links.Remove(t.Context(), actor, "", "gone")
	require.NoError(t, err)
	check := func(got []controlplane.Outcome, third bool) {
		t.Helper()
		require.Equal(t, []string{"first ", "other conflict", "first conflict", "third ", "gone conflict"}, codesOf(got))
		require.Equal(t, []bool{true, false, false, third, false}, []bool{got[0].Found, got[1].Found, got[2].Found, got[3].Found, got[4].Found})
		require.NotZero(t, got[0].Link.ID)
	}
	dry, err := s.Links.DryRun(t.Context(), actor, links())
	require.NoError(t, err)
	check(dry, false)
	made, err := s.Links.CreateOnce(t.Context(), actor, links(), once("import", 1))
	require.NoError(t, err)
	check(made.Outcomes, false)
	made, err = s.Links.CreateOnce(t.Context(), actor, links(), once("again", 1))
	require.NoError(t, err)
	check(made.Outcomes, true)
	got, _, err := s.Links.CreateBulk(t.Context(), actor, links())
	require.NoError(t, err)
	check(got, true)
}

func TestLinks_ACustomCodeThatComesTwiceWithItsTargetIsFound(t *testing.T) {
	s := start(t)
	yes := true
	of := func(code, url string) controlplane.NewLink {
		return controlplane.NewLink{OriginalURL: url, CustomCode: code, Dedupe: &yes}
	}
	links := func(code string) []controlplane.NewLink {
		return []controlplane.NewLink{
			of(code, "https://example.com/a"), of(code, "https://example.com/a"), of(code, "https://example.com/b"),
			of("no", "https://example.com/a"), of("no", "https://example.com/a"),
		}
	}
	check := func(got []controlplane.Outcome, err error) {
		t.Helper()
		require.NoError(t, err)
		var found []bool
		for _, o := range got {
			found = append(found, o.Found)
		}
		require.Equal(t, []bool{false, true, false, false, false}, found)
		require.NoError(t, got[0].Err)
		require.NoError(t, got[1].Err)
		require.Equal(t, waypost.EConflict, waypost.CodeOf(got[2].Err))
		require.Error(t, got[4].Err)
	}
	check(s.Links.DryRun(t.Context(), actor, links("spring")))
	got, _, err := s.Links.CreateBulk(t.Context(), actor, links("spring"))
	check(got, err)
	require.Equal(t, got[0].Link.ID, got[1].Link.ID)
	key := once("twins", 1)
	var stored []controlplane.Outcome
	key.Respond = func(outcomes []controlplane.Outcome, _ waypost.Position) (controlplane.Response, error) {
		stored = outcomes
		return controlplane.Response{Status: 200, Header: map[string]string{}, Body: []byte("{}")}, nil
	}
	made, err := s.Links.CreateOnce(t.Context(), actor, links("summer"), key)
	check(made.Outcomes, err)
	check(stored, nil)
	require.Equal(t, made.Outcomes[0].Link.ID, made.Outcomes[1].Link.ID)
}

func TestLinks_RequestsAtOnceFindACustomCodeWithItsTarget(t *testing.T) {
	s := start(t)
	yes, made := true, make(chan controlplane.Outcome)
	for range 20 {
		for range 8 {
			go func() {
				n := controlplane.NewLink{OriginalURL: "https://example.com/a", CustomCode: "spring", Dedupe: &yes}
				got, _, err := s.Links.CreateBulk(t.Context(), actor, []controlplane.NewLink{n})
				if err != nil {
					got = []controlplane.Outcome{{Err: err}}
				}
				made <- got[0]
			}()
		}
		found := 0
		for range 8 {
			o := <-made
			require.NoError(t, o.Err)
			if o.Found {
				found++
			}
		}
		require.Equal(t, 7, found)
		_, err := s.hand.Exec(t.Context(), `DELETE FROM link`)
		require.NoError(t, err)
	}
}
