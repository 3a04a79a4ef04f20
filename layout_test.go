package waypost_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// layer names a part of the tree and the layers that it may import. A directory belongs
// to the layer with the longest matching path. Packages of the same layer may import one
// another.
type layer struct {
	path    string
	mayUse  []string // paths of layers; "" is the root package
	stdOnly bool     // beyond that, only the standard library
}

// layers repeats the table of DESIGN.md. Imports point down it, and only where they are
// permitted.
var layers = []layer{
	{path: "cmd", mayUse: []string{
		"internal/dev", "internal/linksource", "internal/rulefile", "client", "edge/node",
		"controlplane/node", "controlplane/postgres", "controlplane/backup", "migrations",
		"controlplane", "edge/server", "edge/gossip", "edge/certs", "rules/agents",
		"internal/config", "api/linkfields", "api", "internal", "",
	}},
	{path: "bench", mayUse: []string{
		"internal/dev", "edge/server", "edge/replica", "edge/clicks", "edge/audience", "replication", "",
	}},
	{path: "deploy/dashboards", stdOnly: true},
	{path: "test", mayUse: []string{"internal/dev", "migrations", "internal"}},
	{path: "internal/dev", mayUse: []string{
		"client", "controlplane", "internal/config", "internal", "",
	}},
	{path: "internal/linksource", mayUse: []string{"client"}},
	{path: "internal/rulefile", mayUse: []string{"api"}},
	{path: "client", mayUse: []string{"api"}},
	{path: "edge/node", mayUse: []string{
		"edge/enrol", "edge/server", "edge/replica", "edge/clicks", "edge/blocks",
		"edge/budgets", "edge/unknown", "edge/audience", "edge/sources", "edge/report", "edge/gossip",
		"edge/certs", "replication", "api/clickbatch", "api", "rules/agents", "rules", "internal", "",
	}},
	{path: "controlplane/node", mayUse: []string{
		"controlplane/httpapi", "controlplane/limit", "controlplane/postgres",
		"controlplane/blocks", "controlplane/fleet", "controlplane/imports", "controlplane/keys",
		"web", "controlplane",
		"edge/replica", "edge/gossip", "edge/certs", "edge/proxy", "replication", "api/clickbatch",
		"api", "keyrange", "internal", "",
	}},
	{path: "controlplane/httpapi/httpapitest", mayUse: []string{
		"controlplane/httpapi", "controlplane/postgres", "controlplane/blocks", "controlplane/fleet",
		"controlplane/imports", "controlplane/keys", "controlplane", "replication",
	}},
	{path: "controlplane/httpapi", mayUse: []string{
		"controlplane/blocks", "controlplane/fleet", "controlplane/imports", "controlplane/keys", "controlplane/limit", "controlplane",
		"internal/linkfile", "api/clickbatch", "api/linkfields", "api", "rules/budget", "rules", "internal", "",
	}},
	{path: "controlplane/postgres", mayUse: []string{
		"controlplane/postgres/analytics", "controlplane/postgres/scoped", "migrations",
		"controlplane/fleet", "controlplane/imports", "controlplane/keys", "controlplane", "replication", "api/linkfields", "api",
		"rules/budget", "keyrange", "internal", "",
	}},
	{path: "controlplane/postgres/analytics", mayUse: []string{
		"controlplane/postgres/scoped", "controlplane", "controlplane/rollup", "api/clickbatch",
		"internal", "",
	}},
	{path: "controlplane/postgres/scoped", mayUse: []string{"controlplane", "api", "internal", ""}},
	{path: "controlplane/backup", mayUse: []string{"migrations", "controlplane", "internal", ""}},
	{path: "migrations"},
	{path: "web", stdOnly: true},
	{path: "edge/enrol", mayUse: []string{"controlplane/fleet", "replication", "api", "internal", ""}},
	{path: "controlplane/blocks", mayUse: []string{"controlplane", "replication", "api", ""}},
	{path: "controlplane/fleet", mayUse: []string{"controlplane", "replication", "api", "internal", ""}},
	{path: "controlplane/imports", mayUse: []string{"controlplane", "internal/linkfile", "api", ""}},
	{path: "controlplane/keys", mayUse: []string{"controlplane", "keyrange", "api", "internal", ""}},
	{path: "controlplane", mayUse: []string{
		"controlplane/target", "replication", "rules/budget", "rules", "api", "internal", "",
	}},
	{path: "controlplane/limit"},
	{path: "controlplane/target", mayUse: []string{""}},
	{path: "controlplane/rollup", mayUse: []string{""}, stdOnly: true},
	{path: "edge/server", mayUse: []string{"edge/fastpath", "edge/proxy", "rules/agents", "rules", "internal", ""}},
	{path: "edge/fastpath", stdOnly: true},
	{path: "edge/replica", mayUse: []string{"edge/lookup", "replication", "internal", ""}},
	{path: "edge/lookup", mayUse: []string{""}},
	{path: "edge/clicks", mayUse: []string{"api/clickbatch", "api", "internal", ""}},
	{path: "edge/blocks", mayUse: []string{"replication", "internal", ""}},
	{path: "edge/budgets", mayUse: []string{"api", "rules/budget", "internal", ""}},
	{path: "edge/unknown", mayUse: []string{"api", "internal", ""}},
	{path: "edge/audience", mayUse: []string{"rules/agents", ""}},
	{path: "edge/sources", mayUse: []string{"replication"}},
	{path: "edge/report", mayUse: []string{"api", ""}},
	{path: "edge/gossip", mayUse: []string{""}},
	{path: "edge/certs", mayUse: []string{"internal"}},
	{path: "edge/proxy", stdOnly: true},
	{path: "internal/linkfile", mayUse: []string{"api/linkfields", "api", "rules", "internal", ""}},
	{path: "internal/config", mayUse: []string{"replication", "rules/agents", "internal", ""}},
	{path: "replication", mayUse: []string{"rules", "internal", ""}},
	{path: "api/clickbatch", mayUse: []string{""}, stdOnly: true},
	{path: "api/linkfields", mayUse: []string{"api", ""}, stdOnly: true},
	{path: "api", mayUse: []string{"rules", ""}, stdOnly: true},
	{path: "rules/budget", stdOnly: true},
	{path: "rules", mayUse: []string{"rules/agents", ""}},
	{path: "rules/agents", mayUse: []string{""}},
	{path: "keyrange", mayUse: []string{""}, stdOnly: true},
	{path: "internal", mayUse: []string{""}},
	{path: "", stdOnly: true},
}

