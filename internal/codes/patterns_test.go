package codes_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/internal/codes"
	"waypost/internal/patterns"
)

// domain is an index of some links, of which those behind a true value forward paths.
type domain struct {
	links   map[string]bool
	blocked string
	record  waypost.Record
}

func (d *domain) Policy(code []byte, _ bool) (waypost.BlockPolicy, error) {
	if string(code) == d.blocked {
		return waypost.BlockGone, nil
	}
	return 0, nil
}

func (d *domain) Record(code []byte) (*waypost.Record, error) {
	forwards, ok := d.links[string(code)]
	if !ok {
		return nil, nil //nolint:nilnil // there is no link
	}
	d.record = waypost.Record{Name: code}
	if forwards {
		d.record.Flags = waypost.ForwardPath
	}
	return &d.record, nil
}

func (d *domain) Patterns() (*patterns.Index, error) {
	var all []string
	for code := range d.links {
		all = append(all, code)
	}
	return patterns.New(all), nil
}

// TestWalk_OrdersLinksAndPatterns states the rule of docs/patterns.md: exact; without a
// slash and punctuation; and then the best of patterns and links that forward paths,
// which rank as their code with a star.
func TestWalk_OrdersLinksAndPatterns(t *testing.T) {
	d := &domain{links: map[string]bool{
		"docs/intro": false, "docs/*": false, "docs/{page}/intro": false, "docs/intro/{page}": false, "{section}/intro/x": false, "docs": false,
		"a": true, "a/b": true, "a/*": false, "a/b/{c}": false, "a/{b}/c": false, "a/b/c/d": false, "a/b/c/{d}/*": false,
		"*": false, "plain": false,
	}}
	var w codes.Walk
	find := func(path string) string {
		v := waypost.ParseVisit([]byte("/" + path))
		found, err := w.Find(&v, 0, d)
		require.NoError(t, err)
		switch {
		case found.Policy != 0:
			return "blocked " + string(v.Code)
		case found.Record == nil:
			return ""
		}
		return string(v.Code) + " " + string(found.Match)
	}
	for path, want := range map[string]string{
		"docs": "docs exact", "docs/": "docs trimmed", "docs/intro": "docs/intro exact", "docs/intro).": "docs/intro trimmed",
		"docs/intro/x": "docs/intro/{page} pattern", "docs/y/intro": "docs/{page}/intro pattern", "docs/y": "docs/* pattern",
		"other/intro/x": "{section}/intro/x pattern", "other": "* pattern", "plain/": "plain trimmed", "plain/x": "* pattern",
		"a": "a exact", "a/b": "a/b exact", "a/b/c": "a/b/{c} pattern", "a/b/c/d": "a/b/c/d exact", "a/b/c/d/e": "a/b/c/{d}/* pattern",
		"a/b/c/x": "a/b/c/{d}/* pattern", "a/b/x/y": "a/b forwarded", "a/x/c": "a/{b}/c pattern", "a/x/y": "a forwarded",
		"d%6fcs/y": "docs/* pattern", "x%20y": "* pattern", "//evil.example": "* pattern",
	} {
		require.Equal(t, want, find(path), path)
	}
	for _, c := range []struct{ blocked, path, want string }{
		{"docs/*", "docs/y", "blocked docs/*"},
		{"docs/*", "docs/y/intro", "docs/{page}/intro pattern"},
		{"docs/secret", "docs/secret/x/y", "blocked docs/secret"},
		{"docs/y", "docs/y", "blocked docs/y"},
		{"*", "other", "blocked *"},
	} {
		d.blocked = c.blocked
		require.Equal(t, c.want, find(c.path), "%s with a block of %s", c.path, c.blocked)
	}
}

func TestWalk_FindsPatternsInAnyCase(t *testing.T) {
	d := &domain{links: map[string]bool{"docs/*": false, "ärzte/{name}": false, "Typed/{x}": false}}
	const ignores, switching = waypost.IgnoresCase, waypost.CaseSwitching
	for _, c := range []struct {
		traits     waypost.DomainTraits
		path, want string
	}{
		{0, "DOCS/A", ""},
		{ignores, "DOCS/A", "docs/* A"},
		{ignores, "%C3%84RZTE/Ä%41", "ärzte/{name} Ä%41"},
		{ignores, "Typed/a", ""},
		{ignores | switching, "DOCS/A", "docs/* A"},
		{ignores | switching, "Typed/A", "Typed/{x} A"},
		{switching, "Typed/A", "Typed/{x} A"},
	} {
		var w codes.Walk
		v := waypost.ParseVisit([]byte("/" + c.path))
		found, err := w.Find(&v, c.traits, d)
		require.NoError(t, err)
		if c.want == "" {
			require.Nil(t, found.Record, c.path)
			continue
		}
		require.NotNil(t, found.Record, "%s %d", c.path, c.traits)
		require.Equal(t, c.want, string(found.Record.Name)+" "+string(v.Held[0].Value))
	}
}
