package replication_test

import (
	"context"
	"encoding/base64"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/replication"
	"waypost/replication/replicationtest"
)

// everyLink is a source that knows a link for each code but one.
type everyLink struct {
	head   replication.Head
	target string
}

const noLink = "nothing"

func (s everyLink) RecordAt(_ context.Context, domain waypost.DomainID, code []byte) ([]byte, replication.Head, error) {
	if string(code) == noLink {
		return nil, s.head, nil
	}
	r := replicationtest.Link(string(code), s.target)
	r.Domain = domain
	return replication.AppendRecord(nil, &r), s.head, nil
}

// answerOf is what a source with a key, nil for none, answers.
func answerOf(t *testing.T, source replication.RecordSource, key *replication.Signer, domain waypost.DomainID, code string) *httptest.ResponseRecorder {
	t.Helper()
	query := url.Values{"domain": {strconv.Itoa(int(domain))}, "code": {code}}
	w := httptest.NewRecorder()
	replication.RecordHandler(source, key, slog.New(slog.DiscardHandler))(w,
		httptest.NewRequestWithContext(t.Context(), http.MethodGet, replication.PathRecord+"?"+query.Encode(), http.NoBody))
	return w
}

// askedThrough asks whoever always gives one answer.
func askedThrough(t *testing.T, said *httptest.ResponseRecorder, trust *replication.Trust, domain waypost.DomainID, code string) ([]byte, replication.Head, error) {
	t.Helper()
	a := asker(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for name, values := range said.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(said.Code)
		_, _ = w.Write(said.Body.Bytes())
	}))
	a.Trust = trust
	return a.Ask(t.Context(), domain, []byte(code))
}

func answeredHead() replication.Head {
	return replication.Head{
		Cluster:  replication.Cluster{1, 2},
		Position: waypost.Position{Epoch: waypost.Epoch{Ordinal: 4, ID: waypost.EpochID{4}}, Seq: 99, Stamp: 5},
	}
}