const module = "waypost"

// maxMethods bounds a type to what a reader can hold in mind.
const maxMethods = 45

func TestTypes_HaveAtMost45Methods(t *testing.T) {
	files, err := sources()
	require.NoError(t, err)
	methods := make(map[string]int) // by package and type
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, decl := range parsed.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv != nil {
				methods[path.Dir(file)+"."+receiver(f.Recv.List[0].Type)]++
			}
		}
	}
	require.Greater(t, len(methods), 100, "the tree was found")
	for name, n := range methods {
		if n > maxMethods {
			t.Errorf("%s has %d methods: split it along its state", name, n)
		}
	}
}

// bareVerbs are names that do not say what a function does it to, and maxBare bounds how
// many functions may have each of them: a search for a step by its verb finds one room.
var bareVerbs = []string{"take", "add", "end", "begin", "judge", "look", "note", "settle"}

const maxBare = 5

func TestFunctions_NameTheirObjects(t *testing.T) {
	files, err := sources()
	require.NoError(t, err)
	named := make(map[string][]string) // files by name
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, decl := range parsed.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok {
				named[f.Name.Name] = append(named[f.Name.Name], file)
			}
		}
	}
	require.NotEmpty(t, named["main"], "the tree was found")
	for _, verb := range bareVerbs {
		if n := len(named[verb]); n > maxBare {
			t.Errorf("%d functions are called %s: name their objects, in %v", n, verb, named[verb])
		}
	}
}

// receiver returns the name of a method's type.
func receiver(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.IndexListExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	}
	return ""
}

func TestLayout_ImportsPointDownTheTable(t *testing.T) {
	files, err := sources()
	require.NoError(t, err)
	require.Greater(t, len(files), 50, "the tree was found")
	used := make(map[[2]string]bool) // by layer and layer
	for _, file := range files {
		imports, err := importsOf(file)
		require.NoError(t, err)
		for _, imported := range imports {
			if err := allowed(path.Dir(file), imported); err != nil {
				t.Errorf("%s: %v", file, err)
			}
			from, _ := layerOf(path.Dir(file))
			if to, ok := layerOf(inModule(imported)); ok {
				used[[2]string{from.path, to.path}] = true
			}
		}
	}
	above := make(map[string]bool)
	for _, l := range layers {
		above[l.path] = true
		for _, use := range l.mayUse {
			if above[use] {
				t.Errorf("%q may use %q, which is above it in the table", l.path, use)
			}
			if !used[[2]string{l.path, use}] {
				t.Errorf("%q may use %q, and does not: take the permission out", l.path, use)
			}
		}
	}
}

