package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/valyala/fasthttp"

	"waypost/edge"
	"waypost/edge/clicks"
)

// Kinds of servers.
const (
	kindBare    = "bare"
	kindWaypost = "waypost"
	kindClicks  = "clicks" // the same, with a click journal
)

// httpServer is what they have in common.
type httpServer interface {
	Serve(net.Listener) error
	Shutdown(context.Context) error
}

// serve is a server process. It writes its address in a line, then for every line
// that it reads the CPU time that it has used, in microseconds, until its input
// ends, as it does when the measuring process is gone.
func serve(ctx context.Context, args []string) (err error) {
	flags := flag.NewFlagSet(partServe, flag.ContinueOnError)
	kind := flags.String("kind", "", "bare, waypost or clicks")
	dir := flags.String("dir", "", "directory of the replica")
	journal := flags.String("journal", "", "directory of the click journal")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("reading the flags of a server: %w", err)
	}
	var server httpServer
	switch *kind {
	case kindBare:
		server = newBareServer()
	case kindWaypost:
		replica, err := openReplica(*dir)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, replica.Close()) }()
		server = edge.New(edge.Config{Links: replica, DrainTime: time.Millisecond})
	case kindClicks:
		replica, err := openReplica(*dir)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, replica.Close()) }()
		recorded, err := clicks.Open(clicks.Config{Dir: *journal, Node: "bench"})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, recorded.Close()) }()
		server = edge.New(edge.Config{Links: replica, Clicks: recorded, DrainTime: time.Millisecond})
	default:
		return fmt.Errorf("unknown kind of server %q", *kind)
	}

	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	err = answer(os.Stdin, os.Stdout, ln.Addr().String())
	shutdownCtx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return errors.Join(err, server.Shutdown(shutdownCtx), <-served)
}

func answer(in io.Reader, out io.Writer, addr string) error {
	if _, err := fmt.Fprintln(out, addr); err != nil {
		return fmt.Errorf("telling the address: %w", err)
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		used, err := cpuTime()
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(out, used.Microseconds()); err != nil {
			return fmt.Errorf("telling the time used: %w", err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("reading the questions: %w", err)
	}
	return nil
}

// cpuTime is the user and system time that this process has used.
func cpuTime() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, fmt.Errorf("reading the CPU time: %w", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}

// bareServer is fasthttp with the settings of the edge server, so that the
// difference is what Waypost itself does.
type bareServer struct{ http *fasthttp.Server }

func newBareServer() bareServer {
	var (
		location     = []byte("Location")
		target       = []byte(constantReply)
		cacheControl = []byte("Cache-Control")
		noStore      = []byte("private, no-store")
	)
	return bareServer{&fasthttp.Server{
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
	}}
}

func (s bareServer) Serve(ln net.Listener) error { return s.http.Serve(ln) }

func (s bareServer) Shutdown(ctx context.Context) error { return s.http.ShutdownWithContext(ctx) }
