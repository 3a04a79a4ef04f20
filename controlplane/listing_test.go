package controlplane_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
)

func TestLinks_CursorIsForTheListThatGaveItOnly(t *testing.T) {
	s := start(t)
	var wishes []controlplane.NewLink
	for i := range 5 {
		wishes = append(wishes, wish(custom(fmt.Sprintf("code-%d", i)), func(n *controlplane.NewLink) { n.Tags = []string{"a", "b"} }))
	}
	_, _, err := s.Links.CreateBulk(t.Context(), actor, wishes)
	require.NoError(t, err)
	first := controlplane.ListRequest{Limit: 2, LinkFilter: controlplane.LinkFilter{Tags: []string{"a", "b"}}}
	page, err := s.Links.List(t.Context(), actor, first)
	require.NoError(t, err)
	require.Len(t, page.Links, 2)
	yes := true
	for name, c := range map[string]struct {
		change func(*controlplane.ListRequest)
		code   waypost.ErrorCode
	}{
		"the same":           {func(*controlplane.ListRequest) {}, ""},
		"another limit":      {func(r *controlplane.ListRequest) { r.Limit = 5 }, ""},
		"tags in any order":  {func(r *controlplane.ListRequest) { r.Tags = []string{"b", "a"} }, ""},
		"another tag":        {func(r *controlplane.ListRequest) { r.Tags = []string{"a"} }, waypost.EInvalid},
		"another order":      {func(r *controlplane.ListRequest) { r.Order = controlplane.OldestFirst }, waypost.EInvalid},
		"by clicks":          {func(r *controlplane.ListRequest) { r.Order = controlplane.MostClicked }, waypost.EInvalid},
		"words":              {func(r *controlplane.ListRequest) { r.Words = "x" }, waypost.EInvalid},
		"another domain":     {func(r *controlplane.ListRequest) { r.Domain = "x" }, waypost.EInvalid},
		"active ones":        {func(r *controlplane.ListRequest) { r.Active = &yes }, waypost.EInvalid},
		"another time":       {func(r *controlplane.ListRequest) { r.CreatedAfter = time.Unix(1, 0) }, waypost.EInvalid},
		"an order of nobody": {func(r *controlplane.ListRequest) { r.Order = "title" }, waypost.EInvalid},
		"many tags":          {func(r *controlplane.ListRequest) { r.Tags = make([]string, 9) }, waypost.EInvalid},
		"a long tag":         {func(r *controlplane.ListRequest) { r.Tags = []string{strings.Repeat("x", 65)} }, waypost.EInvalid},
		"NUL":                {func(r *controlplane.ListRequest) { r.Words = "\x00" }, waypost.EInvalid},
		"a cursor cut":       {func(r *controlplane.ListRequest) { r.Cursor = r.Cursor[1:] }, waypost.EMalformed},
	} {
		r := first
		r.Cursor = page.Next
		c.change(&r)
		_, err := s.Links.List(t.Context(), actor, r)
		require.Equal(t, c.code, waypost.CodeOf(err), "%s: %v", name, err)
	}
}

func TestLinks_TagsAreTrimmedUnitedAndNotEmpty(t *testing.T) {
	s := start(t)
	l, _, err := s.Links.Create(t.Context(), actor, wish(func(n *controlplane.NewLink) {
		n.Tags = []string{" b", "a", "b\t", "a", "\u200bZürich\ufeff", "Zu\u0308rich", "🏴\U000e0067\U000e0062\U000e007f"}
	}))
	require.NoError(t, err)
	require.Equal(t, []string{"b", "a", "Zürich", "🏴\U000e0067\U000e0062\U000e007f"}, l.Tags)
	for _, tag := range []string{
		"", "   ", "\u200b", "\u3000\u2060", "\u3164", "\u202e\u2066", "\u2800\u034f", "\ufe0f", " \U000e0041\U000e007f",
	} {
		_, _, err := s.Links.Create(t.Context(), actor, wish(func(n *controlplane.NewLink) { n.Tags = []string{"a", tag} }))
		require.Equal(t, waypost.EInvalid, waypost.CodeOf(err), "%q", tag)
		require.ErrorContains(t, err, "a tag must not be empty")
	}
}

func TestLinks_TextsAreFoundInEveryUnicodeForm(t *testing.T) {
	s := start(t)
	const composed, decomposed = "Zürich", "Zu\u0308rich"
	for i, text := range []string{composed, decomposed} {
		l, _, err := s.Links.Create(t.Context(), actor, wish(custom(fmt.Sprintf("code-%d", i)), func(n *controlplane.NewLink) {
			n.Title, n.Tags = text+" am See", []string{text}
		}))
		require.NoError(t, err)
		require.Equal(t, text+" am See", l.Title, "a title is shown as it was typed")
	}
	for _, text := range []string{composed, decomposed} {
		for name, f := range map[string]controlplane.LinkFilter{
			"tag": {Tags: []string{text}}, "words": {Words: text}, "typed": {Typed: text}, "a beginning": {Typed: text[:len(text)-2]},
		} {
			page, err := s.Links.List(t.Context(), actor, controlplane.ListRequest{Limit: 5, LinkFilter: f})
			require.NoError(t, err)
			require.Len(t, page.Links, 2, "%s %+q", name, text)
		}
		tags, _, err := s.Links.Tags(t.Context(), actor, text, "", 5)
		require.NoError(t, err)
		require.Equal(t, []api.TagCount{{Tag: composed, Links: 2}}, tags)
	}
}

