package controlplane_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane"
	"waypost/rules"
)

// entitle is a change of a title.
func entitle(title string) func(*waypost.Details) {
	return func(d *waypost.Details) { d.Title = title }
}

func TestLinks_ChangeChangesWhatItNamesAndNothingElse(t *testing.T) {
	s := start(t)
	l, _, err := s.Links.Create(t.Context(), actor, wish(custom("edit-me"), func(n *controlplane.NewLink) {
		n.Title, n.Description, n.Tags, n.Metadata = "old", "kept", []string{"a"}, json.RawMessage(`{"kept": true}`)
		n.ExpiresAt, n.ForwardQuery = time.Now().Add(time.Hour), true
	}))
	require.NoError(t, err)
	url, off := "https://bücher.example/ü x", false
	o, at, err := s.Links.Change(t.Context(), actor, "", "edit-me", controlplane.LinkChange{
		OriginalURL: &url, Active: &off, ExpiresAt: &time.Time{},
		Details: func(d *waypost.Details) { d.Title, d.Tags = "new", []string{"b", "c"} },
	})
	require.NoError(t, err)
	require.True(t, o.Link.Revision.Newer(l.Revision))
	require.Equal(t, at.Revision(), o.Link.Revision)
	want := l
	want.OriginalURL, want.Location = url, "https://xn--bcher-kva.example/%C3%BC%20x"
	want.Title, want.Active, want.Tags, want.ExpiresAt = "new", false, []string{"b", "c"}, time.Time{}
	want.UpdatedAt, want.Revision, want.Stamp = o.Link.UpdatedAt, o.Link.Revision, o.Link.Stamp
	got, err := s.Links.Find(t.Context(), actor, "", "edit-me")
	require.NoError(t, err)
	require.Equal(t, o.Link, got)
	require.JSONEq(t, string(want.Metadata), string(got.Metadata))
	got.Metadata = want.Metadata
	require.Equal(t, want, got)

	res, err := s.Links.Resolve(t.Context(), "", visit("edit-me"), &rules.Request{})
	require.NoError(t, err)
	require.Equal(t, 410, res.Status, "a disabled link redirects nobody")
	on := true
	_, _, err = s.Links.Change(t.Context(), actor, "", "edit-me", controlplane.LinkChange{Active: &on})
	require.NoError(t, err)
	res, err = s.Links.Resolve(t.Context(), "", visit("edit-me"), &rules.Request{})
	require.NoError(t, err)
	require.Equal(t, want.Location, string(res.Location))
}

func TestLinks_NotesAreKeptFoundAndInTheHistory(t *testing.T) {
	s := start(t)
	_, _, err := s.Links.Create(t.Context(), actor, wish(custom("noted"), func(n *controlplane.NewLink) { n.Notes = "Ada asked for it" }))
	require.NoError(t, err)
	_, _, err = s.Links.Create(t.Context(), actor, wish(custom("plain")))
	require.NoError(t, err)
	_, _, err = s.Links.Create(t.Context(), actor, wish(func(n *controlplane.NewLink) { n.Notes = strings.Repeat("x", waypost.MaxNotes+1) }))
	require.Equal(t, waypost.EInvalid, waypost.CodeOf(err))
	found := func(f controlplane.LinkFilter) (codes []string) {
		page, err := s.Links.List(t.Context(), actor, controlplane.ListRequest{LinkFilter: f, Order: controlplane.NewestFirst, Limit: 10})
		require.NoError(t, err)
		for _, l := range page.Links {
			codes = append(codes, string(l.Code)+": "+l.Notes)
		}
		return codes
	}
	require.Equal(t, []string{"noted: Ada asked for it"}, found(controlplane.LinkFilter{Words: "ada asked"}))
	require.Equal(t, []string{"noted: Ada asked for it"}, found(controlplane.LinkFilter{Typed: "ask"}))

	o, _, err := s.Links.Change(t.Context(), actor, "", "noted", controlplane.LinkChange{Details: func(d *waypost.Details) { d.Notes = "Bob did" }})
	require.NoError(t, err)
	require.Equal(t, "Bob did", o.Link.Notes)
	require.Empty(t, found(controlplane.LinkFilter{Words: "ada asked"}))
	require.Equal(t, []string{"noted: Bob did"}, found(controlplane.LinkFilter{Words: "bob"}))
	require.Equal(t, `changed by system 0 development system: notes "Ada asked for it" > "Bob did"`, s.did(t, "noted")[0])
}

func TestLinks_TargetCanBecomeAnotherTextWithTheSameLocation(t *testing.T) {
	s := start(t)
	_, _, err := s.Links.Create(t.Context(), actor, controlplane.NewLink{OriginalURL: "https://bücher.example/", CustomCode: "books"})
	require.NoError(t, err)
	for _, url := range []string{"https://BÜCHER.example/", "https://xn--bcher-kva.example/", "https://bücher.example/"} {
		o, at, err := s.Links.Change(t.Context(), actor, "", "books", controlplane.LinkChange{OriginalURL: &url})
		require.NoError(t, err, url)
		require.Equal(t, at.Revision(), o.Link.Revision)
		got, err := s.Links.Find(t.Context(), actor, "", "books")
		require.NoError(t, err)
		require.Equal(t, url, got.OriginalURL)
		require.Equal(t, "https://xn--bcher-kva.example/", got.Location)
		require.Equal(t, controlplane.VersionOf(&o.Link), controlplane.VersionOf(&got))
	}
}

