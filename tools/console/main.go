// Command console bundles the console's source into files that the control plane serves,
// and checks their sizes against the budgets.
//
//	go run . SOURCE DIRECTORY
//	go run . -tests SOURCE DIRECTORY    bundles the unit tests, *.test.ts, for node --test
//
// The console is built once for each language. The names of the files hold a hash of
// their content, so that browsers may keep them forever; index.html names the current
// ones.
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

// Budgets in bytes, compressed by gzip, of the files that a browser loads in one
// language.
const (
	maxFirst = 40 << 10  // scripts until the list of links is shown
	maxStyle = 10 << 10  // the style sheet
	maxAll   = 125 << 10 // everything
	maxMap   = 15 << 10  // the map of the world, loaded when asked for
)

func main() {
	run, args := build, os.Args[1:]
	if len(args) > 0 && args[0] == "-tests" {
		run, args = buildTests, args[1:]
	}
	if len(args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: console [-tests] SOURCE DIRECTORY")
		os.Exit(2)
	}
	if err := run(args[0], args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "console:", err)
		os.Exit(1)
	}
}

// build bundles source into an emptied directory.
func build(source, dir string) error {
	source, err := filepath.Abs(source)
	if err != nil {
		return err
	}
	page, err := os.ReadFile(filepath.Join(source, "index.html"))
	if err != nil {
		return err
	}
	frame, err := bundle(source, "", "boot.ts", "style.css", "icon.svg")
	if err != nil {
		return err
	}
	names := []string{"{{boot}}", frame.of("boot.ts"), "{{style}}", frame.of("style.css"), "{{icon}}", frame.of("icon.svg")}
	files := maps.Clone(frame.files)
	consoles := make(map[string]*built)
	for _, language := range languages {
		if consoles[language], err = bundle(source, language, "main.tsx"); err != nil {
			return err
		}
		names = append(names, "{{"+language+"}}", consoles[language].of("main.tsx"))
		maps.Copy(files, consoles[language].files)
	}
	files["index.html"] = []byte(strings.NewReplacer(names...).Replace(string(page)))
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil { //nolint:gosec // everybody may read them
			return err
		}
	}
	frame.files["index.html"] = files["index.html"]
	var over []error
	for _, language := range languages {
		over = append(over, weigh(frame, consoles[language], language))
	}
	return errors.Join(over...)
}

// browser stands in for the parts of a browser that modules read when they are loaded.
const browser = `globalThis.localStorage ??= { getItem: () => null, setItem: () => {} };
globalThis.navigator ??= { languages: ["en"] };`

// buildTests bundles each unit test of the source, in English, into a directory.
func buildTests(source, dir string) error {
	source, err := filepath.Abs(source)
	if err != nil {
		return err
	}
	var tests []string
	err = filepath.WalkDir(source, func(path string, _ os.DirEntry, err error) error {
		if strings.HasSuffix(path, ".test.ts") {
			tests = append(tests, path)
		}
		return err
	})
	if err != nil {
		return err
	}
	result := api.Build(api.BuildOptions{
		AbsWorkingDir: source, EntryPoints: tests, Outdir: dir, OutExtension: map[string]string{".js": ".mjs"}, Write: true,
		Bundle: true, Platform: api.PlatformNode, Format: api.FormatESModule, Target: api.ES2022, TsconfigRaw: "{}",
		Sourcemap: api.SourceMapInline, Define: map[string]string{"LANGUAGE": `"en"`},
		Banner:  map[string]string{"js": browser},
		Plugins: []api.Plugin{catalogue(source, "en")}, LogLevel: api.LogLevelWarning,
	})
	if len(result.Errors) > 0 {
		return fmt.Errorf("%d errors", len(result.Errors))
	}
	return nil
}

// charts returns a plugin that takes uPlot as its authors have compressed it, which is
// smaller than a build of its modules.
func charts() api.Plugin {
	return api.Plugin{Name: "charts", Setup: func(b api.PluginBuild) {
		b.OnLoad(api.OnLoadOptions{Filter: `uplot/dist/uPlot\.esm\.js$`}, func(args api.OnLoadArgs) (api.OnLoadResult, error) {
			content, err := os.ReadFile(strings.TrimSuffix(args.Path, "esm.js") + "iife.min.js")
			code := string(content) + "\nexport default uPlot;"
			return api.OnLoadResult{Contents: &code, Loader: api.LoaderCopy}, err
		})
	}}
}