func TestLinks_FindWordsInScriptsWithoutSpaces(t *testing.T) {
	s := start(t)
	for i, title := range []string{
		"秋の京都旅行ガイド", "东京Tower观光", "คู่มือท่องเที่ยวไทย",
		"한국어 안내서", "ꦏꦫꦗ", "本",
		"\U00020BB7野家の牛丼", "ｶﾀｶﾅ表記",
		"ប្រាសាទអង្គរវត្ត", "plain text",
		"新商品ﾊﾟｿｺﾝとｅコマース", "ヴァイオリン教室", "대박ㅋㅋ 할인", "㈱テスト①",
	} {
		titled := func(n *controlplane.NewLink) { n.Title = title }
		_, _, err := s.Links.Create(t.Context(), actor, wish(custom(fmt.Sprintf("code-%d", i)), titled))
		require.NoError(t, err)
	}
	found := func(f controlplane.LinkFilter) (numbers string) {
		page, err := s.Links.List(t.Context(), actor, controlplane.ListRequest{Limit: 20, LinkFilter: f})
		require.NoError(t, err)
		for _, l := range page.Links {
			numbers = string(l.Code[len("code-"):]) + numbers
		}
		return numbers
	}
	for text, want := range map[string]string{
		"京都": "0", "旅行": "0", "ガイド": "0", "秋の京都": "0", "秋の京都旅行ガイド": "0", "京旅": "", "京都 ガイド": "0",
		"东京": "1", "东京Tower": "1",
		"tower观光":    "1",
		"ท่องเที่ยว": "2", "ไทย": "2", "한국": "3",
		"한국어": "3", "안내": "3", "본": "", "本": "5", "\U00020BB7野": "6", "野家": "6", "ｶﾅ": "7", "カナ": "7", "អង្គរ": "8", "plain": "9", "ꦫꦗ": "4",
		"パソコン": "10", "ﾊﾟｿｺﾝ": "10", "eコマース": "10", "ｅｺﾏｰｽ": "10", "ｳﾞｧｲｵﾘﾝ": "11", "대박": "12", "ㅋㅋ": "12", "(株)テスト": "13",
	} {
		require.Equal(t, want, found(controlplane.LinkFilter{Words: text}), "words %s", text)
		require.Equal(t, want, found(controlplane.LinkFilter{Typed: text}), "typed %s", text)
	}
	for text, want := range map[string]string{
		`"京都旅行"`: "0", `"旅行京都"`: "", "旅行 -京都旅行": "", "旅行 -大阪城": "0", "京都旅行 or 观光": "01", `tower "观光"`: "1", "京": "",
	} {
		require.Equal(t, want, found(controlplane.LinkFilter{Words: text}), "words %s", text)
	}
	for text, want := range map[string]string{"京": "0", "京都 ガ": "0", "tow 观": "1", "秋": "0"} {
		require.Equal(t, want, found(controlplane.LinkFilter{Typed: text}), "typed %s", text)
	}
}

func TestLinks_ListByClicksEndsInLinksThatWereNeverFollowed(t *testing.T) {
	s := start(t)
	var wishes []controlplane.NewLink
	for i := range 6 {
		wishes = append(wishes, wish(custom(fmt.Sprintf("code-%d", i))))
	}
	_, _, err := s.Links.CreateBulk(t.Context(), actor, wishes)
	require.NoError(t, err)
	_, err = s.hand.Exec(t.Context(), `INSERT INTO link_click (link_id, workspace_id, clicks, last_accessed_at) SELECT id, 1, id % 4, now() FROM link WHERE id % 4 > 0`)
	require.NoError(t, err)
	for order, want := range map[controlplane.Order][]waypost.Code{
		controlplane.MostClicked:  {"code-2", "code-5", "code-1", "code-4", "code-0", "code-3"},
		controlplane.LeastClicked: {"code-3", "code-0", "code-4", "code-1", "code-5", "code-2"},
	} {
		for limit := 1; limit <= 7; limit++ {
			var got []waypost.Code
			r := controlplane.ListRequest{Order: order, Limit: limit}
			for more := true; more; more = r.Cursor != "" {
				page, err := s.Links.List(t.Context(), actor, r)
				require.NoError(t, err)
				require.LessOrEqual(t, len(page.Links), limit)
				for _, l := range page.Links {
					got = append(got, l.Code)
				}
				r.Cursor = page.Next
			}
			clicks := func(c waypost.Code) int { return (int(c[5]-'0') + 1) % 4 }
			require.Len(t, got, len(want))
			for i := range got {
				require.Equal(t, clicks(want[i]), clicks(got[i]), "%s by %d: %v", order, limit, got)
			}
			require.ElementsMatch(t, want, got)
		}
	}
}
