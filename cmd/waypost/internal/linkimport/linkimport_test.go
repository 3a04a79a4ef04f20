package linkimport_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/cmd/waypost/internal/client"
	"waypost/cmd/waypost/internal/linkimport"
)

// api plays the control plane: it keeps what it was sent and fails as it is told.
type api struct {
	batches  [][]client.NewLink
	failures []error // of the next calls; nil passes
}

func (a *api) CreateBulk(_ context.Context, ns []client.NewLink) ([]client.Outcome, error) {
	if len(a.failures) > 0 {
		err := a.failures[0]
		a.failures = a.failures[1:]
		if err != nil {
			return nil, err
		}
	}
	a.batches = append(a.batches, ns)
	outcomes := make([]client.Outcome, len(ns))
	for i, n := range ns {
		switch {
		case strings.HasPrefix(n.OriginalURL, "https:"):
			outcomes[i] = client.Outcome{Status: 201, Link: &client.Link{}}
		case n.OriginalURL == "busy":
			outcomes[i] = client.Outcome{Status: 503, Error: &client.Problem{Detail: "try later"}}
		default:
			outcomes[i] = client.Outcome{Status: 422, Error: &client.Problem{Detail: "no such scheme"}}
		}
	}
	return outcomes, nil
}

func run(t *testing.T, a *api, text string) (linkimport.Report, error) {
	t.Helper()
	im := linkimport.Import{API: a, Wait: func(context.Context, time.Duration) error { return nil }}
	return im.Run(t.Context(), strings.NewReader(text))
}

func TestEveryRowIsAccountedFor(t *testing.T) {
	a := &api{}
	report, err := run(t, a, "\uFEFFtitle,original_url,custom_code\r\n"+
		"One,https://example.com/1,one-code\r\n"+
		"\"Two, lines\nof title\",https://example.com/2,\r\n"+
		"Bad,ftp://example.com,\r\n"+
		"too,few\r\n"+
		"a \"bare quote,https://example.com/3,\r\n"+
		"Busy,busy,\r\n"+
		"Last,https://example.com/4,")
	require.NoError(t, err)
	require.Equal(t, 7, report.Rows)
	require.Equal(t, 3, report.Created)
	require.Equal(t, []linkimport.Row{
		{Line: 5, OriginalURL: "ftp://example.com", Status: 422, Reason: "no such scheme"},
		{Line: 6, Reason: "2 fields instead of 3"},
		{Line: 7, Reason: `no valid CSV: bare " in non-quoted-field`},
	}, report.Refused)
	require.Equal(t, []linkimport.Row{{Line: 8, OriginalURL: "busy", Status: 503, Reason: "try later"}}, report.InDoubt)
	require.Equal(t, client.NewLink{OriginalURL: "https://example.com/1", Title: "One", CustomCode: "one-code"}, a.batches[0][0])
	require.Equal(t, "Two, lines\nof title", a.batches[0][1].Title)
}

func TestRowsAreSentAThousandAtATimeOrFewerWhenTheyAreLong(t *testing.T) {
	a := &api{}
	report, err := run(t, a, "original_url,title\n"+strings.Repeat("https://example.com,t\n", 2500))
	require.NoError(t, err)
	require.Equal(t, 2500, report.Created)
	require.Equal(t, []int{1000, 1000, 500}, sizes(a))

	a = &api{}
	long := "https://example.com/" + strings.Repeat("x", 8000)
	report, err = run(t, a, "original_url\n"+strings.Repeat(long+"\n", 1000))
	require.NoError(t, err)
	require.Equal(t, 1000, report.Created)
	require.Len(t, a.batches, 2)
}

func TestAWrongHeaderSendsNothing(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "the file is empty",
		"url,title\nhttps://a.example,A\n": `a column "url"`,
		"title\nA\n":                       "lacks original_url",
		"original_url,original_url\na,b\n": `a column "original_url"`,
	} {
		a := &api{}
		_, err := run(t, a, text)
		require.ErrorContains(t, err, want)
		require.Empty(t, a.batches)
	}
}

func TestARowWithoutAnEndIsNotReadIntoMemory(t *testing.T) {
	a := &api{}
	report, err := run(t, a, "original_url\nhttps://example.com/1\n\""+strings.Repeat("https://example.com\n", 100_000))
	require.ErrorContains(t, err, "is a quote never closed?")
	require.Equal(t, 1, report.Created, "what came before is not lost")
}

func TestOnlyRequestsThatSurelyHadNoEffectAreRepeated(t *testing.T) {
	refused := fmt.Errorf("no API: %w", &net.OpError{Op: "dial", Err: errors.New("connection refused")})
	limited := &client.Problem{Status: http.StatusTooManyRequests, RetryAfter: time.Second}
	a := &api{failures: []error{refused, limited, refused}}
	report, err := run(t, a, "original_url\nhttps://example.com\n")
	require.NoError(t, err)
	require.Equal(t, 1, report.Created)
	require.Len(t, a.batches, 1)

	for _, unknown := range []error{
		errors.New("unexpected EOF"),
		&net.OpError{Op: "read", Err: errors.New("connection reset by peer")},
		&client.Problem{Status: http.StatusServiceUnavailable, RetryAfter: time.Second},
		&client.Problem{Status: http.StatusBadGateway},
	} {
		a = &api{failures: []error{nil, unknown}}
		report, err = run(t, a, "original_url\n"+strings.Repeat("https://example.com\n", 2001))
		require.ErrorIs(t, err, unknown)
		require.ErrorContains(t, err, "nobody knows what was created of lines 1002 to 2001")
		require.Equal(t, 1000, report.Created)
		require.Len(t, report.InDoubt, 1000)
		require.Equal(t, 1002, report.InDoubt[0].Line)
		require.Len(t, a.batches, 1, "it is not sent again, and nothing after it")
	}
}

func TestARequestThatIsRefusedAsAWholeStopsTheImport(t *testing.T) {
	a := &api{failures: []error{&client.Problem{Status: http.StatusUnauthorized, Detail: "a key is required"}}}
	report, err := run(t, a, "original_url\nhttps://example.com\n")
	require.ErrorContains(t, err, "nothing was created of lines 2 to 2: a key is required")
	require.Empty(t, report.InDoubt)
	require.Len(t, report.Refused, 1)
}

func TestAnAPIThatStaysAwayIsGivenUp(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	a := &api{failures: make([]error, 100)}
	for i := range a.failures {
		a.failures[i] = refused
	}
	var waits []time.Duration
	im := linkimport.Import{API: a, Attempts: 4, Wait: func(_ context.Context, d time.Duration) error {
		waits = append(waits, d)
		return nil
	}}
	_, err := im.Run(t.Context(), strings.NewReader("original_url\nhttps://example.com\n"))
	require.ErrorIs(t, err, refused)
	require.Equal(t, []time.Duration{250 * time.Millisecond, 500 * time.Millisecond, time.Second}, waits)
}

func sizes(a *api) []int {
	var n []int
	for _, b := range a.batches {
		n = append(n, len(b))
	}
	return n
}
