package waypost_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"waypost"
)

func TestValidCode_HasUpToSixteenSegmentsOfSafeCharacters(t *testing.T) {
	for s, ok := range map[string]bool{
		"abcd": true, "AZ09_-": true, "a": true, "": false, "ab/cd": true, "ab.cd": true, "ab~": true, "ab%64": false, "ab//cd": false,
		"/ab": false, "..": false,
		"abcdé": true, "ab cd": false, "ab\x00cd": false, strings.Repeat("1", 128): true, strings.Repeat("1", 129): false,
	} {
		require.Equal(t, ok, waypost.ValidCode(s), "%q", s)
		require.Equal(t, ok, waypost.ValidCode([]byte(s)), "%q", s)
	}
}

func TestAPositionReadsBackAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := waypost.Position{
			Epoch: waypost.Epoch{Ordinal: rapid.Uint32().Draw(t, "ordinal")},
			Seq:   rapid.Uint64Max(1<<63-1).Draw(t, "seq"),
			Stamp: rapid.Uint64().Draw(t, "stamp"),
		}
		copy(p.Epoch.ID[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
		back, err := waypost.ParsePosition(p.String())
		if err != nil || back != p {
			t.Fatalf("%s read back as %v, %v", p, back, err)
		}
	})
}

func FuzzParsePosition(f *testing.F) {
	f.Add("1-000102030405060708090a0b0c0d0e0f-42-00000000000000ff")
	f.Add("--- -")
	f.Fuzz(func(t *testing.T, s string) {
		p, err := waypost.ParsePosition(s)
		if err != nil {
			require.True(t, p.IsZero())
			return
		}
		again, err := waypost.ParsePosition(p.String())
		require.NoError(t, err)
		require.Equal(t, p, again)
	})
}

func TestARevisionOfALaterEpochIsNewerWhateverItsSequence(t *testing.T) {
	require.True(t, waypost.Revision{Epoch: 2, Seq: 1}.Newer(waypost.Revision{Epoch: 1, Seq: 99}))
	require.True(t, waypost.Revision{Epoch: 1, Seq: 2}.Newer(waypost.Revision{Epoch: 1, Seq: 1}))
	require.False(t, waypost.Revision{Epoch: 1, Seq: 1}.Newer(waypost.Revision{Epoch: 1, Seq: 1}))
}

func TestARecordDecidesTheAnswerByItself(t *testing.T) {
	const now = 1_000_000
	link := func(change func(*waypost.Record)) *waypost.Record {
		r := &waypost.Record{Kind: waypost.KindLink, Status: 302, Payload: []byte("https://example.com/")}
		change(r)
		return r
	}
	for name, c := range map[string]struct {
		record *waypost.Record
		status int
		maxAge int64
	}{
		"a live link redirects":                         {link(func(*waypost.Record) {}), 302, 0},
		"a disabled link is gone":                       {link(func(r *waypost.Record) { r.State = waypost.Disabled }), 410, 0},
		"a tombstone is gone":                           {link(func(r *waypost.Record) { r.State = waypost.Deleted }), 410, 0},
		"a link is live until just before its expiry":   {link(func(r *waypost.Record) { r.ExpiresAt = now + 1 }), 302, 0},
		"a link is gone at the instant of its expiry":   {link(func(r *waypost.Record) { r.ExpiresAt = now }), 410, 0},
		"a permanent redirect may be kept for a day":    {link(func(r *waypost.Record) { r.Status = 301 }), 301, 86400},
		"a permanent redirect is not kept past expiry":  {link(func(r *waypost.Record) { r.Status = 308; r.ExpiresAt = now + 5500 }), 308, 5},
		"a temporary redirect that expires is not kept": {link(func(r *waypost.Record) { r.Status = 307; r.ExpiresAt = now + 5500 }), 307, 0},
		"a record of another kind is no link":           {&waypost.Record{Kind: waypost.KindDomain}, 404, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got := waypost.Resolve(c.record, now)
			require.Equal(t, c.status, got.Status)
			require.Equal(t, c.maxAge, got.MaxAge)
			require.Equal(t, c.status < 400, string(got.Location) == "https://example.com/")
		})
	}
}

func TestAHostIsComparedWithoutCasePortOrTrailingDot(t *testing.T) {
	for in, out := range map[string]string{
		"Go.Example.COM": "go.example.com", "go.example.com:8080": "go.example.com", "go.example.com.": "go.example.com",
		"[::1]:80": "[::1]", "[::1]": "[::1]", "127.0.0.1:80": "127.0.0.1", "": "", "go.example.com.:80": "go.example.com",
	} {
		require.Equal(t, out, waypost.HostName(in), in)
	}
}

func TestAnErrorShowsItsMessageAndKeepsItsCauseForTheLog(t *testing.T) {
	cause := errors.New("connection refused by 10.1.2.3")
	err := fmt.Errorf("create: %w", waypost.WrapError(waypost.EUnavailable, "the database is out of reach", cause))
	require.Equal(t, waypost.EUnavailable, waypost.CodeOf(err))
	require.Equal(t, "the database is out of reach", waypost.MessageOf(err))
	require.ErrorIs(t, err, cause)
	require.Equal(t, waypost.EInternal, waypost.CodeOf(cause))
	require.Equal(t, "internal error", waypost.MessageOf(cause))
}

func TestALinkIsExpiredFromTheInstantOfItsExpiryOn(t *testing.T) {
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	l := waypost.Link{ExpiresAt: at}
	require.False(t, l.Expired(at.Add(-time.Nanosecond)))
	require.True(t, l.Expired(at))
	require.False(t, (&waypost.Link{}).Expired(at))
}
