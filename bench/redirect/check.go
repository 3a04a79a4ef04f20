//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	"waypost/bench/corpus"
)

// expectation says how a server must answer.
type expectation struct {
	status   int
	constant string                            // target of all codes, unless
	location func(dst []byte, n uint64) []byte // appends the target of link n
	skip     func(code []byte) bool            // codes with any answer; may be nil
}

// check requests a sample of the load's codes and compares the answers.
func (c *contender) check(ctx context.Context) error {
	const sample = 300
	tail, err := c.headers.Tail()
	if err != nil {
		return err
	}
	conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", c.target.addr)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { _ = conn.Close() }() // the answers were read
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return fmt.Errorf("set a deadline: %w", err)
	}
	r := bufio.NewReader(conn)
	for range sample {
		n := rand.Uint64N(uint64(c.links))
		if c.access == corpus.Missing {
			n += uint64(c.links)
		}
		code := corpus.AppendCode(nil, n)
		if c.expect.skip != nil && c.expect.skip(code) {
			continue
		}
		if _, err := io.WriteString(conn, corpus.Head+string(code)+tail); err != nil {
			return fmt.Errorf("request %s: %w", code, err)
		}
		if err := c.expect.compare(r, n); err != nil {
			return fmt.Errorf("the answer to %s: %w", code, err)
		}
	}
	return nil
}

func (e expectation) compare(r *bufio.Reader, n uint64) error {
	answer, err := http.ReadResponse(r, nil)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		return err
	}
	want := e.constant
	if e.location != nil {
		want = string(e.location(nil, n))
	}
	if got := answer.Header.Get("Location"); answer.StatusCode != e.status || got != want {
		return fmt.Errorf("%d to %q, and not %d to %q", answer.StatusCode, got, e.status, want)
	}
	return nil
}
