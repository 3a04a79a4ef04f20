// Package wrk runs wrk, the HTTP load generator, with requests that were made
// before, and reads what it counted. It keeps every connection busy with one
// request at a time (a closed loop): that shows what a request costs, not how long
// a visitor waits.
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

// Config is one run.
type Config struct {
	Addr        string
	Dir         string // for files; the caller's
	Codes       []byte // each CodeLength bytes; visited in turn, from the beginning again at their end
	CodeLength  int
	Head, Tail  string // of every request, around the code
	Connections int
	Threads     int
	Duration    time.Duration // whole seconds
}

// Result is what wrk counted.
type Result struct {
	Requests int64 // answered
	Failed   int64 // of these, with a status of 400 or more
	Broken   int64 // connections and requests that came to nothing
	Duration time.Duration
}

// PerSecond is the rate of answers.
func (r Result) PerSecond() float64 { return float64(r.Requests) / r.Duration.Seconds() }

// Run runs wrk once and waits for it.
func Run(ctx context.Context, c Config) (Result, error) {
	if c.Duration < time.Second || c.Duration%time.Second != 0 {
		return Result{}, fmt.Errorf("wrk runs for whole seconds, not %s", c.Duration)
	}
	args := []string{
		"-t", strconv.Itoa(c.Threads), "-c", strconv.Itoa(c.Connections), "-d", c.Duration.String(),
		"-s", filepath.Join(c.Dir, "visit.lua"), "http://" + c.Addr + "/", "--",
	}
	for name, content := range map[string][]byte{"visit.lua": script, "codes": c.Codes, "head": []byte(c.Head), "tail": []byte(c.Tail)} {
		if err := os.WriteFile(filepath.Join(c.Dir, name), content, 0o600); err != nil {
			return Result{}, fmt.Errorf("writing requests for wrk: %w", err)
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
		return Result{}, fmt.Errorf("running wrk: %w: %s", err, bytes.TrimSpace(stderr.Bytes()))
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
		if len(values) != 7 || values["microseconds"] == 0 {
			return Result{}, fmt.Errorf("wrk counted %q", fields)
		}
		return Result{
			Requests: values["requests"], Failed: values["status"],
			Broken:   values["connect"] + values["read"] + values["write"] + values["timeout"],
			Duration: time.Duration(values["microseconds"]) * time.Microsecond,
		}, nil
	}
	return Result{}, errors.New("wrk counted nothing")
}
