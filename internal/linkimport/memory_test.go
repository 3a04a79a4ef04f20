package linkimport_test

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/client"
	"waypost/internal/linkimport"
)

// refusing is an API that takes no link.
type refusing struct{}

func (refusing) CreateBulk(_ context.Context, ns []client.NewLink) ([]client.Outcome, error) {
	outcomes := make([]client.Outcome, len(ns))
	for i := range outcomes {
		outcomes[i] = client.Outcome{Status: 422, Error: &client.ProblemBody{Detail: "no such scheme"}}
	}
	return outcomes, nil
}

func (refusing) List(context.Context, int, string) (client.Page, error) { return client.Page{}, nil }

// repeated reads a header, and then a line as often as it is asked for.
type repeated struct {
	left int
	rest string
}

func (r *repeated) Read(p []byte) (int, error) {
	if r.rest == "" {
		if r.left == 0 {
			return 0, io.EOF
		}
		r.left--
		r.rest = "ftp://example.com/with/a/path/of/some/length,title\n"
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func TestRefusedRowsAreToldAsTheyComeAndNotKept(t *testing.T) {
	const rows = 40_000
	path := filepath.Join(t.TempDir(), "progress")
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, told, last, most := heap(), 0, 0, uint64(0)
	stop := errors.New("the disk is full")
	im := linkimport.Import{API: refusing{}, Journal: open(t, path, false), InFlight: 4}
	im.Refused = func(r linkimport.Row) error {
		if told++; told%10_000 == 0 {
			most = max(most, heap())
		}
		require.Less(t, last, r.Line, "in the order of the file")
		if last = r.Line; told == rows-500 {
			return stop
		}
		return nil
	}
	report, err := im.Run(t.Context(), &repeated{left: rows, rest: "original_url,title\n"})
	require.ErrorIs(t, err, stop, "what cannot be told stops the import")
	require.Empty(t, report.Refused)
	require.Less(t, most, before+6<<20, "less than the rows would take")
	require.NoError(t, im.Journal.Close())

	// A run that continues reports them again, from the journal.
	before, told, last, most = heap(), 0, 0, 0
	im.Journal = open(t, path, true)
	im.Refused = func(r linkimport.Row) error {
		if told++; told%10_000 == 0 {
			most = max(most, heap())
		}
		last = r.Line
		return nil
	}
	report, err = im.Run(t.Context(), &repeated{left: rows, rest: "original_url,title\n"})
	require.NoError(t, err)
	require.Equal(t, [3]int{rows, rows, rows + 1}, [3]int{report.NotCreated, told, last})
	require.Less(t, most, before+6<<20)
	require.NoError(t, im.Journal.Remove())
}

func TestARowSaysWhetherItsLinkIsActiveAndWhatIsKeptWithIt(t *testing.T) {
	a := &api{}
	report, err := run(t, a, "original_url,active,metadata\n"+
		"https://example.com/1,true,\n"+
		"https://example.com/2,false,\"{\"\"k\"\": [1]}\"\n"+
		"https://example.com/3,,null\n"+
		"https://example.com/4,perhaps,\n"+
		"https://example.com/5,,[1]\n"+
		"https://example.com/6,,{\n")
	require.NoError(t, err)
	require.Equal(t, 3, report.Created)
	require.Equal(t, 3, report.NotCreated)
	require.Contains(t, report.Refused[0].Reason, "active")
	require.Contains(t, report.Refused[1].Reason, "metadata")
	require.Contains(t, report.Refused[2].Reason, "metadata")
	sent := a.batches[0]
	require.Nil(t, sent[0].Active)
	require.False(t, *sent[1].Active)
	require.JSONEq(t, `{"k": [1]}`, string(sent[1].Metadata))
	require.Nil(t, sent[2].Active)
	require.Empty(t, sent[2].Metadata)

	a = &api{}
	report, err = runLines(t, a, `{"original_url": "https://example.com/1", "active": false}`+"\n"+`{"original_url": "https://example.com/2", "active": true}`)
	require.NoError(t, err)
	require.Equal(t, 2, report.Created)
	require.False(t, *a.batches[0][0].Active)
	require.Nil(t, a.batches[0][1].Active)
}

func TestAnImportGoesOnInItsOwnWorkspaceOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "progress")
	of := source
	of.Workspace = "blue"
	j, err := linkimport.OpenJournal(path, of, false)
	require.NoError(t, err)
	im := linkimport.Import{API: refusing{}, Journal: j}
	_, err = im.Run(t.Context(), strings.NewReader("original_url\nhttps://example.com\n"))
	require.NoError(t, err)
	require.NoError(t, j.Close())
	of.Workspace = "green"
	_, err = linkimport.OpenJournal(path, of, true)
	require.ErrorContains(t, err, `the workspace "blue", not "green"`)
	of.Workspace = "blue"
	j, err = linkimport.OpenJournal(path, of, true)
	require.NoError(t, err)
	require.NoError(t, j.Remove())
}
