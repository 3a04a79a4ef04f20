package agents

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzScan_FindsWhatASearchFinds compares the automaton, which reads parts of a text side
// by side and passes over common ones, with a search for each mark.
func FuzzScan_FindsWhatASearchFinds(f *testing.F) {
	var all []pattern
	for i, s := range []string{
		"bot>~cu", "<chrome/", "^python", "uptime", "time", "me/t", "@&", "v#", "me", "a", "aab", "cab",
		"a (x", "gecko) c", "x) applew", "webkit/", "5.0 (me",
	} {
		m, err := parseMark(s)
		require.NoError(f, err)
		all = append(all, pattern{m, find{signs: 1 << i, system: uint8(i), browser: none, name: none}})
		f.Add([]byte(m.text + s + " " + m.text))
	}
	f.Add([]byte("Uptime/the CUBOT bot bots PYTHON HeadlessChrome/1 (Chrome/2; a@b c@1) v4"))
	for _, common := range commons {
		text, commonStart := string(common), string(commonStart)
		for _, around := range []string{"me", "me; x", "x", "a (x", ""} {
			f.Add([]byte(commonStart + around + text + "Chrome/1 bot"))
			f.Add([]byte(commonStart + around + text + "C"))
			f.Add([]byte(commonStart + text[:len(text)-1] + text + around))
			f.Add([]byte(around + commonStart + text + text))
		}
	}
	f.Add(commonStart)
	a, err := build(all)
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, text []byte) {
		text = text[:min(len(text), 512)]
		lowered := make([]byte, len(text))
		for i, c := range text {
			lowered[i] = lower[c]
		}
		want := nothing
		for i := range all {
			m := &all[i].mark
			for from := 0; ; from++ {
				at := bytes.Index(lowered[from:], []byte(m.text))
				if at < 0 {
					break
				}
				from += at
				if m.holds(text, from, from+len(m.text)) {
					want.merge(&all[i].find)
				}
			}
		}
		require.Equal(t, want, a.scan(text, 0))
	})
}
