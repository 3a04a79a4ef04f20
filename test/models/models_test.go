// Package models_test lets Spin search the models of this directory, each of them whole.
// README.md describes the models, and how to read them.
package models_test

import (
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// patience bounds one search, which takes seconds on an idle machine.
const patience = 5 * time.Minute

// models lists for each model its flaws, with a part of the assertion that each violates.
// A flaw breaks one rule of the protocol, and is a name that the model's preprocessor
// asks for.
var models = map[string]map[string]string{
	"clicks": {
		"NO_LOCK":          "primary.counted==sum",
		"COUNTS_RESENDS":   "primary.counted==sum",
		"TWO_TRANSACTIONS": "primary.counted==sum",
		"TAKES_GAPS":       "primary.taken[i]==size[i]",
		"NO_RETENTION":     "primary.taken[i]==size[i]",
		"NEVER_CONFIRMS":   "i<=primary.watermark",
		"REMAKES":          "expired[seq[c]]",
	},
	"budgets": {
		"NEVER_AWAITS":         "spent<=2",
		"NEVER_YOUNG":          "spent<=2",
		"SPENDS_FIRST":         "spent<=2",
		"KEEPS_RETURNED":       "spent<=2",
		"RETURNS_OF_THE_DEAD":  "spent<=2",
		"TAKES_FORMER_ANSWERS": "spent<=2",
		"IGNORES_LOST_DISKS":   "spent<=2",
		"NEVER_BELIEVES":       "spent<=2",
		"FORGETS_SPENT":        "spent<=2",

		"EXHAUSTED_WHEN_GRANTED":   "e[0].left+e[1].left",
		"TAKES_RETURNED_FOR_SPENT": "e[0].left+e[1].left",
		"KEEPS_RECALLED":           "heard",
	},
	"leases": {
		"NO_GAP":          "published[c[p].key]",
		"FORGETS_LEASES":  "published[c[p].key]",
		"NEVER_WITHHOLDS": "published[c[p].key]",
		"RESUMES_LEASES":  "published[c[p].key]",
		"CLAIMS_LEASED":   "published[k]",
		"NO_EPOCHS":       "published[c[p].key]",
		"NO_FENCE":        "db.lo[c[p].ofLease]",
		"KEEPS_RETURNED":  "published[c[p].key]",
	},
	"waiting": {
		"READS_EARLY":       "disk[",
		"NOTES_LATER":       "disk[",
		"FORGETS_ROWS":      "disk[",
		"LEAVES_OUT_SILENT": "disk[",
		"BY_NAME":           "disk[",
		"FAREWELL_FIRST":    "disk[",
		"TELLS_APPLIED":     "disk[",
		"SERVES_AT_ONCE":    "!(said)",
		"SYNCS_FIRST":       "!(heard[k])",
	},
	"history": {
		"LONGER_WINS":        "rank[db[d].epoch]>rank[at.epoch]",
		"ORDINALS_ALONE":     "rank[db[d].epoch]>rank[at.epoch]",
		"FORGETS_SUPERSEDED": "rank[db[d].epoch]>rank[at.epoch]",
		"TAKES_OLDER":        "rank[db[d].epoch]>rank[at.epoch]",
		"TAKES_DIVIDED":      "rank[db[d].epoch]>rank[at.epoch]",
		"TAKES_EARLIER":      "at.epoch!=db[d].epoch",
		"IGNORES_STAMPS":     "(x==n)&&(y==m)",
	},
}

func TestModels_HoldInEveryState(t *testing.T) {
	t.Parallel()
	for model := range models {
		t.Run(model, func(t *testing.T) {
			t.Parallel()
			report := search(t, model, "-O2")
			require.Contains(t, report, "errors: 0", report)
			// Nothing was left out: neither states nor statements.
			for _, sign := range []string{"Search not completed", "max search depth too small", "hash-compact", "Bit statespace"} {
				require.NotContains(t, report, sign, report)
			}
			require.Contains(t, report, "Full statespace search", report)
			require.Contains(t, report, "assertion violations\t+", report)
			require.Contains(t, report, "invalid end states\t+", report)
			text, err := os.ReadFile(model + ".pml")
			require.NoError(t, err)
			lines := strings.Split(string(text), "\n")
			for _, place := range regexp.MustCompile(`\.pml:(\d+), state \d+, "(.*)"`).FindAllStringSubmatch(report, -1) {
				line, err := strconv.Atoi(place[1])
				require.NoError(t, err)
				if place[2] != "-end-" && !strings.Contains(lines[line-1], "/* only in a flaw */") {
					t.Errorf("no step reaches line %d: %s", line, place[2])
				}
			}
			states := regexp.MustCompile(`(\d+) states, stored`).FindStringSubmatch(report)
			took := regexp.MustCompile(`elapsed time ([\d.e+-]+) seconds`).FindStringSubmatch(report)
			require.NotNil(t, states, report)
			require.NotNil(t, took, report)
			t.Logf("%s states, %s s", states[1], took[1])
		})
	}
}

// Without a rule, the search must find the violation that the rule prevents.
func TestModels_FindEveryFlaw(t *testing.T) {
	if testing.Short() {
		t.Skip("make models and make test-long search the variants")
	}
	t.Parallel()
	for model, flaws := range models {
		require.ElementsMatch(t, variants(t, model, "flaw"), slices.Collect(maps.Keys(flaws)), "the flaws of %s are those of the table", model)
		for flaw, violated := range flaws {
			t.Run(model+" "+flaw, func(t *testing.T) {
				t.Parallel()
				report := search(t, model, "-O0", "-D"+flaw)
				_, after, found := strings.Cut(report, "assertion violated")
				require.True(t, found, report)
				assertion, _, _ := strings.Cut(after, "\n")
				require.Contains(t, assertion, violated)
			})
		}
	}
}

// A model that does nothing violates nothing, so each claims in a variant that it never
// reaches an end that it is for.
func TestModels_ReachTheirEnds(t *testing.T) {
	if testing.Short() {
		t.Skip("make models and make test-long search the variants")
	}
	t.Parallel()
	for model := range models {
		ends := variants(t, model, "end")
		require.NotEmpty(t, ends, model)
		for _, end := range ends {
			t.Run(model+" "+end, func(t *testing.T) {
				t.Parallel()
				require.Contains(t, search(t, model, "-O0", "-D"+end), "assertion violated", "the end is not reached")
			})
		}
	}
}

// conditional finds the names that a model's preprocessor asks for.
var conditional = regexp.MustCompile(`(?m)^#if(?:n?def|.*defined\() ?(\w+)|^#elif defined\((\w+)\)`)

// variants returns the names of a model's flaws, or of its ends, which begin with REACH_.
func variants(t *testing.T, model, kind string) []string {
	t.Helper()
	text, err := os.ReadFile(model + ".pml")
	require.NoError(t, err)
	var names []string
	for _, found := range conditional.FindAllStringSubmatch(string(text), -1) {
		name := found[1] + found[2]
		if strings.HasPrefix(name, "REACH_") == (kind == "end") && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// search makes the program that searches a model, runs it until the first error, and
// returns its report. A variant ends soon, so that optimizing would take longer than it
// saves.
func search(t *testing.T, model, optimize string, flags ...string) string {
	t.Helper()
	file, err := filepath.Abs(model + ".pml")
	require.NoError(t, err)
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	run := func(name string, args ...string) string {
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Dir = dir
		// Without attributes Go looks at the new directory first, and keeps no result of
		// the test.
		cmd.SysProcAttr = &syscall.SysProcAttr{}
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s: %s", name, out)
		return string(out)
	}
	_, err = exec.LookPath("spin")
	require.NoError(t, err, "deploy/install-missing.sh spin installs it")
	run("spin", append(append([]string{"-a"}, flags...), file)...)
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "gcc"
	}
	run(cc, optimize, "-w", "-DSAFETY", "-DNOFAIR", "-DMEMLIM=2048", "-o", "pan", "pan.c")
	return run(filepath.Join(dir, "pan"), "-m"+strconv.Itoa(1_000_000), "-w20")
}

// function finds a file and a function in the tables of the page, such as
// `edge/clicks/shipper.go` `shipper.fill`.
var function = regexp.MustCompile("`([a-z/_0-9]+\\.(?:go|sql))`,? `([\\w.]+)`")

func TestPage_NamesFunctionsThatExist(t *testing.T) {
	page := readPage(t)
	named := function.FindAllStringSubmatch(page, -1)
	require.Equal(t, strings.Count(page, ".go`")+strings.Count(page, ".sql`"), len(named), "each file comes with a function")
	for _, name := range named {
		text, err := os.ReadFile(filepath.Join("../..", name[1]))
		require.NoError(t, err)
		receiver, method, isMethod := strings.Cut(name[2], ".")
		pattern := `(?m)^(func|CREATE FUNCTION) ` + receiver + `\(`
		if isMethod {
			pattern = `(?m)^func \(\w+ \*?` + receiver + `\) ` + method + `\(`
		}
		require.Regexp(t, pattern, string(text), "%s has no %s", name[1], name[2])
	}
}

func TestPage_NamesEveryVariant(t *testing.T) {
	page := readPage(t)
	for model := range models {
		for _, name := range append(variants(t, model, "flaw"), variants(t, model, "end")...) {
			require.Contains(t, page, "| `"+name+"` |", model)
		}
	}
}

func readPage(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("README.md")
	require.NoError(t, err)
	return string(page)
}
