package waypost_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	markdownLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading      = regexp.MustCompile(`(?m)^#+ (.+)$`)
	notInAnchors = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	codeBlock    = regexp.MustCompile("(?s)```.*?```")
)

// A link of the documentation leads to a file, and to a heading if it names one.
func TestDocumentation_LinksLeadSomewhere(t *testing.T) {
	checked := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "node_modules" || d.Name() == "bin" || d.Name() == ".git") {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".md" {
			return nil
		}
		text := codeBlock.ReplaceAllString(read(t, path), "")
		for _, found := range markdownLink.FindAllStringSubmatch(text, -1) {
			to, anchor, _ := strings.Cut(found[1], "#")
			if strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") {
				continue
			}
			checked++
			file := path
			if to != "" {
				file = filepath.Join(filepath.Dir(path), filepath.FromSlash(to))
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s links to %s, which does not exist", path, found[1])
			} else if anchor != "" && filepath.Ext(file) == ".md" && !anchors(read(t, file))[anchor] {
				t.Errorf("%s links to %s, which has no such heading", path, found[1])
			}
		}
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, checked, 200, "the pages were read")
}

// anchors returns the names by which the headings of a page can be linked to.
func anchors(page string) map[string]bool {
	names := map[string]bool{}
	for _, found := range heading.FindAllStringSubmatch(page, -1) {
		name := notInAnchors.ReplaceAllString(strings.ToLower(found[1]), "")
		names[strings.ReplaceAll(name, " ", "-")] = true
	}
	return names
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

// The first column of a page about a life has files, and the second functions in them.
func TestLifePages_NameFunctionsThatExist(t *testing.T) {
	pages, err := filepath.Glob("docs/life-of-*.md")
	require.NoError(t, err)
	checked := 0
	for _, page := range pages {
		for line := range strings.Lines(read(t, page)) {
			cells := strings.Split(line, "|")
			if len(cells) != 5 {
				continue
			}
			source := ""
			for _, file := range inlineCode.FindAllStringSubmatch(cells[1], -1) {
				if strings.HasSuffix(file[1], ".go") {
					source += read(t, file[1])
				}
			}
			for _, name := range inlineCode.FindAllStringSubmatch(cells[2], -1) {
				function := name[1][strings.LastIndex(name[1], ".")+1:]
				if source != "" && !regexp.MustCompile(`(?m)^func (\([^)]*\) )?`+function+`\b`).MatchString(source) {
					t.Errorf("%s names %s, which none of its files has", page, name[1])
				}
				checked++
			}
		}
	}
	require.Greater(t, checked, 80, "the pages were read")
}
