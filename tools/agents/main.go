// Command agents writes the marks of bots in rules/agents/bots.txt, from the patterns of
// the npm packages crawler-user-agents and isbot, with their licenses: see refresh.sh. It
// reports the patterns that it cannot write as marks.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// pattern is a regular expression of a list.
type pattern struct {
	text      string
	instances []string // agents that it is meant for
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 4 {
		log.Fatal("usage: agents NODE_MODULES LEFT_OUT BOTS")
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		log.Fatal("agents: ", err)
	}
}

func run(packages, leftOut, to string) error {
	crawlers, err := readCrawlers(filepath.Join(packages, "crawler-user-agents", "crawler-user-agents.json"))
	if err != nil {
		return err
	}
	isbot, err := readIsBot(filepath.Join(packages, "isbot", "index.js"))
	if err != nil {
		return err
	}
	unused, own, err := readLeftOut(leftOut)
	if err != nil {
		return err
	}
	marks := slices.Clone(own)
	for _, p := range slices.Concat(crawlers, isbot) {
		if _, ok := unused[p.text]; ok {
			unused[p.text] = true
			continue
		}
		found, err := marksOf(p.text)
		if err != nil {
			log.Printf("left out: %s: %v", p.text, err)
			continue
		}
		narrow(found, p.instances)
		marks = append(marks, found...)
	}
	for text, used := range unused {
		if !used {
			log.Printf("no list has the pattern %s any more, which %s leaves out", text, leftOut)
		}
	}
	marks = needed(marks)
	for _, p := range crawlers {
		if unused[p.text] {
			continue
		}
		for _, agent := range p.instances {
			if !slices.ContainsFunc(marks, func(m mark) bool { return m.in(agent) }) {
				log.Printf("not found: %s, for %s", agent, p.text)
			}
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, header, versionOf(packages, "crawler-user-agents"), versionOf(packages, "isbot"))
	for _, m := range marks {
		b.WriteString(m.String() + "\n")
	}
	for _, name := range []string{"crawler-user-agents", "isbot"} {
		text, err := os.ReadFile(filepath.Join(packages, name, "LICENSE"))
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "\n# The license of %s:\n#\n", name)
		for line := range strings.Lines(strings.TrimSpace(string(text))) {
			b.WriteString(strings.TrimSpace("# "+line) + "\n")
		}
	}
	if err := os.WriteFile(to, []byte(b.String()), 0o644); err != nil { //nolint:gosec // a source file
		return err
	}
	log.Printf("%d patterns became %d marks", len(crawlers)+len(isbot), len(marks))
	return nil
}

const header = `# Marks of bots, from the patterns of crawler-user-agents %s (MIT) and isbot %s (Unlicense),
# whose licenses are at the end. Written by make agents: do not edit.
#
# An agent with one of these texts, in any case, is a bot. ^ before a text: the agent begins
# with it; <: a word begins there, and no letter or digit is before it. Behind a text, >: a
# word ends there; #: a digit follows; &: the name of a host follows; ~cam: cam is not before.
`

// readCrawlers reads the list of crawler-user-agents.
func readCrawlers(file string) (all []pattern, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var list []struct {
		Pattern   string   `json:"pattern"`
		Instances []string `json:"instances"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for _, e := range list {
		all = append(all, pattern{e.Pattern, e.Instances})
	}
	return all, nil
}

var isBotList = regexp.MustCompile(`(?s)patterns_default = (\[.*?\n\]);`)

// readIsBot reads the list of isbot, which is in its program.
func readIsBot(file string) (all []pattern, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	found := isBotList.FindSubmatch(text)
	if found == nil {
		return nil, fmt.Errorf("%s has no list", file)
	}
	var list []string
	if err := json.Unmarshal(found[1], &list); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for _, p := range list {
		all = append(all, pattern{text: p})
	}
	return all, nil
}

// readLeftOut reads the patterns that are not used, and the marks in their place.
func readLeftOut(file string) (all map[string]bool, instead []mark, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, nil, err
	}
	all = make(map[string]bool)
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSuffix(line, "\n"); line == "" || line[0] == '#' {
			continue
		}
		f := strings.Split(line, "\t")
		if len(f) != 3 || f[2] == "" {
			return nil, nil, fmt.Errorf("%s: the line %q has no three fields", file, line)
		}
		all[f[0]] = false
		if f[1] != "" {
			for _, s := range strings.Split(f[1], "|") {
				instead = append(instead, parse(s))
			}
		}
	}
	return all, instead, nil
}

func versionOf(packages, name string) string {
	text, err := os.ReadFile(filepath.Join(packages, name, "package.json"))
	if err != nil {
		log.Fatal("agents: ", err)
	}
	var p struct {
		Version string `json:"version"`
	}
	if err := json.Unmarshal(text, &p); err != nil {
		log.Fatal("agents: ", err)
	}
	return p.Version
}
