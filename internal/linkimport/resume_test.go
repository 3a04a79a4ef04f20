package linkimport_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"waypost/client"
	"waypost/internal/linkimport"
)

var (
	errLost = errors.New("unexpected EOF")
	source  = linkimport.Source{SHA256: strings.Repeat("0123456789abcdef", 4), Size: 1, API: "http://api"}
)

// file returns a file of n rows, of which every hundredth is refused, and every
// thousandth cannot be sent.
func file(rows int) string {
	var b strings.Builder
	b.WriteString("original_url,title\n")
	for i := range rows {
		switch {
		case i%1000 == 999:
			b.WriteString("one field\n")
		case i%100 == 99:
			b.WriteString("ftp://example.com,x\n")
		default:
			_, _ = fmt.Fprintf(&b, "https://example.com/%d,x\n", i)
		}
	}
	return b.String()
}

// requireWhole demands that all rows of a file are there once, and accounted for.
func requireWhole(t require.TestingT, a *api, report linkimport.Report, rows int) {
	for _, act := range a.late { // whose requests have given up
		act()
	}
	refused := rows / 100
	require.Equal(t, rows, report.Rows)
	require.Equal(t, rows-refused, report.Created)
	require.Len(t, report.Refused, refused)
	require.Empty(t, report.InDoubt)
	for i := 1; i < refused; i++ {
		require.Less(t, report.Refused[i-1].Line, report.Refused[i].Line)
	}
	seen := make(map[string]bool)
	for _, l := range a.links {
		require.False(t, seen[l.url], "%s exists twice", l.url)
		seen[l.url] = true
	}
	require.Len(t, seen, rows-refused)
}

func open(t require.TestingT, path string, resume bool) *linkimport.Journal {
	j, err := linkimport.OpenJournal(path, source, resume)
	require.NoError(t, err)
	return j
}

func TestALostAnswerIsSettledInTheSameRun(t *testing.T) {
	for _, lost := range []error{errLost, &client.Problem{Status: 503}, &client.Problem{Status: http.StatusBadGateway}} {
		for name, committed := range map[string]int{"before the commit": 0, "after the commit": 1000} {
			t.Run(fmt.Sprintf("%v %s", lost, name), func(t *testing.T) {
				a, calls := &api{}, 0
				a.create = func(_ []client.NewLink, commit func(int)) error {
					if calls++; calls == 2 {
						commit(committed)
						return lost
					}
					return nil
				}
				report, err := run(t, a, file(3000))
				require.NoError(t, err)
				requireWhole(t, a, report, 3000)
			})
		}
	}
}

func TestARequestThatTakesEffectLateIsWaitedFor(t *testing.T) {
	a, calls := &api{}, 0
	a.create = func(_ []client.NewLink, commit func(int)) error {
		if calls++; calls == 1 {
			a.late = append(a.late, func() { commit(1000) })
			return errLost
		}
		return nil
	}
	report, err := run(t, a, file(2000))
	require.NoError(t, err)
	requireWhole(t, a, report, 2000)
}

func TestSettlingLooksNoFurtherBackThanItHasTo(t *testing.T) {
	a, calls := &api{}, 0
	for i := range 50_000 {
		a.links = append(a.links, made{fmt.Sprint(i), "someone", began.Add(-time.Hour)})
	}
	a.create = func([]client.NewLink, func(int)) error {
		if calls++; calls == 1 {
			return errLost
		}
		return nil
	}
	report, err := run(t, a, "original_url\nhttps://example.com\n")
	require.NoError(t, err)
	require.Equal(t, 1, report.Created)
	require.Equal(t, 1, a.listings)
}

