package waypost_test

import (
	"bufio"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Widths in columns; a tab counts as one.
const (
	commentWidth = 90
	codeWidth    = 140
)

// notYetPlain lists the packages and files whose prose has not been rewritten. It only
// shrinks. A directory covers the files directly in it, and with "/..." those below it
// too.
var notYetPlain = []string{
	"cmd/waypost/edge_listeners_test.go",
	"cmd/waypost/replay_test.go",
	"cmd/waypost/replicas_repair_test.go",
	"cmd/waypost/replicas_test.go",
}

// strayWords are words and phrases that readers of English stumble over, with the
// words to use instead. docs/glossary.md explains the rules.
var strayWords = map[string]string{
	`but for`: "except", `anew`: "again", `beside`: "next to, besides", `all the same`: "still", `of late`: "recently",
	`nobody`: "no caller, no process", `whoever`: "name the actor", `so many`: "that many", `for ever`: "forever, until",
	`by itself`: "alone, automatically", `comes to`: "reaches", `gives`: "returns", `tells`: "reports",
}

var (
	strayWord = regexp.MustCompile(`(?i)\b(` + strings.Join(keysOf(strayWords), "|") + `)\b`)
	// clauseAsPredicate finds "x is what …" at the start of a comment.
	clauseAsPredicate = regexp.MustCompile(`^//\s*[A-Za-z_.]+ (is|are) (what|where|who|how|when|whether)\b`)
	// sentenceInside finds a second sentence in a line of Markdown.
	sentenceInside = regexp.MustCompile(`[a-z0-9)\x60"][.!?] +[A-Z]`)
	// longText is a literal or a tag that no line break can shorten.
	longText  = regexp.MustCompile("\"[^\"]{30,}\"|`[^`]{30,}`|`json:[^`]*`")
	directive = regexp.MustCompile(`^//([a-z]+:|nolint|line )`)
)

func TestProse_IsPlainEnglish(t *testing.T) {
	for _, f := range proseFiles(t) {
		if isBelowAny(f, notYetPlain) {
			continue
		}
		for _, fault := range proseFaults(t, f) {
			t.Error(fault)
		}
	}
}

func TestProse_FaultsAreFound(t *testing.T) {
	write := func(name, text string) string {
		file := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	for name, text := range map[string]string{
		"clause.go":  "package p\n\n// x is what a reader stumbles over.\nvar x int\n",
		"word.go":    "package p\n\n// x is made anew.\nvar x int\n",
		"string.go":  "package p\n\nvar x = \"nobody asked\"\n",
		"comment.go": "package p\n\n// " + strings.Repeat("long ", 20) + "\nvar x int\n",
		"code.go":    "package p\n\nvar x = 1" + strings.Repeat(" + 1000", 30) + "\n",
		"two.md":     "One sentence. Another one.\n",
		"word.md":    "It gives an answer.\n",
		"word.sql":   "-- made anew\nSELECT 1;\n",
	} {
		require.NotEmpty(t, proseFaults(t, write(name, text)), name)
	}
	require.Empty(t, proseFaults(t, write("good.go", "package p\n\n// X counts links.\nvar X int\n")))
	require.Empty(t, proseFaults(t, write("good.md", "One sentence.\nAnother one: `a. B` is code.\n\n```\nNot. Prose.\n```\n")))
}

func proseFaults(t *testing.T, file string) []string {
	t.Helper()
	switch filepath.Ext(file) {
	case ".go":
		return goFaults(t, file)
	case ".md":
		return markdownFaults(t, file)
	}
	return lineFaults(t, file)
}

func goFaults(t *testing.T, file string) []string {
	t.Helper()
	var faults []string
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, file, nil, parser.ParseComments)
	require.NoError(t, err)
	report := func(at token.Pos, format string, args ...any) {
		faults = append(faults, fmt.Sprintf("%s: ", fset.Position(at))+fmt.Sprintf(format, args...))
	}
	if ast.IsGenerated(parsed) {
		return nil
	}
	for _, group := range parsed.Comments {
		if clauseAsPredicate.MatchString(group.List[0].Text) {
			report(group.Pos(), "begins with a clause as its predicate: say what it does")
		}
		for _, c := range group.List {
			if directive.MatchString(c.Text) {
				continue
			}
			if column := fset.Position(c.Pos()).Column; column+len([]rune(c.Text))-1 > commentWidth && !strings.Contains(c.Text, "://") && ownLine(fset, parsed, c) {
				report(c.Pos(), "is wider than %d columns", commentWidth)
			}
			for _, word := range strayWord.FindAllString(c.Text, -1) {
				report(c.Pos(), "%q: %s", word, strayWords[strings.ToLower(word)])
			}
		}
	}
	if !strings.HasSuffix(file, "_test.go") {
		ast.Inspect(parsed, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				for _, word := range strayWord.FindAllString(lit.Value, -1) {
					report(lit.Pos(), "%q: %s", word, strayWords[strings.ToLower(word)])
				}
			}
			return true
		})
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	for i, line := range strings.Split(string(text), "\n") {
		if len([]rune(longText.ReplaceAllString(line, ""))) > codeWidth {
			faults = append(faults, fmt.Sprintf("%s:%d: is wider than %d columns", file, i+1, codeWidth))
		}
	}
	return faults
}

