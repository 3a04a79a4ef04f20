// Package wrk runs wrk, the HTTP load generator, with requests that were made before,
// and reads its counts. wrk keeps every connection busy with one request at a time (a
// closed loop): that shows the cost of a request at saturation, and not how long a
// visitor waits at an ordinary load.
package wrk

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

//go:embed visit.lua
var script []byte

// Config describes one run.
type Config struct {
	Addr        string
	Dir         string // for files; the caller's
	Codes       []byte // each CodeLength bytes; visited in turn, in a ring
	CodeLength  int
	Head, Tail  string // of every request, around the code
	Connections int
	Threads     int
	Duration    time.Duration // whole seconds
}

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
	if c.Duration < time.Second || c.Duration%time.Second != 0 {
		return Result{}, fmt.Errorf("wrk runs for whole seconds, not %s", c.Duration)
	}
	args := []string{
		"-t", strconv.Itoa(c.Threads), "-c", strconv.Itoa(c.Connections), "-d", c.Duration.String(), "--timeout", "10s",
		"-s", filepath.Join(c.Dir, "visit.lua"), "http://" + c.Addr + "/", "--",
	}
	for name, content := range map[string][]byte{"visit.lua": script, "codes": c.Codes, "head": []byte(c.Head), "tail": []byte(c.Tail)} {
		if err := os.WriteFile(filepath.Join(c.Dir, name), content, 0o600); err != nil {
			return Result{}, fmt.Errorf("write requests for wrk: %w", err)
		}
	}
	args = append(args, filepath.Join(c.Dir, "codes"), strconv.Itoa(c.CodeLength),
		filepath.Join(c.Dir, "head"), filepath.Join(c.Dir, "tail"), strconv.Itoa(c.Threads))
	ctx, cancel := context.WithTimeout(ctx, c.Duration+30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "wrk", args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return Result{}, fmt.Errorf("run wrk: %w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	return Parse(out)
}

// Parse reads the line that visit.lua writes among wrk's own.
func Parse(out []byte) (Result, error) {
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		fields, ok := strings.CutPrefix(lines.Text(), "visited ")
		if !ok {
			continue
		}
		values := map[string]int64{}
		for field := range strings.FieldsSeq(fields) {
			key, text, _ := strings.Cut(field, "=")
			value, err := strconv.ParseInt(text, 10, 64)
			if err != nil || value < 0 {
				return Result{}, fmt.Errorf("wrk counted %q", field)
			}
			values[key] = value
		}
		if len(values) != 9 || values["microseconds"] == 0 {
			return Result{}, fmt.Errorf("wrk counted %q", fields)
		}
		return Result{
			Requests: values["requests"], Failed: values["status"],
			Broken:   values["connect"] + values["read"] + values["write"] + values["timeout"],
			Duration: time.Duration(values["microseconds"]) * time.Microsecond,
			P50:      time.Duration(values["p50"]) * time.Microsecond,
			P99:      time.Duration(values["p99"]) * time.Microsecond,
		}, nil
	}
	return Result{}, errors.New("wrk counted nothing")
}
