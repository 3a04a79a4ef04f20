package httpapi_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api/clickbatch"
	"waypost/controlplane"
	"waypost/controlplane/httpapi"
	"waypost/internal/logtest"
)

// tally is a ClickStore of one boot in memory. OnIngest, when set, answers instead.
type tally struct {
	onIngest func(context.Context, *waypost.ClickBatch) (controlplane.ClickReceipt, error)

	mu     sync.Mutex
	hashes [][32]byte // of batch 1, 2, …
	clicks uint64
	dead   []uint64
}

func (s *tally) IngestClicks(ctx context.Context, b *waypost.ClickBatch, hash [32]byte, body []byte) (controlplane.ClickReceipt, error) {
	if s.onIngest != nil {
		return s.onIngest(ctx, b)
	}
	if sha256.Sum256(body) != hash {
		return controlplane.ClickReceipt{}, errors.New("the hash is not that of the body")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	watermark := uint64(len(s.hashes))
	switch {
	case b.Seq > watermark+1:
		return controlplane.ClickReceipt{}, &controlplane.ClickGapError{Watermark: watermark}
	case b.Seq <= watermark:
		differs := s.hashes[b.Seq-1] != hash
		if differs {
			s.dead = append(s.dead, b.Seq)
		}
		return controlplane.ClickReceipt{Watermark: watermark, DeadLetter: differs}, nil
	}
	r := controlplane.ClickReceipt{Watermark: b.Seq}
	for i := range b.Links {
		n, _ := b.Clicks(&b.Links[i])
		r.Clicks += n
	}
	s.hashes = append(s.hashes, hash)
	s.clicks += r.Clicks
	return r, nil
}

// edge is a client of the ingest handler on a real listener.
type edge struct {
	t     *testing.T
	store *tally
	url   string
}

func startIngest(t *testing.T, log *slog.Logger, metrics prometheus.Registerer) *edge {
	t.Helper()
	e := &edge{t: t, store: &tally{}}
	server := httptest.NewServer(httpapi.Ingest(e.store, log, metrics))
	t.Cleanup(server.Close)
	e.url = server.URL + clickbatch.Path
	return e
}

// post sends a body, changed at will, and returns the answer.
func (e *edge) post(body []byte, changes ...func(*http.Request)) answer {
	e.t.Helper()
	req, err := http.NewRequestWithContext(e.t.Context(), http.MethodPost, e.url, bytes.NewReader(body))
	require.NoError(e.t, err)
	req.Header.Set("Content-Type", "application/vnd.waypost.clicks")
	req.Header.Set("Content-Encoding", "zstd")
	for _, change := range changes {
		change(req)
	}
	return read(e.t, req)
}

// read sends a request and reads the answer to its end.
func read(t *testing.T, req *http.Request) answer {
	t.Helper()
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	return answer{res, string(text)}
}

// pack compresses as an edge does.
func pack(t testing.TB, plain []byte) []byte {
	t.Helper()
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	require.NoError(t, err)
	defer func() { require.NoError(t, z.Close()) }()
	return z.EncodeAll(plain, nil)
}

// clicksOn is a batch of n clicks on one link.
func clicksOn(t testing.TB, seq, n uint64) []byte {
	t.Helper()
	return pack(t, clickbatch.Append(nil, &waypost.ClickBatch{
		Node: "edge-1", Boot: waypost.BootID{1}, Seq: seq, Exact: true, Profiles: []waypost.ClickProfile{{}},
		Links: []waypost.LinkClicks{{Domain: 1, Code: "spring", Last: 1, Rows: []waypost.ClickRow{{At: 1, Count: n}}}},
	}))
}

func TestABatchIsAnsweredWithTheWatermark(t *testing.T) {
	e := startIngest(t, nil, nil)
	for _, c := range []struct {
		name   string
		body   []byte
		status int
		answer string
	}{
		{"the first", clicksOn(t, 1, 3), 200, `{"watermark": 1}`},
		{"beyond a gap", clicksOn(t, 3, 3), 409, `{"watermark": 1}`},
		{"the next", clicksOn(t, 2, 4), 200, `{"watermark": 2}`},
		{"the first again", clicksOn(t, 1, 3), 200, `{"watermark": 2}`},
		{"another first", clicksOn(t, 1, 9), 200, `{"watermark": 2, "dead_letter": true}`},
	} {
		res := e.post(c.body)
		require.Equal(t, c.status, res.StatusCode, c.name)
		require.Equal(t, "application/json", res.Header.Get("Content-Type"), c.name)
		require.JSONEq(t, c.answer, res.text, c.name)
	}
	require.EqualValues(t, 7, e.store.clicks)
}

func TestTheHashIsThatOfTheBatchHoweverItWasCompressed(t *testing.T) {
	e := startIngest(t, nil, nil)
	plain := clickbatch.Append(nil, &waypost.ClickBatch{Node: "edge-1", Seq: 1})
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false), zstd.WithSingleSegment(true))
	require.NoError(t, err)
	other := z.EncodeAll(plain, nil)
	require.NoError(t, z.Close())
	require.NotEqual(t, other, pack(t, plain))
	for _, body := range [][]byte{pack(t, plain), other} {
		require.JSONEq(t, `{"watermark": 1}`, e.post(body).text)
	}
	require.Equal(t, [][32]byte{sha256.Sum256(plain)}, e.store.hashes)
}