// ownLine reports whether the comment stands on a line without code.
func ownLine(fset *token.FileSet, f *ast.File, c *ast.Comment) bool {
	line := fset.Position(c.Pos()).Line
	own := true
	ast.Inspect(f, func(n ast.Node) bool {
		if n == nil || !own {
			return false
		}
		switch n.(type) {
		case *ast.File, *ast.Comment, *ast.CommentGroup:
		default:
			if fset.Position(n.Pos()).Line == line || fset.Position(n.End()).Line == line {
				own = false
			}
		}
		return own
	})
	return own
}

var (
	inlineCode = regexp.MustCompile("`([^`]*)`")
	listNumber = regexp.MustCompile(`^ *[0-9]+\. `)
)

func markdownFaults(t *testing.T, file string) []string {
	t.Helper()
	var faults []string
	fenced := false
	eachLine(t, file, func(n int, line string) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
			return
		}
		if fenced || strings.HasPrefix(line, "    ") {
			return
		}
		prose := listNumber.ReplaceAllString(inlineCode.ReplaceAllString(line, "`x`"), "")
		for _, word := range strayWord.FindAllString(prose, -1) {
			faults = append(faults, fmt.Sprintf("%s:%d: %q: %s", file, n, word, strayWords[strings.ToLower(word)]))
		}
		if !strings.HasPrefix(line, "|") && sentenceInside.MatchString(prose) {
			faults = append(faults, fmt.Sprintf("%s:%d: has two sentences in a line", file, n))
		}
	})
	return faults
}

func lineFaults(t *testing.T, file string) []string {
	t.Helper()
	var faults []string
	eachLine(t, file, func(n int, line string) {
		for _, word := range strayWord.FindAllString(line, -1) {
			faults = append(faults, fmt.Sprintf("%s:%d: %q: %s", file, n, word, strayWords[strings.ToLower(word)]))
		}
	})
	return faults
}

func eachLine(t *testing.T, file string, visit func(n int, line string)) {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		visit(n, lines.Text())
	}
	require.NoError(t, lines.Err())
}

// proseFiles returns every file whose prose is checked.
func proseFiles(t *testing.T) []string {
	t.Helper()
	var files []string
	require.NoError(t, filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := d.Name()
		if d.IsDir() && name != "." && (strings.HasPrefix(base, ".") || base == "testdata" || base == "bin" || base == "node_modules" || base == "dist") {
			return filepath.SkipDir
		}
		switch {
		case d.IsDir(), base == "prose_test.go", base == "RESULTS.md", name == "docs/glossary.md":
		case strings.HasSuffix(base, ".go"), strings.HasSuffix(base, ".md"), strings.HasSuffix(base, ".sql"):
			files = append(files, filepath.ToSlash(name))
		}
		return nil
	}))
	require.Greater(t, len(files), 50, "the tree was found")
	return files
}

// isBelowAny reports whether the file is one of the paths, or lies in one.
func isBelowAny(file string, paths []string) bool {
	for _, p := range paths {
		tree, isTree := strings.CutSuffix(p, "/...")
		if file == p || path.Dir(file) == p || isTree && strings.HasPrefix(file, tree+"/") {
			return true
		}
	}
	return false
}

func keysOf(m map[string]string) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	return keys
}
