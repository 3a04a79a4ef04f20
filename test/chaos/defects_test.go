package chaos

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"waypost/test/chaos/judge"
	"waypost/test/devtest"
)

// defect is a change of the product that breaks a promise.
type defect struct {
	name         string
	file         string
	old, changed string
	broken       []string // invariants, of which one must be found broken
}

// defects are broken on purpose, one at a time, in builds that are used for nothing else.
// A change that is skipped, a digest that is not checked and the like are not among them:
// the product notices and mends what each of them does, before a visitor sees it.
var defects = []defect{
	{
		"a tombstone is forgotten by the lookup table", "edge/lookup/write.go",
		"	if len(r.Name) == 0 || len(r.Name) > waypost.MaxName || t.closed() {",
		"	if len(r.Name) == 0 || len(r.Name) > waypost.MaxName || t.closed() || r.State != waypost.Live {",
		[]string{"I1", "I3"},
	},
	{
		"a takedown is lost in a restart", "edge/blocks/file.go",
		"	if errors.Is(err, fs.ErrNotExist) {", "	if err == nil || errors.Is(err, fs.ErrNotExist) {",
		[]string{"I14"},
	},
	{
		"a budget is granted twice", "controlplane/postgres/budgets.go",
		"Used: l.base + l.used}", "Used: l.base + l.used/2}",
		[]string{"budget"},
	},
	{
		"a batch that comes again counts again", "controlplane/postgres/clicks.go",
		"$11::bytea[]\nWHERE ` + isNextBatch",
		"$11::bytea[]\nWHERE EXISTS (SELECT FROM click_watermark WHERE node = $1 AND boot = $2 AND seq >= $3::bigint - 1)`",
		[]string{"I6"},
	},
	{
		"a batch without an answer counts as acknowledged", "edge/clicks/shipper.go",
		"	a, err := s.post(ctx, f.body)\n	if err != nil {\n",
		"	a, err := s.post(ctx, f.body)\n	if err != nil {\n		s.catalog.acknowledge(st, true)\n",
		[]string{"I5"},
	},
	{
		"the clicks of a killed process are forgotten", "edge/clicks/recovery.go",
		"	for _, n := range r.segments {\n		r.stream.next", "	for _, n := range r.segments[:0] {\n		r.stream.next",
		[]string{"I5"},
	},
	{
		"an edge that is behind counts as one that has a change", "controlplane/fleet_wait.go",
		"case e.Synced.Epoch == at.Epoch && e.Synced.Seq >= at.Seq:", "case e.Synced.Epoch == at.Epoch:",
		[]string{"I1"},
	},
}

// WAYPOST_CHAOS_DEFECTS has each defect run with the short form, with one seed after the
// other until it is caught.
func TestSystem_DefectsAreCaught(t *testing.T) {
	if os.Getenv("WAYPOST_CHAOS_DEFECTS") == "" {
		t.Skip("WAYPOST_CHAOS_DEFECTS is not set")
	}
	seed, _ := settings(t)
	var table strings.Builder
	table.WriteString("| defect | caught by | seed | after | first violation |\n|---|---|---|---|---|\n")
	for _, d := range defects {
		t.Run(d.name, func(t *testing.T) {
			began := time.Now()
			binary := devtest.Changed(t, "waypost-defect", d.file, d.old, d.changed)
			t.Logf("built in %s", time.Since(began).Round(time.Second))
			for try := seed; try < seed+3; try++ {
				began := time.Now()
				h, found := play(t, binary, try, plan(try, 0), 0)
				n := slices.IndexFunc(found, func(v judge.Violation) bool { return slices.Contains(d.broken, v.Invariant) })
				if n < 0 {
					t.Logf("seed %d does not catch it in %d requests", try, len(h.Operations))
					continue
				}
				v := found[n]
				t.Logf("%d violations, of which the first is %s", len(found), v)
				fmt.Fprintf(&table, "| %s | %s | %d | %.0f s of %.0f s | %s |\n", d.name, v.Invariant, try, v.At.Seconds(), time.Since(began).Seconds(), v.Text)
				return
			}
			t.Error("it is not caught")
		})
	}
	t.Logf("\n%s", table.String())
	if path := os.Getenv("WAYPOST_CHAOS_TABLE"); path != "" && !t.Failed() {
		if err := os.WriteFile(path, []byte(table.String()), 0o600); err != nil {
			t.Error(err)
		}
	}
}
