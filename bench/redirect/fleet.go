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
	"syscall"

	"waypost/bench"
	"waypost/bench/corpus"
)

// fleet is a whole Waypost with as many links: PostgreSQL, a control plane and two edges.
type fleet struct {
	*bench.System
	codes []string // of some links
}

// startFleet starts a system on all processors, and imports the links as a user would.
func (l *comparison) startFleet(ctx context.Context) (_ *fleet, err error) {
	dir, err := l.subdir("fleet-")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "links.csv")
	if err := l.writeCSV(file); err != nil {
		return nil, err
	}
	f := &fleet{}
	err = l.processors.OnAll(func() error {
		binary, err := bench.BuildWaypost(ctx, dir)
		if err != nil {
			return err
		}
		f.System, err = bench.StartSystem(ctx, binary, dir)
		return err
	})
	if err != nil {
		return nil, err
	}
	imported := exec.CommandContext(ctx, f.Binary, "links", "import", file, "--data-dir", f.DataDir)
	if out, err := imported.CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("import links: %w: %.1000s", err, out), f.Stop())
	}
	var page struct {
		URLs []struct {
			ShortCode string `json:"short_code"`
		} `json:"urls"`
	}
	if err := errors.Join(f.AwaitEdges(ctx), f.ask(ctx, http.MethodGet, "/api/v1/urls?limit=100", nil, &page)); err != nil {
		return nil, errors.Join(err, f.Stop())
	}
	for _, link := range page.URLs {
		if len(link.ShortCode) == corpus.CodeLength {
			f.codes = append(f.codes, link.ShortCode)
		}
	}
	if len(f.codes) == 0 {
		return nil, errors.Join(errors.New("no link was imported"), f.Stop())
	}
	return f, nil
}

// writeCSV writes the targets of the links as a file to import.
func (l *comparison) writeCSV(path string) error {
	f, err := newFeed(l.o.Targets, l.links)
	if err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write links: %w", err)
	}
	w := bufio.NewWriter(file)
	fmt.Fprintln(w, "original_url")
	for n := range uint64(l.links) {
		fmt.Fprintf(w, "%q\n", f.location(nil, n, 0)) // no target has a quote in it
	}
	return errors.Join(w.Flush(), file.Close())
}

// ask sends a request to the API.
func (f *fleet) ask(ctx context.Context, method, path string, body, answer any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, f.State.API+path, bytes.NewReader(data))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+f.State.APIKey)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("ask the API: %w", err)
	}
	defer func() { _ = res.Body.Close() }() // it was read
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("the API answers %s %s with %s", method, path, res.Status)
	}
	return json.NewDecoder(res.Body).Decode(answer)
}

// change sets another target of a link, and waits for both edges.
func (f *fleet) change(ctx context.Context, code, target string) (addrs []string, err error) {
	for _, e := range f.State.Edges {
		addrs = append(addrs, e.URL[len("http://"):])
	}
	var link json.RawMessage
	return addrs, f.ask(ctx, http.MethodPatch, "/api/v1/urls/"+code+"?wait=all", map[string]string{"original_url": target}, &link)
}

// lose kills PostgreSQL and the control plane. What would start them again is stopped.
func (f *fleet) lose() error {
	return errors.Join(syscall.Kill(int(f.State.PID), syscall.SIGSTOP),
		syscall.Kill(int(f.State.Control.PID), syscall.SIGKILL), syscall.Kill(int(f.State.Postgres.PID), syscall.SIGKILL))
}

// end stops the system, also after lose. How it ends says nothing then, because parts of
// it were killed.
func (f *fleet) end() {
	_ = syscall.Kill(int(f.State.PID), syscall.SIGCONT)
	_ = f.Stop()
}