// Without this test the one above would pass if allowed never returned an error.
func TestLayout_FindsForbiddenImports(t *testing.T) {
	for _, c := range []struct {
		dir, imported string
		ok            bool
	}{
		{"edge/server", "waypost/controlplane", false},
		{"edge/replica", "waypost/edge/server", false},
		{"edge/replica", "waypost/edge/lookup", true},
		{"edge/report", "waypost/edge/replica", false},
		{"edge/lookup", "waypost/replication", false},
		{"edge/server", "waypost/edge/certs", false},
		{"edge/server", "waypost/edge/audience", false},
		{"edge/server", "waypost/edge/replica", false},
		{"edge/clicks", "waypost/edge/audience", false},
		{"edge/clicks", "waypost/internal/failpoint", true},
		{"edge/lookup", "waypost/internal/failpoint", false},
		{"internal/pgserver", "waypost/controlplane", false},
		{"controlplane", "waypost/edge/server", false},
		{"controlplane", "waypost/edge/replica", false},
		{"controlplane", "waypost/controlplane/postgres", false},
		{"controlplane", "waypost/controlplane/fleet", false},
		{"controlplane", "waypost/controlplane/keys", false},
		{"controlplane", "waypost/controlplane/blocks", false},
		{"controlplane/postgres", "waypost/controlplane", true},
		{"controlplane/httpapi", "waypost/controlplane/postgres", false},
		{"client", "waypost/controlplane", false},
		{"replication", "waypost", true},
		{"replication", "waypost/rules", true},
		{"replication", "waypost/edge/replica", false},
		{"replication", "github.com/klauspost/compress/zstd", true},
		{"keyrange", "github.com/klauspost/compress/zstd", false},
		{".", "encoding/json", true},
		{".", "github.com/jackc/pgx/v5", false},
		{".", "waypost/keyrange", false},
		{"cmd/waypost", "waypost/controlplane/postgres", true},
		{"edge/server", "waypost/internal/config", false},
		{"edge/node", "waypost/controlplane", false},
		{"edge/node", "waypost/controlplane/httpapi", false},
		{"edge/node", "waypost/internal/config", false},
		{"controlplane/node", "waypost/edge/node", false},
		{"controlplane/node", "waypost/edge/server", false},
		{"controlplane/node", "waypost/internal/config", false},
		{"edge/enrol", "waypost/controlplane/postgres", false},
		{"edge/unheardof", "waypost", false},
		{"unheardof", "waypost", false},
	} {
		err := allowed(c.dir, c.imported)
		require.Equal(t, c.ok, err == nil, "%s importing %s: %v", c.dir, c.imported, err)
	}
}

// foreign names the directories that hold no package of the product.
var foreign = map[string]bool{"testdata": true, "tools": true, "bin": true, "node_modules": true}

// sources returns the Go files of the module without tests, which may import anything.
func sources() ([]string, error) {
	var files []string
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := d.Name()
		if d.IsDir() && name != "." && (strings.HasPrefix(base, ".") || foreign[base]) {
			return filepath.SkipDir
		}
		if !d.IsDir() && strings.HasSuffix(base, ".go") && !strings.HasSuffix(base, "_test.go") {
			files = append(files, filepath.ToSlash(name))
		}
		return nil
	})
	return files, err
}

func importsOf(file string) ([]string, error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	if err != nil {
		return nil, err
	}
	var imports []string
	for _, spec := range parsed.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		imports = append(imports, imported)
	}
	return imports, nil
}

// allowed returns an error if the package in dir may not import the other one.
func allowed(dir, imported string) error {
	from, ok := layerOf(dir)
	if !ok {
		return fmt.Errorf("%s is in no layer of the table: add it to layout_test.go and DESIGN.md", dir)
	}
	if imported != module && !strings.HasPrefix(imported, module+"/") {
		if from.stdOnly && strings.Contains(strings.SplitN(imported, "/", 2)[0], ".") {
			return fmt.Errorf("imports %s, but may use the standard library only", imported)
		}
		return nil
	}
	to, ok := layerOf(inModule(imported))
	if ok && to.path == from.path {
		return nil
	}
	for _, use := range from.mayUse {
		if ok && to.path == use {
			return nil
		}
	}
	return fmt.Errorf("imports %s, which does not lie below %q in the table of DESIGN.md", imported, from.path)
}

// inModule returns the directory of a package of the module; "unknown" for any other.
func inModule(imported string) string {
	if imported == module {
		return "."
	}
	if dir, ok := strings.CutPrefix(imported, module+"/"); ok {
		return dir
	}
	return "unknown"
}

func layerOf(dir string) (layer, bool) {
	if dir == "." {
		dir = ""
	}
	best, found := layer{}, false
	for _, l := range layers {
		if l.path == dir || l.path != "" && strings.HasPrefix(dir, l.path+"/") {
			if !found || len(l.path) > len(best.path) {
				best, found = l, true
			}
		}
	}
	return best, found
}