func TestAnImportOfTheSameFileAMomentAgoIsNotTakenForThisOne(t *testing.T) {
	a, path := &api{}, filepath.Join(t.TempDir(), "progress")
	for range 2 {
		calls := 0
		a.create = func([]client.NewLink, func(int)) error {
			if calls++; calls == 1 {
				return errLost
			}
			return nil
		}
		j := open(t, path, false)
		told := ""
		im := linkimport.Import{API: a, Journal: j, Wait: a.wait, Settling: func(lines string, after time.Duration) {
			told += lines + " in " + after.String()
		}}
		report, err := im.Run(t.Context(), strings.NewReader("original_url\nhttps://example.com\n"))
		require.NoError(t, err)
		require.Equal(t, 1, report.Created)
		require.Equal(t, "2 to 2 in 10s", told, "why nothing happens for a while")
		require.NoError(t, j.Remove())
	}
	require.Len(t, a.links, 2)
	require.Regexp(t, `^import:0123456789abcdef-[0-9a-f]{8}:2$`, a.links[1].by)
	require.NotEqual(t, a.links[0].by, a.links[1].by)
}

func TestWhatWasFoundIsCountedOverAllRuns(t *testing.T) {
	a, path := &api{}, filepath.Join(t.TempDir(), "progress")
	text := "original_url\n" + strings.Repeat("https://twin.example/\nhttps://example.com/\n", 1000)
	a.failures = []error{nil, &client.Problem{Status: http.StatusForbidden}}
	of := source
	of.Dedupe = true
	journal, err := linkimport.OpenJournal(path, of, false)
	require.NoError(t, err)
	im := linkimport.Import{API: a, Wait: a.wait, Dedupe: true, Journal: journal}
	_, err = im.Run(t.Context(), strings.NewReader(text))
	require.Error(t, err)
	require.NoError(t, im.Journal.Close())
	_, err = linkimport.OpenJournal(path, source, true)
	require.ErrorContains(t, err, "begun with --dedupe")
	im.Journal, err = linkimport.OpenJournal(path, of, true)
	require.NoError(t, err)
	report, err := im.Run(t.Context(), strings.NewReader(text))
	require.NoError(t, err)
	require.NoError(t, im.Journal.Remove())
	require.Equal(t, []int{2000, 1000, 1000}, []int{report.Rows, report.Created, report.Found})
}

func TestAnAPIThatKeepsFailingStopsTheImportWithNothingInDoubt(t *testing.T) {
	a := &api{create: func(_ []client.NewLink, commit func(int)) error { return &client.Problem{Status: 503, Detail: "busy"} }}
	report, err := run(t, a, file(10))
	require.ErrorContains(t, err, "nothing was created of lines 2 to 11: busy (503)")
	require.Empty(t, report.InDoubt)

	a = &api{}
	report, err = run(t, a, "original_url\nbusy\n")
	require.ErrorContains(t, err, "nothing was created of lines 2 to 2: try later (503)")
	require.Empty(t, report.InDoubt)
	require.Empty(t, report.Refused)
}

func TestAnAPIThatDoesNotComeBackLeavesRowsInDoubtForALaterRun(t *testing.T) {
	a, path := &api{}, filepath.Join(t.TempDir(), "progress")
	away := false
	a.listErr = func() error {
		if away {
			return &client.Problem{Status: 503, Detail: "away"}
		}
		return nil
	}
	a.create = func(ns []client.NewLink, commit func(int)) error {
		if len(a.batches) == 1 {
			commit(len(ns))
			away = true
			return errLost
		}
		return nil
	}
	j := open(t, path, false)
	im := linkimport.Import{API: a, Journal: j, Wait: a.wait}
	report, err := im.Run(t.Context(), strings.NewReader(file(3000)))
	require.ErrorIs(t, err, errLost)
	require.ErrorContains(t, err, "it is unknown which of lines 1002 to 2000 were created")
	require.Len(t, report.InDoubt, 999)
	require.NoError(t, j.Close())

	away, a.create = false, nil
	j = open(t, path, true)
	im.Journal = j
	report, err = im.Run(t.Context(), strings.NewReader(file(3000)))
	require.NoError(t, err)
	requireWhole(t, a, report, 3000)
	require.NoError(t, j.Remove())
	require.NoFileExists(t, path)
}

