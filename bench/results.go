package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// resultsDir holds a file for each benchmark, in the directory of RESULTS.md.
const resultsDir = "results"

const resultsHead = `# Measurements

Made by the programs below this directory, each file of ` + "`results`" + ` by one of them; this page is made of those files. Figures
of different machines, or of different runs, must not be compared: what was measured side by side is in one table.

`

// Read gives the report of a benchmark as it was last written; one without
// sections when there is none.
func Read(dir, name string) (*Report, error) {
	data, err := os.ReadFile(filepath.Join(dir, resultsDir, name+".json"))
	if errors.Is(err, os.ErrNotExist) {
		return &Report{Name: name}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading earlier results: %w", err)
	}
	r := &Report{}
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("reading earlier results of %s: %w", name, err)
	}
	r.Name = name
	return r, nil
}

// Write puts results/NAME.json into dir, and makes RESULTS.md anew of all files
// there. Each is written whole or not at all.
func (r *Report) Write(dir string) error {
	if r.Name == "" || r.Name != filepath.Base(r.Name) {
		return fmt.Errorf("%q is no name for results", r.Name)
	}
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the results: %w", err)
	}
	if err := os.MkdirAll(filepath.Join(dir, resultsDir), 0o755); err != nil {
		return fmt.Errorf("writing the results: %w", err)
	}
	if err := replace(filepath.Join(dir, resultsDir, r.Name+".json"), append(data, '\n')); err != nil {
		return err
	}
	return Assemble(dir)
}

// Assemble makes RESULTS.md of the files in results, in the order of their names.
func Assemble(dir string) error {
	names, err := filepath.Glob(filepath.Join(dir, resultsDir, "*.json"))
	if err != nil {
		return fmt.Errorf("looking for results: %w", err)
	}
	slices.Sort(names)
	text := resultsHead
	for _, name := range names {
		r, err := Read(dir, strings.TrimSuffix(filepath.Base(name), ".json"))
		if err != nil {
			return err
		}
		text += r.Markdown()
	}
	return replace(filepath.Join(dir, "RESULTS.md"), []byte(strings.TrimRight(text, "\n")+"\n"))
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
