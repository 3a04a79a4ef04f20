// Command console bundles the console's source into files that the control plane serves,
// and checks their sizes against the budgets.
//
//	go run . SOURCE DIRECTORY
//
// The names of the files hold a hash of their content, so that browsers may keep them
// forever; index.html names the current ones.
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

// Budgets in bytes, compressed by gzip.
const (
	maxFirst  = 40 << 10  // scripts before the list of links is shown
	maxStyle  = 10 << 10  // style sheets
	maxAll    = 120 << 10 // everything
	maxPerMap = 15 << 10  // the map of the world, loaded when asked for
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: console SOURCE DIRECTORY")
		os.Exit(2)
	}
	if err := build(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "console:", err)
		os.Exit(1)
	}
}

// build bundles source into an emptied directory.
func build(source, dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	source, err := filepath.Abs(source)
	if err != nil {
		return err
	}
	result := api.Build(api.BuildOptions{
		AbsWorkingDir: source,
		EntryPointsAdvanced: []api.EntryPoint{
			{InputPath: "main.tsx", OutputPath: "console"},
			{InputPath: "style.css", OutputPath: "style"},
			{InputPath: "icon.svg", OutputPath: "icon"},
		},
		Outdir: "/out", EntryNames: "[name]-[hash]", ChunkNames: "[name]-[hash]", AssetNames: "[name]-[hash]",
		Bundle: true, Splitting: true, Format: api.FormatESModule, Target: api.ES2022,
		MinifySyntax: true, MinifyWhitespace: true, MinifyIdentifiers: true, LegalComments: api.LegalCommentsEndOfFile,
		JSX: api.JSXAutomatic, JSXImportSource: "preact",
		Loader:   map[string]api.Loader{".svg": api.LoaderCopy, ".json": api.LoaderJSON},
		Metafile: true, Charset: api.CharsetUTF8, LogLevel: api.LogLevelWarning,
	})
	if len(result.Errors) > 0 {
		return fmt.Errorf("%d errors", len(result.Errors))
	}
	var meta metafile
	if err := json.Unmarshal([]byte(result.Metafile), &meta); err != nil {
		return err
	}
	files := make(map[string][]byte)
	for _, f := range result.OutputFiles {
		files[filepath.Base(f.Path)] = f.Contents
	}
	page, err := os.ReadFile(filepath.Join(source, "index.html"))
	if err != nil {
		return err
	}
	script, style, icon := meta.of("main.tsx"), meta.of("style.css"), meta.of("icon.svg")
	files["index.html"] = []byte(strings.NewReplacer("{{script}}", script, "{{style}}", style, "{{icon}}", icon).Replace(string(page)))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil { //nolint:gosec // files that everybody may read
			return err
		}
	}
	return weigh(files, &meta, script, style)
}

// metafile is the part of esbuild's description of a build that is used here.
type metafile struct {
	Outputs map[string]struct {
		EntryPoint string `json:"entryPoint"`
		Imports    []struct {
			Path string `json:"path"`
			Kind string `json:"kind"`
		} `json:"imports"`
	} `json:"outputs"`
}

// of returns the name of the file that an entry point became.
func (m *metafile) of(entry string) string {
	for name, out := range m.Outputs {
		if out.EntryPoint == entry {
			return filepath.Base(name)
		}
	}
	return ""
}

// needed adds a file, and all files that it imports at once, to a set.
func (m *metafile) needed(file string, set map[string]bool) {
	if set[file] {
		return
	}
	set[file] = true
	for name, out := range m.Outputs {
		if filepath.Base(name) != file {
			continue
		}
		for _, i := range out.Imports {
			if i.Kind == "import-statement" {
				m.needed(filepath.Base(i.Path), set)
			}
		}
	}
}

// weigh prints the compressed size of each file, and fails when a budget is exceeded.
func weigh(files map[string][]byte, meta *metafile, script, style string) error {
	first := make(map[string]bool)
	meta.needed(script, first)
	for name, out := range meta.Outputs {
		if out.EntryPoint == "screens/links/links.tsx" { // the first screen
			meta.needed(filepath.Base(name), first)
		}
	}
	var all, before int
	var names []string
	sizes := make(map[string]int)
	for name, content := range files {
		size, err := compressed(content)
		if err != nil {
			return err
		}
		names, sizes[name], all = append(names, name), size, all+size
		if first[name] {
			before += size
		}
	}
	slices.SortFunc(names, func(a, b string) int { return sizes[b] - sizes[a] })
	for _, name := range names {
		fmt.Printf("%8d %s\n", sizes[name], name)
	}
	fmt.Printf("%8d first screen, of %d\n%8d style, of %d\n%8d all, of %d\n", before, maxFirst, sizes[style], maxStyle, all, maxAll)
	var over []error
	for _, b := range []struct {
		what       string
		size, most int
	}{{"the first screen", before, maxFirst}, {"the style sheet", sizes[style], maxStyle}, {"everything", all, maxAll}} {
		if b.size > b.most {
			over = append(over, fmt.Errorf("%s has %d bytes and may have %d", b.what, b.size, b.most))
		}
	}
	for _, name := range names {
		if strings.HasPrefix(name, "world-") && sizes[name] > maxPerMap {
			over = append(over, fmt.Errorf("the map has %d bytes and may have %d", sizes[name], maxPerMap))
		}
	}
	return errors.Join(over...)
}

func compressed(content []byte) (int, error) {
	var buf bytes.Buffer
	w, err := gzip.NewWriterLevel(&buf, gzip.BestCompression)
	if err != nil {
		return 0, err
	}
	if _, err := w.Write(content); err != nil {
		return 0, err
	}
	err = w.Close()
	return buf.Len(), err
}
