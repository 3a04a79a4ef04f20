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

// layers repeats the table of DESIGN.md. Imports point down it.
var layers = []layer{
	{path: "cmd", mayUse: []string{
		"api", "internal/config", "internal/dev", "internal/enrol", "internal/linkimport",
		"internal/rulefile", "edge/node", "edge/server", "edge/replica", "edge/certs", "edge/gossip",
		"edge/handover", "controlplane/node", "controlplane/postgres", "controlplane/backup",
		"controlplane/target", "controlplane", "migrations", "client", "internal", "",
	}},
	{path: "bench", mayUse: []string{
		"api", "api/clickbatch", "internal/dev", "internal/config", "cmd", "controlplane",
		"controlplane/rollup", "controlplane/postgres", "edge/server", "edge/replica",
		"edge/lookup", "edge/clicks", "replication", "keyrange", "migrations",
		"controlplane/httpapi", "edge/audience", "client", "internal", "rules", "",
	}},
	{path: "deploy/dashboards", stdOnly: true},
	{path: "test", mayUse: []string{
		"deploy/dashboards", "api", "internal/dev", "internal/config", "migrations", "client", "internal",
		"edge/replica", "edge/server", "replication", "keyrange", "rules", "controlplane",
		"controlplane/postgres", "",
	}},
	{path: "client", mayUse: []string{"api", ""}},
	{path: "controlplane/httpapi", mayUse: []string{
		"api", "api/clickbatch", "controlplane", "controlplane/rollup", "controlplane/limit",
		"rules", "rules/budget", "",
	}},
	{path: "controlplane/limit"},
	{path: "api", mayUse: []string{"rules", ""}, stdOnly: true},
	{path: "api/clickbatch", mayUse: []string{""}, stdOnly: true},
	{path: "controlplane/postgres", mayUse: []string{
		"api/clickbatch", "controlplane", "controlplane/rollup", "replication", "keyrange",
		"rules/budget", "migrations", "internal", "",
	}},
	{path: "controlplane/backup", mayUse: []string{"controlplane", "migrations", "internal", ""}},
	{path: "controlplane/target", mayUse: []string{""}},
	{path: "controlplane/rollup", mayUse: []string{""}, stdOnly: true},
	{path: "controlplane", mayUse: []string{
		"controlplane/target", "controlplane/rollup", "replication", "keyrange", "rules",
		"rules/budget", "",
	}},
	{path: "edge/node", mayUse: []string{
		"api", "api/clickbatch", "edge/server", "edge/replica", "edge/lookup", "edge/clicks",
		"edge/audience", "edge/blocks", "edge/budgets", "edge/gossip", "edge/certs", "edge/handover", "edge/peers",
		"edge/report", "internal/enrol", "replication", "rules", "internal", "",
	}},
	{path: "controlplane/node", mayUse: []string{
		"api", "api/clickbatch", "controlplane", "controlplane/httpapi", "controlplane/limit",
		"controlplane/postgres", "edge/replica", "edge/gossip", "edge/certs", "edge/proxy",
		"replication", "keyrange", "web", "internal", "",
	}},
	{path: "edge/server", mayUse: []string{"edge/fastpath", "edge/proxy", "rules", "internal", ""}},
	{path: "edge/fastpath", stdOnly: true},
	{path: "edge/replica", mayUse: []string{
		"edge/lookup", "replication", "keyrange", "internal", "",
	}},
	{path: "edge/lookup", mayUse: []string{""}},
	{path: "edge/clicks", mayUse: []string{"api", "api/clickbatch", "internal", ""}},
	{path: "edge/blocks", mayUse: []string{"replication", "internal", ""}},
	{path: "edge/budgets", mayUse: []string{"api", "rules/budget", "internal", ""}},
	{path: "edge/audience", mayUse: []string{"rules", "internal", ""}},
	{path: "edge/gossip", mayUse: []string{"internal", ""}},
	{path: "edge/proxy", stdOnly: true},
	{path: "edge/certs", mayUse: []string{"internal"}},
	{path: "edge/handover", mayUse: []string{"internal"}},
	{path: "edge/peers", mayUse: []string{"replication", "internal", ""}},
	{path: "edge/report", mayUse: []string{"api", ""}},
	{path: "edge", mayUse: []string{
		"edge/server", "edge/replica", "edge/lookup", "edge/clicks", "edge/gossip",
		"edge/proxy", "replication", "keyrange", "internal", "",
	}},
	{path: "replication", mayUse: []string{"keyrange", "rules", "internal", ""}},
	{path: "keyrange", mayUse: []string{""}, stdOnly: true},
	{path: "rules", mayUse: []string{""}},
	{path: "rules/budget", stdOnly: true},
	{path: "migrations"},
	{path: "web", stdOnly: true},
	{path: "internal/config", mayUse: []string{"replication", "internal", ""}},
	{path: "internal/dev", mayUse: []string{
		"api", "client", "controlplane", "internal/config", "internal", "",
	}},
	{path: "internal/enrol", mayUse: []string{
		"api", "controlplane", "replication", "internal", "",
	}},
	{path: "internal/linkimport", mayUse: []string{"api", "client", "internal", ""}},
	{path: "internal/rulefile", mayUse: []string{"api"}},
	{path: "internal", mayUse: []string{""}},
	{path: "", stdOnly: true},
}

const module = "waypost"

// maxMethods bounds a type to what a reader can hold in mind.
const maxMethods = 45

func TestTypes_HaveAtMost45Methods(t *testing.T) {
	files, err := sources(".")
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
	files, err := sources(".")
	require.NoError(t, err)
	require.Greater(t, len(files), 50, "the tree was found")
	for _, file := range files {
		imports, err := importsOf(file)
		require.NoError(t, err)
		for _, imported := range imports {
			if err := allowed(path.Dir(file), imported); err != nil {
				t.Errorf("%s: %v", file, err)
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
		{"edge/handover", "waypost/edge/replica", false},
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
		{"controlplane/postgres", "waypost/controlplane", true},
		{"controlplane/httpapi", "waypost/controlplane/postgres", false},
		{"client", "waypost/controlplane", false},
		{"replication", "waypost", true},
		{"replication", "waypost/keyrange", true},
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
		{"edge/unheardof", "waypost", true},
		{"unheardof", "waypost", false},
	} {
		err := allowed(c.dir, c.imported)
		require.Equal(t, c.ok, err == nil, "%s importing %s: %v", c.dir, c.imported, err)
	}
}

// foreign names the directories that hold no package of the product.
var foreign = map[string]bool{"testdata": true, "tools": true, "bin": true, "node_modules": true}

// sources returns the Go files of the module without tests, which may import anything.
func sources(root string) ([]string, error) {
	var files []string
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := d.Name()
		if d.IsDir() && name != root && (strings.HasPrefix(base, ".") || foreign[base]) {
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
	to, ok := layerOf(strings.TrimPrefix(strings.TrimPrefix(imported, module), "/"))
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
