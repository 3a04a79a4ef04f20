//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"waypost/bench/corpus"
)

const golinkModule = "github.com/tailscale/golink"

// golinkLinks is as many as it takes in within seconds: it saves each by itself.
const golinkLinks = 10_000

// startGolink builds golink, where the module proxy serves it, and starts it.
func (l *lab) startGolink(ctx context.Context, r *rivalry) (*target, error) {
	dir, err := os.MkdirTemp(l.dir, "golink-")
	if err != nil {
		return nil, fmt.Errorf("making a directory for golink: %w", err)
	}
	buildCtx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for _, args := range [][]string{
		{"mod", "init", "rival"},
		{"get", golinkModule + "@latest"},
		{"build", "-mod=mod", "-o", "golink", golinkModule + "/cmd/golink"},
	} {
		build := exec.CommandContext(buildCtx, "go", args...)
		build.Dir, build.Env = dir, append(os.Environ(), "GOFLAGS=", "GOWORK=off")
		if out, err := build.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, withoutAddresses(string(out)))
		}
	}
	r.links = min(r.links, golinkLinks)
	if err := l.writeGolinks(filepath.Join(dir, "links.json"), r.links); err != nil {
		return nil, err
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	t, err := external{
		name: filepath.Join(dir, "golink"), grace: 2 * time.Minute,
		args:  []string{"-dev-listen", addr, "-sqlitedb", filepath.Join(dir, "db"), "-snapshot", filepath.Join(dir, "links.json")},
		ready: func(ctx context.Context) error { return dialOnce(ctx, addr) },
	}.start(ctx, dir)
	if err != nil {
		return nil, err
	}
	t.addr = addr
	if r.links < golinkLinks {
		return t, nil
	}
	r.notes = append(r.notes, fmt.Sprintf("golink holds %s links only: it takes them in one by one.", count(r.links)))
	return t, nil
}

// withoutAddresses leaves out where a module was looked for, which is another place
// on every machine.
func withoutAddresses(text string) string {
	var kept []string
	for word := range strings.FieldsSeq(text) {
		if !strings.Contains(word, "://") {
			kept = append(kept, word)
		}
	}
	return strings.Join(kept, " ")
}

// writeGolinks writes a snapshot as golink's /.export gives it.
func (l *lab) writeGolinks(path string, links int) error {
	f, err := newFeed(l.o.Targets, links)
	if err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(file)
	lines := json.NewEncoder(w)
	for n := range uint64(links) {
		err := lines.Encode(map[string]any{
			"Short": string(corpus.AppendCode(nil, n)), "Long": string(f.location(nil, n, 0)),
			"Created": time.Now(), "LastEdit": time.Now(), "Owner": "bench@example.com",
		})
		if err != nil {
			return errors.Join(err, file.Close())
		}
	}
	return errors.Join(w.Flush(), file.Close())
}

// oneLine makes an error fit into a list.
func oneLine(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	if len(text) > 400 {
		text = string(bytes.ToValidUTF8([]byte(text[:400]), nil)) + "…"
	}
	return "`" + strings.ReplaceAll(text, "`", "'") + "`"
}

// getOnce asks a server for a link, and gives the status.
func getOnce(ctx context.Context, client *http.Client, addr string, code []byte) (int, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/"+string(code), nil)
	if err != nil {
		return 0, err
	}
	answer, err := client.Do(r)
	if err != nil {
		return 0, err
	}
	return answer.StatusCode, answer.Body.Close()
}
