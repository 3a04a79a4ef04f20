//go:build linux

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
	"strings"
	"sync"
	"time"
)

// Kinds of servers.
const (
	kindBare    = "bare"    // fasthttp, a constant
	kindEndless = "endless" // the same without timeouts
	kindEdge    = "edge"
	kindRedis   = "redis"  // fasthttp that asks Redis
	kindMap     = "map"    // net/http with a map in memory
	kindSource  = "source" // of snapshots, for an edge
)

// serveOptions are the flags of a server process.
type serveOptions struct {
	Kind    string
	Dir     string // of the replica
	Journal string // directory; empty: clicks are not recorded
	Ship    string // URL to which clicks are shipped; empty: nowhere
	Links   int
	Targets string
	Redis   string // its socket
	Source  string // URL of the source of snapshots
	File    string // of links, for the map
}

// answering is a server that can be served and shut down.
type answering interface {
	Serve(net.Listener) error
	Shutdown(context.Context) error
}

// app is a server with what lies behind it.
type app struct {
	answering
	commands map[string]command
	close    func() error
}

// command is a request of the measuring process to a server; the answer is one line.
type command func(ctx context.Context, args []string) (string, error)

// serve is a server process. It writes its address in a line, then answers every command
// that it reads with a line, until its input ends, as the input does when the measuring
// process has ended.
func serve(ctx context.Context, args []string) (err error) {
	var o serveOptions
	flags := flag.NewFlagSet(partServe, flag.ContinueOnError)
	flags.StringVar(&o.Kind, "kind", "", "bare, endless, edge, redis, map or source")
	flags.StringVar(&o.Dir, "dir", "", "directory of the replica")
	flags.StringVar(&o.Journal, "journal", "", "directory of the click journal")
	flags.StringVar(&o.Ship, "ship", "", "where to ship clicks")
	flags.IntVar(&o.Links, "links", 0, "links in the replica")
	flags.StringVar(&o.Targets, "targets", "", "file of real links")
	flags.StringVar(&o.Redis, "redis", "", "socket of Redis")
	flags.StringVar(&o.Source, "source", "", "where snapshots come from")
	flags.StringVar(&o.File, "file", "", "links of the map")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("read the flags of a server: %w", err)
	}
	a, err := o.app()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.close()) }()

	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	served := make(chan error, 1)
	go func() { served <- a.Serve(ln) }()
	if _, err = fmt.Println(ln.Addr()); err == nil {
		err = obey(ctx, os.Stdin, os.Stdout, a.commands)
	}
	shutdownCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return errors.Join(err, a.Shutdown(shutdownCtx), <-served)
}

func (o serveOptions) app() (app, error) {
	switch o.Kind {
	case kindBare:
		return app{answering: newBareServer(), close: func() error { return nil }}, nil
	case kindEndless:
		return app{answering: newEndlessServer(), close: func() error { return nil }}, nil
	case kindRedis:
		s := newRedisServer(o.Redis)
		return app{answering: s, close: s.close}, nil
	case kindMap:
		s, err := newMapServer(o.File)
		return app{answering: s, close: func() error { return nil }}, err
	case kindEdge:
		return newEdge(o)
	case kindSource:
		return newSource(o)
	default:
		return app{}, fmt.Errorf("unknown kind of server %q", o.Kind)
	}
}

// obey runs the commands that it reads, one at a time. When the input ends, obey cancels
// the running command.
func obey(ctx context.Context, in io.Reader, out io.Writer, commands map[string]command) error {
	ctx, cancel := context.WithCancel(ctx)
	lines := make(chan []string)
	var reading sync.WaitGroup
	var readErr error
	reading.Go(func() {
		defer close(lines)
		defer cancel()
		scanner := bufio.NewScanner(in)
		for scanner.Scan() {
			select {
			case lines <- strings.Fields(scanner.Text()):
			case <-ctx.Done():
				return
			}
		}
		readErr = scanner.Err()
	})
	for words := range lines {
		answer, err := "", errors.New("no such command")
		if len(words) > 0 && commands[words[0]] != nil {
			answer, err = commands[words[0]](ctx, words[1:])
		}
		if err != nil {
			answer = "error " + strings.ReplaceAll(err.Error(), "\n", "; ")
		} else {
			answer = "ok " + answer
		}
		if _, err := fmt.Fprintln(out, answer); err != nil {
			cancel()
			return fmt.Errorf("answer a command: %w", err)
		}
	}
	reading.Wait()
	return readErr
}
