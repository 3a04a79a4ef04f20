package controlplane_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/rules"
)

func TestLinks_RestoreBringsADeletedLinkBackAsItWas(t *testing.T) {
	s := start(t)
	_, _, err := s.Links.Create(t.Context(), actor, wish(custom("come-back"), func(n *controlplane.NewLink) {
		n.Title, n.Tags, n.Metadata = "Spring", []string{"a", "b"}, json.RawMessage(`{"a": 1}`)
		n.ExpiresAt, n.ForwardPath, n.CreatedBy = time.Now().Add(time.Hour), true, "ann"
	}))
	require.NoError(t, err)
	_, err = s.hand.Exec(t.Context(), `INSERT INTO link_click (link_id, workspace_id, clicks, bot_clicks, last_accessed_at)
		SELECT id, workspace_id, 7, 2, now() FROM link`)
	require.NoError(t, err)
	before, err := s.Links.Find(t.Context(), actor, "", "come-back")
	require.NoError(t, err)
	require.EqualValues(t, 7, before.Clicks)

	_, _, err = s.Links.Restore(t.Context(), actor, "", "come-back")
	require.Equal(t, waypost.EConflict, waypost.CodeOf(err), "%v", err)
	gone, err := s.Links.Remove(t.Context(), actor, "", "come-back")
	require.NoError(t, err)
	tags := func() []api.TagCount {
		all, _, err := s.Links.Tags(t.Context(), actor, "", "", 10)
		require.NoError(t, err)
		return all
	}
	require.Empty(t, tags())

	_, _, err = s.Links.Restore(t.Context(), controlplane.Actor{Workspace: 7}, "", "come-back")
	require.Equal(t, waypost.ENotFound, waypost.CodeOf(err), "a link of another workspace")
	restored, at, err := s.Links.Restore(t.Context(), actor, "", "come-back")
	require.NoError(t, err)
	require.Greater(t, at.Seq, gone.Seq)
	require.Equal(t, at.Revision(), restored.Revision, "edges get it as a change like any other")
	got, err := s.Links.Find(t.Context(), actor, "", "come-back")
	require.NoError(t, err)
	require.Equal(t, restored, got)
	before.UpdatedAt, before.Revision, before.Stamp = got.UpdatedAt, got.Revision, got.Stamp
	require.Equal(t, before, got)
	require.Len(t, tags(), 2)
	res, err := s.Links.Resolve(t.Context(), "", visit("come-back"), &rules.Request{})
	require.NoError(t, err)
	require.Equal(t, 302, res.Status)
	_, _, err = s.Links.Restore(t.Context(), actor, "", "come-back")
	require.Equal(t, waypost.EConflict, waypost.CodeOf(err))
}

func TestLinks_RestoreKeepsTheRules(t *testing.T) {
	for name, c := range map[string]struct {
		change string // of the tombstone
		want   waypost.ErrorCode
		says   string
	}{
		"the last day":                      {`deleted_at = now() - interval '29 days'`, "", ""},
		"too late":                          {`deleted_at = now() - interval '31 days'`, waypost.EGone, "more than 30 days ago"},
		"expired":                           {`expires_at = now() - interval '1 second'`, waypost.EGone, "has expired"},
		"a target that is not allowed here": {`original_url = 'https://go.example.com/x'`, waypost.EInvalid, "circle"},
		"a rule with such a target": {
			`rules = '{"rules": [{"to": "https://go.example.com/x"}]}', programme = '\x0000000000000000'`, waypost.EInvalid, "rules[0].to",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			l, _, err := s.Links.Create(t.Context(), actor, wish())
			require.NoError(t, err)
			_, err = s.Links.Remove(t.Context(), actor, "", string(l.Code))
			require.NoError(t, err)
			_, err = s.hand.Exec(t.Context(), `UPDATE link SET `+c.change)
			require.NoError(t, err)
			_, _, err = s.Links.Restore(t.Context(), actor, "", string(l.Code))
			require.Equal(t, c.want, waypost.CodeOf(err), "%v", err)
			if c.want != "" {
				require.ErrorContains(t, err, c.says)
			}
		})
	}
	s := start(t)
	_, _, err := s.Links.Restore(t.Context(), actor, "", "never-was")
	require.Equal(t, waypost.ENotFound, waypost.CodeOf(err))
}

func TestLinks_CreateNamesWhyACodeOfADeletedLinkIsRefused(t *testing.T) {
	s := start(t)
	for _, n := range []controlplane.NewLink{wish(custom("deleted")), wish(custom("live-one")), wish(custom("long-ago"))} {
		_, _, err := s.Links.Create(t.Context(), actor, n)
		require.NoError(t, err)
	}
	for _, code := range []string{"deleted", "long-ago"} {
		_, err := s.Links.Remove(t.Context(), actor, "", code)
		require.NoError(t, err)
	}
	_, err := s.hand.Exec(t.Context(), `UPDATE link SET deleted_at = now() - interval '31 days' WHERE code = 'long-ago'`)
	require.NoError(t, err)
	_, err = s.hand.Exec(t.Context(), `INSERT INTO retired_code (domain_id, code) VALUES (1, 'purged')`)
	require.NoError(t, err)
	for code, says := range map[string]string{
		"deleted": "restore that link", "long-ago": "never given out again", "purged": "never given out again", "live-one": "is taken",
	} {
		_, _, err := s.Links.Create(t.Context(), actor, wish(custom(code)))
		require.Equal(t, waypost.EConflict, waypost.CodeOf(err))
		require.ErrorContains(t, err, says)
		outcomes, _, err := s.Links.CreateBulk(t.Context(), actor, []controlplane.NewLink{
			{OriginalURL: "https://example.com/" + code, Dedupe: new(true)}, wish(custom(code)), // which is written in another way
		})
		require.NoError(t, err)
		require.NoError(t, outcomes[0].Err)
		require.ErrorContains(t, outcomes[1].Err, says)
	}
	_, err = s.hand.Exec(t.Context(), `INSERT INTO workspace (id, name, slug) VALUES (7, 'Other', 'other')`)
	require.NoError(t, err)
	_, _, err = s.Links.Create(t.Context(), controlplane.Actor{Workspace: 7}, wish(custom("deleted")))
	require.ErrorContains(t, err, "is taken", "nothing of another workspace's link is told")
}