func TestLinks_StaleChangeIsRefused(t *testing.T) {
	s := start(t)
	l, _, err := s.Links.Create(t.Context(), actor, wish())
	require.NoError(t, err)
	first := []controlplane.Version{controlplane.VersionOf(&l)}
	_, _, err = s.Links.Change(t.Context(), actor, "", string(l.Code), controlplane.LinkChange{Details: entitle("one"), Match: first})
	require.NoError(t, err)
	_, _, err = s.Links.Change(t.Context(), actor, "", string(l.Code), controlplane.LinkChange{Details: entitle("two"), Match: first})
	require.Equal(t, waypost.EStale, waypost.CodeOf(err))
	got, err := s.Links.Find(t.Context(), actor, "", string(l.Code))
	require.NoError(t, err)
	require.Equal(t, "one", got.Title)
}

func TestLinks_ConcurrentChangesOfDifferentFieldsAllCount(t *testing.T) {
	s := start(t)
	l, _, err := s.Links.Create(t.Context(), actor, wish())
	require.NoError(t, err)
	status, yes := 307, true
	changes := []controlplane.LinkChange{
		{Details: entitle("t")},
		{Details: func(d *waypost.Details) { d.Description = "d" }},
		{RedirectStatus: &status},
		{ForwardPath: &yes},
		{Details: func(d *waypost.Details) { d.Tags = []string{"x"} }},
	}
	var wg sync.WaitGroup
	for i := range changes {
		wg.Go(func() {
			if _, _, err := s.Links.Change(t.Context(), actor, "", string(l.Code), changes[i]); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	got, err := s.Links.Find(t.Context(), actor, "", string(l.Code))
	require.NoError(t, err)
	require.Equal(t, fmt.Sprint("t d 307 ", waypost.ForwardPath, " [x]"), fmt.Sprint(got.Title, " ", got.Description, " ",
		got.RedirectStatus, " ", got.Flags, " ", got.Tags))
}

func TestLinks_ExpiredLinkLivesAgainWithALaterExpiryAndADeletedOneDoesNot(t *testing.T) {
	s := start(t)
	l, _, err := s.Links.Create(t.Context(), actor, wish(func(n *controlplane.NewLink) { n.ExpiresAt = time.Now().Add(time.Minute) }))
	require.NoError(t, err)
	s.now.Store(time.Now().Add(time.Hour).UnixMilli())
	_, err = s.Links.Find(t.Context(), actor, "", string(l.Code))
	require.Equal(t, waypost.EGone, waypost.CodeOf(err))
	later, passed := time.Now().Add(2*time.Hour), time.Now()
	_, _, err = s.Links.Change(t.Context(), actor, "", string(l.Code), controlplane.LinkChange{ExpiresAt: &passed})
	require.Equal(t, waypost.EInvalid, waypost.CodeOf(err))
	_, _, err = s.Links.Change(t.Context(), actor, "", string(l.Code), controlplane.LinkChange{ExpiresAt: &later})
	require.NoError(t, err)
	_, err = s.Links.Find(t.Context(), actor, "", string(l.Code))
	require.NoError(t, err)
	_, err = s.Links.Remove(t.Context(), actor, "", string(l.Code))
	require.NoError(t, err)
	_, _, err = s.Links.Change(t.Context(), actor, "", string(l.Code), controlplane.LinkChange{ExpiresAt: &later})
	require.Equal(t, waypost.ENotFound, waypost.CodeOf(err))
}

func TestLinks_OneLinkOfATargetMovesWithIt(t *testing.T) {
	s := start(t)
	a := make1(t, s.Services, deduped("https://example.com/a"))
	b := "https://example.com/b"
	_, _, err := s.Links.Change(t.Context(), actor, "", string(a.Link.Code), controlplane.LinkChange{OriginalURL: &b})
	require.NoError(t, err)
	require.Equal(t, a.Link.Code, make1(t, s.Services, deduped(b)).Link.Code)
	fresh := make1(t, s.Services, deduped("https://example.com/a"))
	require.False(t, fresh.Found)

	_, _, err = s.Links.Change(t.Context(), actor, "", string(fresh.Link.Code), controlplane.LinkChange{OriginalURL: &b})
	require.NoError(t, err)
	require.Equal(t, a.Link.Code, make1(t, s.Services, deduped(b)).Link.Code, "a target that has its one link keeps it")
	bad := "https://go.example.com/x"
	_, _, err = s.Links.Change(t.Context(), actor, "", string(a.Link.Code), controlplane.LinkChange{OriginalURL: &bad})
	require.Equal(t, waypost.EInvalid, waypost.CodeOf(err), "the rules for targets hold")
}

func TestLinks_LinkCanBeMadeBeforeItIsActive(t *testing.T) {
	s := start(t)
	for _, n := range []controlplane.NewLink{
		{OriginalURL: "https://example.com/", CustomCode: "not-yet", Disabled: true},
		{OriginalURL: "https://example.com/", Disabled: true, Dedupe: new(true)}, // which is written in another way
	} {
		l, _, err := s.Links.Create(t.Context(), actor, n)
		require.NoError(t, err)
		require.False(t, l.Active)
		got, err := s.Links.Find(t.Context(), actor, "", string(l.Code))
		require.NoError(t, err)
		require.False(t, got.Active)
		res, err := s.Links.Resolve(t.Context(), "", visit(string(l.Code)), &rules.Request{})
		require.NoError(t, err)
		require.Equal(t, 410, res.Status)
		on := true
		_, _, err = s.Links.Change(t.Context(), actor, "", string(l.Code), controlplane.LinkChange{Active: &on})
		require.NoError(t, err)
		res, err = s.Links.Resolve(t.Context(), "", visit(string(l.Code)), &rules.Request{})
		require.NoError(t, err)
		require.Equal(t, 302, res.Status)
	}
}
