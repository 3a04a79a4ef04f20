//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"waypost"
	"waypost/edge/audience"
	"waypost/edge/clicks"
	"waypost/edge/server"
)

// Kinds of servers.
const (
	kindBare = "bare" // fasthttp, a constant
	kindEdge = "edge"
)

// app is a server with its parts.
type app struct {
	serve    func(net.Listener) error
	shutdown func(context.Context) error
	close    func() error
	meters   *prometheus.Registry
}

// serve is a server process. It writes its address in a line. Then it reads lines "metric
// NAME" and writes the value of each metric, until its input ends, at the latest with the
// measuring process.
func serve(ctx context.Context, args []string) (err error) {
	flags := flag.NewFlagSet(partServe, flag.ContinueOnError)
	kind := flags.String("kind", "", "bare or edge")
	dir := flags.String("dir", "", "directory of the replica")
	journal := flags.String("journal", "", "directory of the click journal")
	ship := flags.String("ship", "", "where to ship clicks")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("read the flags of a server: %w", err)
	}
	var a app
	switch *kind {
	case kindBare:
		a = newBare()
	case kindEdge:
		a, err = newEdge(*dir, *journal, *ship)
	default:
		err = fmt.Errorf("unknown kind of server %q", *kind)
	}
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return errors.Join(fmt.Errorf("listen: %w", err), a.close())
	}
	served := make(chan error, 1)
	go func() { served <- a.serve(ln) }()
	fmt.Println(ln.Addr())
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		fmt.Println("ok", metric(a.meters, strings.TrimPrefix(lines.Text(), "metric ")))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err = errors.Join(a.shutdown(ctx), <-served, a.close())
	if dropped := metric(a.meters, "waypost_clicks_dropped_total"); dropped > 0 {
		err = errors.Join(err, fmt.Errorf("%.0f clicks were dropped, so that the figures are too good", dropped))
	}
	return err
}

// metric returns the value of a counter or a gauge, 0 without one.
func metric(meters *prometheus.Registry, name string) float64 {
	families, _ := meters.Gather() // a metric that cannot be read is missing
	for _, f := range families {
		if f.GetName() == name {
			m := f.GetMetric()[0]
			return m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return 0
}

// constantTarget has the length that targets have on average.
const constantTarget = "https://www.example.org/articles/2026/a-title-of-the-usual-length/1satl?utm_source=newsletter"

// newBare answers every request with the same redirect. It is fasthttp with the settings
// of the edge server, so that the difference is the work of Waypost.
func newBare() app {
	location, cacheControl := []byte("Location"), []byte("Cache-Control")
	target, noStore := []byte(constantTarget), []byte("private, no-store")
	s := &fasthttp.Server{
		Handler: func(ctx *fasthttp.RequestCtx) {
			ctx.Response.SetStatusCode(fasthttp.StatusFound)
			ctx.Response.Header.SetCanonical(location, target)
			ctx.Response.Header.SetCanonical(cacheControl, noStore)
		},
		ReadTimeout:           5 * time.Second,
		WriteTimeout:          10 * time.Second,
		IdleTimeout:           time.Minute,
		Concurrency:           32 << 10,
		GetOnly:               true,
		ReadBufferSize:        16 << 10,
		LazyRequestTime:       true,
		CloseOnShutdown:       true,
		NoDefaultServerHeader: true,
		NoDefaultContentType:  true,
	}
	return app{
		serve: s.Serve, shutdown: s.ShutdownWithContext, close: func() error { return nil }, meters: prometheus.NewRegistry(),
	}
}

// oneSalt is the same salt on every day.
type oneSalt struct{}

var everyDay = waypost.Salt{1}

func (oneSalt) Salt(int32) *waypost.Salt { return &everyDay }

// newEdge is an edge's redirect path, on a replica that nothing changes.
func newEdge(dir, journalDir, ship string) (app, error) {
	meters := prometheus.NewRegistry()
	links, err := openReplica(dir, meters)
	if err != nil {
		return app{}, err
	}
	who := audience.New(audience.Config{Salts: oneSalt{}})
	journal, err := clicks.Open(clicks.Config{Dir: journalDir, Node: "bench", Profiler: who, Metrics: meters})
	if err != nil {
		return app{}, errors.Join(err, links.Close())
	}
	shipped := make(chan error, 1)
	go func() { shipped <- journal.Ship(context.Background(), clicks.ShipConfig{URL: ship}) }()
	s := server.New(server.Config{
		DrainTime: time.Millisecond, Links: links, Clicks: journal, Sealer: audience.NewSealer(oneSalt{}),
	})
	return app{serve: s.Serve, shutdown: s.Shutdown, meters: meters, close: func() error {
		return errors.Join(journal.Close(), <-shipped, links.Close()) // closing the journal ends Ship
	}}, nil
}

// startSink takes batches of clicks in the control plane's place and acknowledges all of
// them. It runs in the measuring process.
func startSink() (url string, stop func() error, err error) {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("listen for clicks: %w", err)
	}
	s := &http.Server{Handler: http.HandlerFunc(acknowledge), ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = s.Serve(ln) }() // until it is closed
	return "http://" + ln.Addr().String(), s.Close, nil
}

// acknowledge answers that a batch was counted. It decodes only the number of the batch,
// because the cost of counting is not measured here.
func acknowledge(w http.ResponseWriter, r *http.Request) {
	const head, seqAt = 28, 20 // see clickbatch.Append
	var number [head]byte
	z, err := zstd.NewReader(r.Body, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
	if err == nil {
		_, err = io.ReadFull(z, number[:])
		z.Close()
	}
	if err == nil {
		_, err = io.Copy(io.Discard, r.Body)
	}
	if err != nil {
		http.Error(w, "no batch", http.StatusBadRequest)
		return
	}
	fmt.Fprintf(w, `{"watermark":%d}`, binary.LittleEndian.Uint64(number[seqAt:]))
}
