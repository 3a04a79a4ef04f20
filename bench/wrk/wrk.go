// Package wrk runs wrk, the HTTP load generator, with requests that were made before,
// and reads its counts. wrk keeps every connection busy with one request at a time (a
// closed loop): that shows the cost of a request at saturation, and not how long a
// visitor waits at an ordinary load.
package wrk

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"waypost/bench/corpus"
)

//go:embed visit.lua
var script []byte

// Config describes one run.
type Config struct {
	Addr       string
	Dir        string        // for files; the caller's
	Codes      []byte        // each of corpus.CodeLength bytes; visited in turn, in a ring
	Head, Tail string        // of every request, around the code
	Duration   time.Duration // whole seconds
}

// Connections is the number of connections of a run.
const Connections = 64

// Result holds the counts of a run.
type Result struct {
	Requests int64 // answered
	Failed   int64 // of these, with a status of 400 or more
	Broken   int64 // connections and requests that failed without an answer
	Duration time.Duration
	P50, P99 time.Duration // from sending a request to its answer
}

// PerSecond returns the rate of answers.
func (r Result) PerSecond() float64 { return float64(r.Requests) / r.Duration.Seconds() }

// Run runs wrk once and waits for it.
func Run(ctx context.Context, c Config) (Result, error) {
	for name, content := range map[string][]byte{"visit.lua": script, "codes": c.Codes, "head": []byte(c.Head), "tail": []byte(c.Tail)} {
		if err := os.WriteFile(filepath.Join(c.Dir, name), content, 0o600); err != nil {
			return Result{}, fmt.Errorf("write requests for wrk: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, c.Duration+30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "wrk", "-t", "1", "-c", strconv.Itoa(Connections), "-d", c.Duration.String(), "--timeout", "10s",
		"-s", "visit.lua", "http://"+c.Addr+"/", "--", strconv.Itoa(corpus.CodeLength))
	cmd.Dir = c.Dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return Result{}, fmt.Errorf("run wrk: %w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	return parse(out)
}

// parse reads the line that visit.lua writes among wrk's own.
func parse(out []byte) (r Result, err error) {
	_, line, _ := bytes.Cut(out, []byte("\nvisited "))
	var took, p50, p99 int64
	if _, err := fmt.Sscan(string(line), &r.Requests, &took, &p50, &p99, &r.Broken, &r.Failed); err != nil || took == 0 {
		return r, fmt.Errorf("wrk counted %.200q: %w", line, err)
	}
	r.Duration, r.P50, r.P99 = time.Duration(took)*time.Microsecond, time.Duration(p50)*time.Microsecond, time.Duration(p99)*time.Microsecond
	return r, nil
}
