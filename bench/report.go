package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Report is a run: what was measured, and how.
type Report struct {
	Made     time.Time `json:"made"`
	Command  string    `json:"command"`
	Machine  Machine   `json:"machine"`
	Settings []Setting `json:"settings"`
	Cases    []Case    `json:"cases"` // the first is what the others are compared with
}

// Machine is what the figures depend on beside the code.
type Machine struct {
	CPU   string `json:"cpu"`
	Cores int    `json:"cores"`
	OS    string `json:"os"`
	Go    string `json:"go"`
}

// Setting is a choice that a reader has to know to make the figures again.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Case is one thing that was measured.
type Case struct {
	Name     string    `json:"name"`
	What     string    `json:"what"` // one sentence
	Requests int64     `json:"requests"`
	Rounds   []float64 `json:"cpu_us_per_request_rounds"` // microseconds of user and system time of the server process
	CPU      Summary   `json:"cpu_us_per_request"`
	Ratio    Summary   `json:"ratio_to_first"`
}

// Compare fills in the summaries of all cases from their rounds.
func (r *Report) Compare() error {
	for i := range r.Cases {
		c := &r.Cases[i]
		ratios, err := Ratios(c.Rounds, r.Cases[0].Rounds)
		if err != nil {
			return fmt.Errorf("comparing %s with %s: %w", c.Name, r.Cases[0].Name, err)
		}
		c.CPU, c.Ratio = Summarize(c.Rounds), Summarize(ratios)
	}
	return nil
}

// Table gives the figures as a table in Markdown, which reads well as it is.
func (r *Report) Table() string {
	var b strings.Builder
	b.WriteString("| case | CPU µs per request, median | min – max | ratio, median | min – max | requests |\n")
	b.WriteString("|---|--:|--:|--:|--:|--:|\n")
	for _, c := range r.Cases {
		fmt.Fprintf(&b, "| %s | %.2f | %.2f – %.2f | %.3f | %.3f – %.3f | %d |\n",
			c.Name, c.CPU.Median, c.CPU.Min, c.CPU.Max, c.Ratio.Median, c.Ratio.Min, c.Ratio.Max, c.Requests)
	}
	return b.String()
}

// Markdown gives RESULTS.md.
func (r *Report) Markdown() string {
	var b strings.Builder
	b.WriteString("# What a redirect costs\n\n")
	b.WriteString(r.Table())
	b.WriteString("\n## What was measured\n\n")
	for _, c := range r.Cases {
		fmt.Fprintf(&b, "* **%s**: %s\n", c.Name, c.What)
	}
	b.WriteString(`
A figure is the user and system time that the server's process used in a round, as the kernel counts it, divided by the
requests that it answered in that round; it holds all that the process does meanwhile, garbage collection too. The client is
another process, whose cost is not in it. The rounds of all cases take turns, so that each is compared with the
first case of its own moment; the ratio is the median of those comparisons. Every answer is checked by the client, and a wrong one
fails the run.

## How it was made

`)
	fmt.Fprintf(&b, "* command: `%s`\n", r.Command)
	fmt.Fprintf(&b, "* date: %s\n", r.Made.UTC().Format("2006-01-02 15:04 MST"))
	fmt.Fprintf(&b, "* machine: %s, %d cores, %s, %s\n", r.Machine.CPU, r.Machine.Cores, r.Machine.OS, r.Machine.Go)
	for _, s := range r.Settings {
		fmt.Fprintf(&b, "* %s: %s\n", s.Name, s.Value)
	}
	return b.String()
}

// Write puts results.json and RESULTS.md into dir, each whole or not at all.
func (r *Report) Write(dir string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the results: %w", err)
	}
	if err := replace(filepath.Join(dir, "results.json"), append(data, '\n')); err != nil {
		return err
	}
	return replace(filepath.Join(dir, "RESULTS.md"), []byte(r.Markdown()))
}

func replace(path string, data []byte) error {
	next := path + ".new"
	err := os.WriteFile(next, data, 0o644)
	if err == nil {
		err = os.Rename(next, path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("writing %s: %w", filepath.Base(path), err), ignoreMissing(os.Remove(next)))
	}
	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
