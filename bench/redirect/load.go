package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
)

// Kinds of load.
const (
	loadConstant = "constant" // the path does not matter
	loadHits     = "hits"     // links, uniformly at random
	loadMisses   = "misses"   // codes of the same shape that no link has
)

// The rest of a request, as a browser sends it.
const requestTail = " HTTP/1.1\r\n" +
	"Host: wayp.example\r\n" +
	"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n" +
	"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n" +
	"Accept-Language: en-US,en;q=0.5\r\n" +
	"Accept-Encoding: gzip, deflate, br, zstd\r\n" +
	"\r\n"

// loadConfig is one round of load.
type loadConfig struct {
	Addr        string
	Kind        string
	Links       uint64
	Connections int
	Duration    time.Duration
}

func (c loadConfig) args() []string {
	return []string{
		partLoad, "-addr", c.Addr, "-kind", c.Kind, "-links", strconv.FormatUint(c.Links, 10),
		"-connections", strconv.Itoa(c.Connections), "-duration", c.Duration.String(),
	}
}

// load is the client process: it sends one request after the other on every
// connection until the time is over, checks every answer, and writes how many there were.
func load(ctx context.Context, args []string) error {
	var c loadConfig
	flags := flag.NewFlagSet(partLoad, flag.ContinueOnError)
	flags.StringVar(&c.Addr, "addr", "", "address of the server")
	flags.StringVar(&c.Kind, "kind", "", "constant, hits or misses")
	flags.Uint64Var(&c.Links, "links", 1, "links in the replica")
	flags.IntVar(&c.Connections, "connections", 1, "connections")
	flags.DurationVar(&c.Duration, "duration", time.Second, "length of the round")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("reading the flags of the client: %w", err)
	}
	end := time.Now().Add(c.Duration)
	counts := make([]int64, c.Connections)
	group, ctx := errgroup.WithContext(ctx)
	for i := range counts {
		group.Go(func() (err error) {
			counts[i], err = c.visit(ctx, rand.New(rand.NewPCG(rand.Uint64(), uint64(i))), end)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	var total int64
	for _, n := range counts {
		total += n
	}
	fmt.Println(total)
	return nil
}

// visit is one connection.
func (c loadConfig) visit(ctx context.Context, random *rand.Rand, end time.Time) (requests int64, err error) {
	conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", c.Addr)
	if err != nil {
		return 0, fmt.Errorf("connecting: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if err := conn.SetDeadline(end.Add(10 * time.Second)); err != nil {
		return 0, fmt.Errorf("setting the deadline: %w", err)
	}
	var (
		r             = bufio.NewReader(conn)
		code, request []byte
		location      = []byte(constantReply)
	)
	for ctx.Err() == nil && time.Now().Before(end) {
		n := random.Uint64N(c.Links)
		if c.Kind == loadMisses {
			n += c.Links
		}
		code = appendCode(code[:0], n)
		switch c.Kind {
		case loadHits:
			location = appendLocation(location[:0], code)
		case loadMisses:
			location = nil
		}
		request = append(append(append(request[:0], "GET /"...), code...), requestTail...)
		if _, err := conn.Write(request); err != nil {
			return requests, fmt.Errorf("sending a request: %w", err)
		}
		if err := check(r, location); err != nil {
			return requests, fmt.Errorf("request %d for %s: %w", requests, code, err)
		}
		requests++
	}
	return requests, ctx.Err()
}

var (
	statusFound    = []byte("HTTP/1.1 302 ")
	statusNotFound = []byte("HTTP/1.1 404 ")
	fieldLocation  = []byte("Location: ")
	fieldLength    = []byte("Content-Length: ")
)

// check reads an answer: a 302 to location, or a 404 when that is nil.
func check(r *bufio.Reader, location []byte) error {
	status := statusFound
	if location == nil {
		status = statusNotFound
	}
	line, err := r.ReadSlice('\n')
	if err != nil {
		return fmt.Errorf("reading the status: %w", err)
	}
	if !bytes.HasPrefix(line, status) {
		return fmt.Errorf("unexpected answer %q", line)
	}
	right, length := location == nil, -1
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return fmt.Errorf("reading the header: %w", err)
		}
		line = bytes.TrimSuffix(line, []byte("\r\n"))
		if len(line) == 0 {
			break
		}
		if value, ok := bytes.CutPrefix(line, fieldLocation); ok {
			right = bytes.Equal(value, location)
		} else if value, ok := bytes.CutPrefix(line, fieldLength); ok {
			if length, err = strconv.Atoi(string(value)); err != nil {
				return fmt.Errorf("reading the length: %w", err)
			}
		}
	}
	if !right {
		return errors.New("the answer leads elsewhere")
	}
	if length < 0 {
		return errors.New("the answer has no length")
	}
	if _, err := r.Discard(length); err != nil {
		return fmt.Errorf("reading the body: %w", err)
	}
	return nil
}