// A run is ended by its context within the API's call, so that it writes nothing
// more, and the end of what it wrote before may be lost, as by a kill in a write.
func TestHoweverOftenAnImportIsKilledNothingIsCreatedTwice(t *testing.T) {
	const rows = 4100
	text, dir := file(rows), t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		a, path := &api{}, filepath.Join(dir, "progress")
		parallel := rapid.IntRange(1, 4).Draw(t, "requests at once")
		for life := 0; ; life++ {
			resume := life > 0
			j, err := linkimport.OpenJournal(path, source, resume)
			require.NoError(t, err)
			ctx, kill := context.WithCancel(context.Background())
			a.create = func(ns []client.NewLink, commit func(int)) error {
				fate := "answered"
				if life < 4 {
					fate = rapid.SampledFrom([]string{
						"answered", "lost before", "lost after", "late", "killed before", "killed after", "killed, late",
					}).Draw(t, "fate")
				}
				switch fate {
				case "answered":
					return nil
				case "lost after", "killed after":
					commit(len(ns))
				case "late", "killed, late":
					a.late = append(a.late, func() { commit(len(ns)) })
				}
				if strings.HasPrefix(fate, "killed") {
					kill()
				}
				return errLost
			}
			im := linkimport.Import{API: a, Journal: j, Wait: a.wait, InFlight: parallel}
			report, err := im.Run(ctx, strings.NewReader(text))
			kill()
			if err == nil {
				require.NoError(t, j.Remove())
				requireWhole(t, a, report, rows)
				return
			}
			require.NoError(t, j.Close())
			a.time += time.Duration(rapid.IntRange(0, 7200).Draw(t, "pause")) * time.Second
			tear(t, path)
		}
	})
}

// tear cuts the note about the last batch that is done, if that is what comes last.
func tear(t *rapid.T, path string) {
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	last := bytes.LastIndexByte(bytes.TrimSuffix(text, []byte("\n")), '\n') + 1
	if bytes.HasPrefix(text[last:], []byte(`{"done"`)) {
		text = text[:rapid.IntRange(last, len(text)).Draw(t, "cut")]
		require.NoError(t, os.WriteFile(path, text, 0o600))
	}
}

func TestAJournalIsOnlyForItsOwnImport(t *testing.T) {
	path := filepath.Join(t.TempDir(), "links.csv.progress")
	_, err := linkimport.OpenJournal(path, source, true)
	require.ErrorContains(t, err, "leave out --resume")

	j := open(t, path, false)
	_, err = linkimport.OpenJournal(path, source, true)
	require.ErrorContains(t, err, "another process is importing this file")
	require.NoError(t, j.Close())
	require.NoFileExists(t, path, "nothing was sent")

	a := &api{create: func([]client.NewLink, func(int)) error { return &client.Problem{Status: 403} }}
	j = open(t, path, false)
	_, err = (&linkimport.Import{API: a, Journal: j, Wait: a.wait}).Run(t.Context(), strings.NewReader(file(1)))
	require.Error(t, err)
	require.NoError(t, j.Close())

	_, err = linkimport.OpenJournal(path, source, false)
	require.ErrorContains(t, err, "continue it with --resume, or remove that file")
	other := source
	other.SHA256 = strings.Repeat("f", 64)
	_, err = linkimport.OpenJournal(path, other, true)
	require.ErrorContains(t, err, "the file has changed since its import began")
	other = source
	other.Domain = "go.example.com"
	_, err = linkimport.OpenJournal(path, other, true)
	require.ErrorContains(t, err, `begun with --domain "", not "go.example.com"`)
	other = source
	other.API = "http://elsewhere"
	_, err = linkimport.OpenJournal(path, other, true)
	require.ErrorContains(t, err, "begun with the API http://api, not http://elsewhere")
	require.NoError(t, open(t, path, true).Close(), "none of them has harmed it")
}

func TestAFileThatIsNoJournalIsLeftAlone(t *testing.T) {
	for _, text := range []string{"notes", "notes\n", `{"source":null}` + "\n", "\x00\x00\n", `{"source":{"sha256":"0123456789abcdef"}}` + "\nnotes\n"} {
		path := filepath.Join(t.TempDir(), "notes")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := linkimport.OpenJournal(path, source, false)
		require.ErrorContains(t, err, "no progress file")
		after, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, text, string(after))
	}
}
