//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
)

// conn is a client of one connection that does little more than to write and to read,
// since it shares the machine with what it measures.
type conn struct {
	net.Conn
	head []byte // of every request, up to the length of its body
	in   *bufio.Reader
	out  []byte
}

func dial(ctx context.Context, host, key string) (*conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", host)
	if err != nil {
		return nil, fmt.Errorf("connecting to the API: %w", err)
	}
	head := fmt.Sprintf("POST /api/v1/urls HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: ", host, key)
	return &conn{Conn: c, head: []byte(head), in: bufio.NewReader(c)}, nil
}

func (c *conn) close() { _ = c.Close() } // there is nothing to lose

func (c *conn) create(_ context.Context, target string) error {
	body, err := wish(target)
	if err != nil {
		return err
	}
	c.out = append(c.out[:0], c.head...)
	c.out = strconv.AppendInt(c.out, int64(len(body)), 10)
	c.out = append(append(c.out, "\r\n\r\n"...), body...)
	if _, err := c.Write(c.out); err != nil {
		return fmt.Errorf("sending a request: %w", err)
	}
	status, err := c.in.ReadSlice('\n')
	if err != nil {
		return fmt.Errorf("reading an answer: %w", err)
	}
	good := bytes.HasPrefix(status, []byte("HTTP/1.1 201 "))
	said := string(bytes.TrimSpace(status))
	length := -1
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return fmt.Errorf("reading an answer: %w", err)
		}
		if len(line) <= 2 {
			break
		}
		if value, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return fmt.Errorf("reading an answer: %w", err)
			}
		}
	}
	if length < 0 {
		return errors.New("an answer without a length")
	}
	if !good {
		text, err := io.ReadAll(io.LimitReader(c.in, int64(length)))
		return errors.Join(fmt.Errorf("an answer of %s: %s", said, text), err)
	}
	_, err = c.in.Discard(length)
	return err
}
