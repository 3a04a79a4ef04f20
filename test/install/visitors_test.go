package install_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// crowd counts the visits of one kind of visitors.
type crowd struct {
	mu       sync.Mutex
	took     []time.Duration // from the connection, or the request on a kept one, to the answer
	failures map[string]int
}

func (c *crowd) note(took time.Duration, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.failures[err.Error()]++
		return
	}
	c.took = append(c.took, took)
}

// TestVisitors is a program of booted.sh. It follows links at VISIT=HOST:PORT for
// SECONDS with CLIENTS visitors, each of them RATE times a second, and fails if a visit
// fails. With KEEP=yes connections are kept until the server asks to close them. FROM is
// the beginning of twenty addresses of the visitors.
func TestVisitors(t *testing.T) {
	addr := os.Getenv("VISIT")
	if addr == "" {
		t.Skip("booted.sh runs it")
	}
	number := func(name string) int {
		n, err := strconv.Atoi(os.Getenv(name))
		require.NoError(t, err, name)
		return n
	}
	links, clients, keep := number("LINKS"), number("CLIENTS"), os.Getenv("KEEP") == "yes"
	every := time.Second / time.Duration(number("RATE"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(number("SECONDS"))*time.Second)
	defer cancel()
	c := &crowd{failures: make(map[string]int)}
	began := time.Now()
	var visitors sync.WaitGroup
	for i := range clients {
		// Each closed connection holds a port of its address for a minute.
		dialer := &net.Dialer{Timeout: 30 * time.Second}
		if from := os.Getenv("FROM"); from != "" {
			dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from + strconv.Itoa(10+i%20))}
		}
		visitors.Go(func() { c.visit(ctx, dialer, addr, links, every, keep) })
	}
	visitors.Wait()
	require.NotEmpty(t, c.took)
	slices.Sort(c.took)
	failed := 0
	for _, n := range c.failures {
		failed += n
	}
	fmt.Printf("visits %d, a second %.0f, failed %d, p99 %.1f ms, longest wait %.0f ms\n", len(c.took)+failed,
		float64(len(c.took))/time.Since(began).Seconds(), failed,
		c.took[len(c.took)*99/100].Seconds()*1e3, c.took[len(c.took)-1].Seconds()*1e3)
	require.Empty(t, c.failures)
}

// visit follows random links until ctx ends.
func (c *crowd) visit(ctx context.Context, dialer *net.Dialer, addr string, links int, every time.Duration, keep bool) {
	var conn net.Conn
	var in *bufio.Reader
	time.Sleep(rand.N(every)) // so that the visitors do not come all at once
	pace := time.NewTicker(every)
	defer pace.Stop()
	for ctx.Err() == nil {
		<-pace.C
		began := time.Now()
		request := fmt.Sprintf("GET /link-%d HTTP/1.1\r\nHost: go.example.com\r\n"+
			"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n\r\n", rand.IntN(links))
		var err error
		if conn == nil {
			if conn, err = dialer.DialContext(context.WithoutCancel(ctx), "tcp", addr); err != nil {
				c.note(0, err)
				conn = nil
				continue
			}
			in = bufio.NewReader(conn)
		}
		res, err := ask(conn, in, request)
		c.note(time.Since(began), err)
		if err != nil || !keep || res.Close {
			_ = conn.Close()
			conn = nil
		}
	}
	if conn != nil {
		_ = conn.Close()
	}
}

func ask(conn net.Conn, in *bufio.Reader, request string) (*http.Response, error) {
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return nil, err
	}
	if _, err := conn.Write([]byte(request)); err != nil {
		return nil, fmt.Errorf("send: %T", err)
	}
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		return nil, fmt.Errorf("answer: %w", err)
	}
	if err := res.Body.Close(); err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusFound {
		return nil, fmt.Errorf("status %d", res.StatusCode)
	}
	return res, nil
}