// built is the result of a build.
type built struct {
	files map[string][]byte // by name
	meta  metafile
}

// bundle builds entry points, in a language when they have texts.
func bundle(source, language string, entries ...string) (*built, error) {
	points := make([]api.EntryPoint, len(entries))
	for i, entry := range entries {
		name := strings.TrimSuffix(entry, filepath.Ext(entry))
		if language != "" {
			name = "console-" + language
		}
		points[i] = api.EntryPoint{InputPath: entry, OutputPath: name}
	}
	var jsx []string // the frame has none
	if language != "" {
		jsx = []string{filepath.Join(source, "jsx.ts")}
	}
	result := api.Build(api.BuildOptions{
		AbsWorkingDir: source, EntryPointsAdvanced: points,
		Outdir: "/out", EntryNames: "[name]-[hash]", ChunkNames: "[name]-[hash]", AssetNames: "[name]-[hash]",
		Bundle: true, Splitting: true, Format: api.FormatESModule, Target: api.ES2022,
		MinifySyntax: true, MinifyWhitespace: true, MinifyIdentifiers: true, LegalComments: api.LegalCommentsEndOfFile,
		JSX: api.JSXTransform, JSXFactory: "createElement", JSXFragment: "Fragment", Inject: jsx, TsconfigRaw: "{}",
		Define:   map[string]string{"LANGUAGE": fmt.Sprintf("%q", language)},
		Loader:   map[string]api.Loader{".svg": api.LoaderCopy},
		Plugins:  []api.Plugin{catalogue(source, language), charts()},
		Metafile: true, Charset: api.CharsetUTF8, LogLevel: api.LogLevelWarning,
	})
	if len(result.Errors) > 0 {
		return nil, fmt.Errorf("%d errors", len(result.Errors))
	}
	b := &built{files: make(map[string][]byte)}
	for _, f := range result.OutputFiles {
		b.files[filepath.Base(f.Path)] = f.Contents
	}
	return b, json.Unmarshal([]byte(result.Metafile), &b.meta)
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

// of returns the name of the file that an entry point, or a part that is loaded later,
// became.
func (b *built) of(entry string) string {
	for name, out := range b.meta.Outputs {
		if out.EntryPoint == entry {
			return filepath.Base(name)
		}
	}
	return ""
}

// needed adds a file, and all files that it imports at once, to a set.
func (b *built) needed(file string, set map[string]bool) {
	if set[file] {
		return
	}
	set[file] = true
	for name, out := range b.meta.Outputs {
		if filepath.Base(name) != file {
			continue
		}
		for _, i := range out.Imports {
			if i.Kind == "import-statement" {
				b.needed(filepath.Base(i.Path), set)
			}
		}
	}
}

// weigh prints the compressed size of each file that a browser may load in a language,
// and fails when a budget is exceeded.
func weigh(frame, console *built, language string) error {
	first := map[string]bool{frame.of("boot.ts"): true}
	console.needed(console.of("main.tsx"), first)
	files := maps.Clone(frame.files)
	maps.Copy(files, console.files)
	var all, before, world int
	sizes := make(map[string]int)
	for name, content := range files {
		size, err := compressed(content)
		if err != nil {
			return err
		}
		sizes[name], all = size, all+size
		if first[name] {
			before += size
		}
		if strings.HasPrefix(name, "world-") {
			world = size
		}
	}
	style := sizes[frame.of("style.css")]
	for _, name := range slices.SortedFunc(maps.Keys(sizes), func(a, b string) int { return sizes[b] - sizes[a] }) {
		fmt.Printf("%8d %s\n", sizes[name], name)
	}
	var over []error
	for _, b := range []struct {
		what       string
		size, most int
	}{{"first screen", before, maxFirst}, {"style sheet", style, maxStyle}, {"map", world, maxMap}, {"everything", all, maxAll}} {
		fmt.Printf("%8d of %6d %s: %s\n", b.size, b.most, language, b.what)
		if b.size > b.most {
			over = append(over, fmt.Errorf("%s: %s has %d bytes and may have %d", language, b.what, b.size, b.most))
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