func TestOnceAKeyIsPinnedOnlyAnAnswerThatItHasSignedIsTaken(t *testing.T) {
	const domain, code = 7, "abcd123"
	head := answeredHead()
	source := everyLink{head, "https://example.com/"}
	evil := everyLink{head, "https://evil.example/"}
	own := signer(t, head.Cluster, 1)
	other, err := replication.NewSigner([32]byte{6, 6, 6}, head.Cluster, 1)
	require.NoError(t, err)
	moved := func(change func(*replication.Head)) everyLink {
		s := source
		change(&s.head)
		return s
	}
	foreign := moved(func(h *replication.Head) { h.Cluster = replication.Cluster{9} })
	// replayed is an answer under the signature of another.
	replayed := func(said, signed *httptest.ResponseRecorder) *httptest.ResponseRecorder {
		require.NotEmpty(t, signed.Header().Get(replication.HeaderSignature))
		said.Header().Set(replication.HeaderSignature, signed.Header().Get(replication.HeaderSignature))
		return said
	}
	good := func() *httptest.ResponseRecorder { return answerOf(t, source, own, domain, code) }
	with := func(signature string) *httptest.ResponseRecorder {
		said := good()
		said.Header().Set(replication.HeaderSignature, signature)
		return said
	}
	cases := map[string]struct {
		said    *httptest.ResponseRecorder
		code    string // that is asked for
		refused bool
	}{
		"a record":                      {good(), code, false},
		"none":                          {answerOf(t, source, own, domain, noLink), noLink, false},
		"no signature":                  {answerOf(t, source, nil, domain, code), code, true},
		"none, and no signature":        {answerOf(t, source, nil, domain, noLink), noLink, true},
		"half a signature":              {with(good().Header().Get(replication.HeaderSignature)[:40]), code, true},
		"a signature that is no base64": {with("%" + good().Header().Get(replication.HeaderSignature)[1:]), code, true},
		"a signature of no key":         {with("AAAAAA" + good().Header().Get(replication.HeaderSignature)[6:]), code, true},
		"the signature of a head":       {with(replication.HeadSignature(own, head)), code, true},
		"another record":                {replayed(answerOf(t, evil, nil, domain, code), good()), code, true},
		"another sequence": {
			replayed(answerOf(t, moved(func(h *replication.Head) { h.Position.Seq = 1 << 40 }), nil, domain, code), good()),
			code, true,
		},
		"another stamp": {replayed(answerOf(t, moved(func(h *replication.Head) { h.Position.Stamp++ }), nil, domain, code), good()), code, true},
		"another epoch": {
			replayed(answerOf(t, moved(func(h *replication.Head) { h.Position.Epoch.Ordinal++ }), nil, domain, code), good()),
			code, true,
		},
		"another epoch of that ordinal": {
			replayed(answerOf(t, moved(func(h *replication.Head) { h.Position.Epoch.ID[0]++ }), nil, domain, code), good()),
			code, true,
		},
		"another secret's key":                          {answerOf(t, evil, other, domain, code), code, true},
		"a later key":                                   {answerOf(t, source, signer(t, head.Cluster, 2), domain, code), code, true},
		"another cluster's answer, with its key":        {answerOf(t, foreign, signer(t, replication.Cluster{9}, 1), domain, code), code, true},
		"another cluster's answer, unsigned":            {answerOf(t, foreign, nil, domain, code), code, true},
		"another cluster's answer, with this one's key": {answerOf(t, foreign, own, domain, code), code, true},
		"another cluster, named instead":                {replayed(answerOf(t, foreign, nil, domain, code), good()), code, true},
		"another code's signature":                      {replayed(answerOf(t, source, nil, domain, code), answerOf(t, source, own, domain, "abcd124")), code, true},
		"another code's none":                           {answerOf(t, source, own, domain, noLink), "nothin0", true},
		"another domain's none":                         {answerOf(t, source, own, domain+1, noLink), noLink, true},
		"another domain's signature":                    {replayed(good(), answerOf(t, source, own, domain+1, code)), code, true},
		"found, where none was signed": {replayed(answerOf(t, source, nil, domain, code),
			answerOf(t, nowhere{source}, own, domain, code)), code, true},
		"none, where a record was signed": {replayed(answerOf(t, nowhere{source}, nil, domain, code), good()), code, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			trust := (&pins{}).trust(t)
			for _, early := range []*replication.Trust{nil, trust} {
				_, _, err := askedThrough(t, c.said, early, domain, c.code)
				require.NoError(t, err, "without a key that is pinned, all are taken")
			}
			require.NoError(t, replication.Meet(trust, own))
			raw, at, err := askedThrough(t, c.said, trust, domain, c.code)
			if c.refused {
				require.ErrorIs(t, err, replication.ErrSignature)
				require.Nil(t, raw)
				return
			}
			require.NoError(t, err)
			require.Equal(t, head.Position, at.Position)
			require.Equal(t, c.code == noLink, raw == nil)
		})
	}
}

// nowhere is a source without any links.
type nowhere struct{ everyLink }

func (s nowhere) RecordAt(context.Context, waypost.DomainID, []byte) ([]byte, replication.Head, error) {
	return nil, s.head, nil
}

func TestAnswersGoOverToALaterKeyWithTheStream(t *testing.T) {
	const domain, code = 7, "abcd123"
	source := everyLink{answeredHead(), "https://example.com/"}
	first, second := signer(t, source.head.Cluster, 1), signer(t, source.head.Cluster, 2)
	trust := (&pins{}).trust(t)
	taken := func(by *replication.Signer) error {
		_, _, err := askedThrough(t, answerOf(t, source, by, domain, code), trust, domain, code)
		return err
	}
	require.NoError(t, replication.Meet(trust, first))
	require.NoError(t, taken(first))
	require.ErrorIs(t, taken(second), replication.ErrSignature, "an answer does not bring its key with it")
	require.NoError(t, replication.Meet(trust, second))
	require.NoError(t, taken(second))
	require.ErrorIs(t, taken(first), replication.ErrSignature)
}

// A follower that presents an answer would have a digest of its own choice believed.
func TestASignedAnswerIsNoTestimony(t *testing.T) {
	head := answeredHead()
	own := signer(t, head.Cluster, 1)
	for _, record := range [][]byte{nil, make([]byte, 100)} {
		for length := range 64 {
			word := replication.AnswerWord(own, head, 7, make([]byte, length), record)
			_, err := own.Witness(base64.RawURLEncoding.EncodeToString(word))
			require.ErrorIs(t, err, replication.ErrSignature)
		}
	}
}