func TestWhatIsNoBatchIsRefusedForGoodAndChangesNothing(t *testing.T) {
	e := startIngest(t, nil, nil)
	e.store.onIngest = func(context.Context, *waypost.ClickBatch) (controlplane.ClickReceipt, error) {
		t.Error("the store was asked")
		return controlplane.ClickReceipt{}, nil
	}
	whole := clickbatch.Append(nil, &waypost.ClickBatch{Node: "edge-1", Seq: 1})
	flipped := bytes.Clone(whole)
	flipped[20] ^= 1
	noise := make([]byte, 5<<20)
	for i := range noise {
		noise[i] = byte(i * i >> 7)
	}
	bomb := pack(t, make([]byte, 64<<20))
	require.Less(t, len(bomb), 64<<10)
	half := pack(t, make([]byte, 6<<20))
	for name, body := range map[string][]byte{
		"nothing":                   {},
		"not compressed":            whole,
		"compressed nothing":        pack(t, nil),
		"compressed noise":          pack(t, noise[:1000]),
		"cut when compressed":       pack(t, whole)[:10],
		"cut before":                pack(t, whole[:len(whole)-1]),
		"longer than it states":     pack(t, append(bytes.Clone(whole), 0)),
		"a flipped bit":             pack(t, flipped),
		"a sequence of zero":        clicksOn(t, 0, 1),
		"a total of zero":           clicksOn(t, 1, 0),
		"longer than a body may be": noise,
		"a decompression bomb":      bomb,
		"a bomb in two frames":      append(bytes.Clone(half), half...),
	} {
		t.Run(name, func(t *testing.T) {
			requireProblem(t, e.post(body), 422, "invalid")
		})
	}
}

// Long codes of one's own, visitors and referrers are as good as random: what an edge has
// made of them is no less a batch because it could not be compressed.
func TestTheLargestBatchIsTakenHoweverLittleItCanBeCompressed(t *testing.T) {
	e, random := startIngest(t, nil, nil), rand.New(rand.NewPCG(1, 2))
	b := waypost.ClickBatch{Node: "edge-1", Boot: waypost.BootID{1}, Seq: 1, Exact: true, Profiles: []waypost.ClickProfile{{}}}
	for n := range 32_000 {
		code := make([]byte, waypost.MaxCodeLength)
		for i := range code {
			code[i] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"[random.IntN(64)]
		}
		l := waypost.LinkClicks{Domain: 1, Code: waypost.Code(code), Rows: []waypost.ClickRow{{At: random.Int64(), Count: random.Uint64() | 1}}}
		for v := range 13 {
			l.Visitors = append(l.Visitors, waypost.Visitor{Day: int32(n), Hash: uint64(v)<<59 | random.Uint64()>>5&waypost.VisitorBits})
		}
		b.Links = append(b.Links, l)
	}
	plain := clickbatch.Append(nil, &b)
	packed := pack(t, plain)
	require.LessOrEqual(t, len(plain), clickbatch.MaxBytes)
	require.Greater(t, len(packed), clickbatch.MaxBytes/2)
	require.Equal(t, "{\"watermark\":1}\n", e.post(packed).text)
}

func TestABatchMustSayWhatItIs(t *testing.T) {
	e := startIngest(t, nil, nil)
	body := clicksOn(t, 1, 1)
	for _, name := range []string{"Content-Type", "Content-Encoding"} {
		for _, value := range []string{"", "text/plain", "gzip"} {
			res := e.post(body, func(r *http.Request) { r.Header.Set(name, value) })
			requireProblem(t, res, 415, "unsupported-media-type")
		}
	}
	res := e.post(nil, func(r *http.Request) { r.Method = http.MethodGet })
	requireProblem(t, res, 405, "method-not-allowed")
	require.Equal(t, "POST", res.Header.Get("Allow"))
	require.Empty(t, e.store.hashes)
}

func TestFailuresOfTheStoreAskForAnotherTryAndHideTheirCause(t *testing.T) {
	secret := errors.New("password=hunter2")
	for _, c := range []struct {
		err    error
		status int
		code   string
	}{
		{waypost.WrapError(waypost.EUnavailable, "the database is away", secret), 503, "unavailable"},
		{waypost.WrapError(waypost.EInvalid, "no identity", secret), 422, "invalid"},
		{secret, 500, "internal"},
	} {
		var log logtest.Buffer
		e := startIngest(t, log.Logger(), nil)
		e.store.onIngest = func(context.Context, *waypost.ClickBatch) (controlplane.ClickReceipt, error) {
			return controlplane.ClickReceipt{}, c.err
		}
		res := e.post(clicksOn(t, 1, 1))
		requireProblem(t, res, c.status, c.code)
		require.NotContains(t, res.text, "hunter2")
		require.Contains(t, log.String(), "hunter2")
		require.Equal(t, c.status == 503, res.Header.Get("Retry-After") != "")
	}
}

