package ledger_test

import (
	"bytes"
	"context"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/api/clickbatch"
)

// proxy stands between an edge and the control plane, wherever that is now. It passes
// everything on, but treats batches of clicks badly.
type proxy struct {
	url     string
	control *atomic.Pointer[url.URL]
	pass    *httputil.ReverseProxy
	calm    atomic.Bool // batches are passed on as they should be
	cutOff  atomic.Bool // no batch is passed on

	lost, unanswered, doubled, late atomic.Int64

	mu     sync.Mutex
	copies []batch // to be delivered some time
	coarse *coarse
	wrong  error // a batch that cannot be read
	work   sync.WaitGroup
}

// batch is a request.
type batch struct {
	header http.Header
	body   []byte
}

// mostCopies bounds what waits to be delivered once more.
const mostCopies = 200

func startProxy(t *testing.T, control *atomic.Pointer[url.URL]) *proxy {
	t.Helper()
	p := &proxy{control: control, coarse: newCoarse(t)}
	p.pass = &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(control.Load()) },
		FlushInterval: -1,
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
		ErrorLog:      log.New(io.Discard, "", 0), // streams end all the time
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p.url = "http://" + ln.Addr().String()
	server := &http.Server{Handler: p, ReadHeaderTimeout: time.Minute}
	p.work.Go(func() { _ = server.Serve(ln) }) // ends with Close
	ctx, cancel := context.WithCancel(context.Background())
	p.work.Go(func() { p.deliverSome(ctx) })
	t.Cleanup(func() {
		cancel()
		_ = server.Close() // what is under way is lost
		p.work.Wait()
	})
	return p
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != clickbatch.Path {
		p.pass.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // the edge is gone
	}
	p.look(body)
	if p.cutOff.Load() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	b := batch{r.Header.Clone(), body}
	mischief := rand.IntN(12)
	if p.calm.Load() {
		mischief = -1
	}
	if mischief >= 0 && rand.IntN(4) == 0 {
		p.keep(b)
	}
	switch mischief {
	case 0: // it never arrives
		p.lost.Add(1)
		panic(http.ErrAbortHandler)
	case 1: // its answer never does
		p.unanswered.Add(1)
		_, _, _ = p.deliver(r.Context(), b) // or it is not there
		panic(http.ErrAbortHandler)
	case 2: // it arrives twice, at once
		p.doubled.Add(1)
		p.work.Go(func() { _, _, _ = p.deliver(context.Background(), b) })
	}
	status, header, answer := p.deliver(r.Context(), b)
	if status == 0 {
		panic(http.ErrAbortHandler)
	}
	for _, name := range []string{"Content-Type", "Retry-After"} {
		if v := header.Get(name); v != "" {
			w.Header().Set(name, v)
		}
	}
	w.WriteHeader(status)
	_, _ = w.Write(answer) // the edge may be gone
}

// deliver takes a batch to the control plane. The status is 0 when there is no answer.
func (p *proxy) deliver(ctx context.Context, b batch) (status int, header http.Header, answer []byte) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.control.Load().JoinPath(clickbatch.Path).String(),
		bytes.NewReader(b.body))
	if err != nil {
		return 0, nil, nil
	}
	r.Header = b.header.Clone()
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, nil, nil
	}
	defer res.Body.Close()
	if answer, err = io.ReadAll(res.Body); err != nil {
		return 0, nil, nil
	}
	return res.StatusCode, res.Header, answer
}

// look notes what the judge has to know of a batch.
func (p *proxy) look(body []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.coarse.note(body); err != nil {
		p.wrong = err
	}
}

// keep has a batch delivered once more, later than others that come after it.
func (p *proxy) keep(b batch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.copies) < mostCopies {
		p.copies = append(p.copies, b)
	}
}

// take returns any of the batches that wait.
func (p *proxy) take() (b batch, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.copies)
	if n == 0 {
		return batch{}, false
	}
	i := rand.IntN(n)
	b = p.copies[i]
	p.copies[i] = p.copies[n-1]
	p.copies = p.copies[:n-1]
	return b, true
}

// deliverSome delivers copies at any time and in any order until ctx ends.
func (p *proxy) deliverSome(ctx context.Context) {
	pace := time.NewTicker(50 * time.Millisecond)
	defer pace.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pace.C:
		}
		if p.calm.Load() || rand.IntN(2) == 0 {
			continue
		}
		if b, ok := p.take(); ok {
			p.late.Add(1)
			_, _, _ = p.deliver(ctx, b)
		}
	}
}

// deliverAll delivers all copies that there are.
func (p *proxy) deliverAll() {
	for b, ok := p.take(); ok; b, ok = p.take() {
		p.late.Add(1)
		_, _, _ = p.deliver(context.Background(), b)
	}
}
