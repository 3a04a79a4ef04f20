package devtest

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

// Follower follows links over one connection at a time and sends no request twice. An
// http.Client sends it again when a kept connection breaks, so that one answer may stand
// for two clicks. Zero is ready to use, by one goroutine.
type Follower struct {
	Agent    string        // User-Agent of the requests; "": none
	Patience time.Duration // for an answer; 0: a minute
	Location string        // of the last answer

	addr string
	conn net.Conn
	in   *bufio.Reader
}

// Follow asks for a link once. With an error, sent reports whether the edge may have
// got the request.
func (f *Follower) Follow(addr, code string) (status int, sent bool, err error) {
	if f.addr != addr {
		f.Close()
	}
	limit := f.Patience
	if limit == 0 {
		limit = patience
	}
	if f.conn == nil {
		conn, err := net.DialTimeout("tcp", addr, limit)
		if err != nil {
			return 0, false, err
		}
		f.addr, f.conn, f.in = addr, conn, bufio.NewReader(conn)
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	if err := f.conn.SetDeadline(time.Now().Add(limit)); err != nil {
		return 0, false, err
	}
	request := "GET /" + code + " HTTP/1.1\r\nHost: " + addr + "\r\n"
	if f.Agent != "" {
		request += "User-Agent: " + f.Agent + "\r\n"
	}
	if _, err := io.WriteString(f.conn, request+"\r\n"); err != nil {
		return 0, true, err
	}
	res, err := http.ReadResponse(f.in, nil)
	if err != nil {
		return 0, true, err
	}
	f.Location = res.Header.Get("Location")
	_, err = io.Copy(io.Discard, res.Body)
	err = errors.Join(err, res.Body.Close())
	if res.Close {
		f.Close()
	}
	return res.StatusCode, true, err
}

// Close closes the connection, if there is one.
func (f *Follower) Close() {
	if f.conn != nil {
		_ = f.conn.Close() // nothing is under way on it
		f.conn = nil
	}
}