func TestOnlySoManyBatchesAreCountedAtOnceAndTheOthersWait(t *testing.T) {
	const most, sent = 4, 10
	e := startIngest(t, nil, nil)
	entered, leave := make(chan struct{}, sent), make(chan struct{})
	e.store.onIngest = func(context.Context, *waypost.ClickBatch) (controlplane.ClickReceipt, error) {
		entered <- struct{}{}
		<-leave
		return controlplane.ClickReceipt{Watermark: 1}, nil
	}
	body := clicksOn(t, 1, 1)
	var wg sync.WaitGroup
	for range sent {
		wg.Go(func() {
			if res := e.post(body); res.StatusCode != http.StatusOK {
				t.Error(res.StatusCode, res.text)
			}
		})
	}
	for range most {
		<-entered
	}
	for range sent - most {
		require.Empty(t, entered, "a batch enters only when another leaves")
		leave <- struct{}{}
		<-entered
	}
	close(leave)
	wg.Wait()
}

func TestMetricsTellHowBatchesFare(t *testing.T) {
	registry := prometheus.NewRegistry()
	e := startIngest(t, nil, registry)
	e.post(clicksOn(t, 1, 5))
	e.post(clicksOn(t, 1, 5))
	e.post(clicksOn(t, 1, 6))
	e.post(clicksOn(t, 4, 5))
	e.post([]byte("nonsense"))
	e.store.onIngest = func(context.Context, *waypost.ClickBatch) (controlplane.ClickReceipt, error) {
		return controlplane.ClickReceipt{}, errors.New("broken")
	}
	e.post(clicksOn(t, 2, 5))
	e.store.onIngest = func(context.Context, *waypost.ClickBatch) (controlplane.ClickReceipt, error) {
		return controlplane.ClickReceipt{Watermark: 2, Clicks: 1, Unknown: 2, Redated: 3}, nil
	}
	e.post(clicksOn(t, 2, 5))
	e.store.onIngest = func(context.Context, *waypost.ClickBatch) (controlplane.ClickReceipt, error) {
		return controlplane.ClickReceipt{Watermark: 3, Voided: true, Dropped: 4}, nil
	}
	e.post(clicksOn(t, 3, 5))

	got := map[string]float64{}
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, family := range families {
		for _, m := range family.GetMetric() {
			name := strings.TrimPrefix(family.GetName(), "waypost_")
			for _, label := range m.GetLabel() {
				name += " " + label.GetValue()
			}
			if m.GetCounter() != nil {
				got[name] = m.GetCounter().GetValue()
			}
		}
	}
	require.Equal(t, map[string]float64{
		"click_batches_total taken": 3, "click_batches_total gap": 1, "click_batches_total dead-letter": 1,
		"click_batches_total refused": 1, "click_batches_total failed": 1, "click_batches_total void": 1, "clicks_reported_dropped_total": 4,
		"clicks_ingested_total links": 6, "clicks_ingested_total unknown": 2, "clicks_redated_total": 3,
	}, got)
}

// FuzzIngest sees that no body makes the handler fail, whether it is compressed or
// only what comes out of the compression is strange, and that only what decodes is
// counted.
func FuzzIngest(f *testing.F) {
	whole := clickbatch.Append(nil, &waypost.ClickBatch{
		Node: "edge-1", Seq: 1, Exact: true, Profiles: []waypost.ClickProfile{{}}, Links: []waypost.LinkClicks{
			{Domain: 1, Code: "spring", Last: 1, Rows: []waypost.ClickRow{{At: 1, Count: 1}}},
			{Domain: 1, Code: "summer", Rows: []waypost.ClickRow{{Count: 2}}},
		},
	})
	f.Add(whole, true)
	f.Add(pack(f, whole), false)
	f.Add(pack(f, make([]byte, 9<<20)), false)
	f.Add(whole[:30], true)
	f.Add([]byte{0x28, 0xb5, 0x2f, 0xfd, 0xff}, false)
	f.Add([]byte{}, false)
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	require.NoError(f, err)
	store := &tally{}
	h := httpapi.Ingest(store, nil, nil)
	f.Fuzz(func(t *testing.T, body []byte, compress bool) {
		store.hashes, store.clicks = nil, 0
		want := http.StatusUnprocessableEntity
		if compress {
			if b, err := clickbatch.Decode(body); err == nil {
				if want = http.StatusConflict; b.Seq == 1 {
					want = http.StatusOK
				}
			}
			body = z.EncodeAll(body, nil)
		}
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, clickbatch.Path, bytes.NewReader(body))
		req.Header.Set("Content-Type", "application/vnd.waypost.clicks")
		req.Header.Set("Content-Encoding", "zstd")
		res := httptest.NewRecorder()
		h.ServeHTTP(res, req)
		if compress {
			require.Equal(t, want, res.Code, "%s", res.Body)
		}
		require.Contains(t, []int{200, 409, 422}, res.Code, "%s", res.Body)
		require.Equal(t, res.Code == 200, len(store.hashes) == 1, "what is answered with 200 is counted, and nothing else")
	})
}
