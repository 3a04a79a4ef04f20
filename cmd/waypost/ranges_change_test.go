package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEveryChangeIsSentAsItWasAskedFor(t *testing.T) {
	for args, want := range map[string]string{
		"assign --region eu-west-1":             `{"steps": [{"action": "assign", "region": "eu-west-1"}]}`,
		"assign --region eu-west-1 --prefix 4k": `{"steps": [{"action": "assign", "region": "eu-west-1", "prefix": "4k"}]}`,
		"split 7":                               `{"steps": [{"action": "split", "range": 7}]}`,
		"split 7 --at 500":                      `{"steps": [{"action": "split", "range": 7, "at": 500}]}`,
		"move 7 --to eu-west-1":                 `{"steps": [{"action": "move", "range": 7, "region": "eu-west-1"}]}`,
		"move 7 --to eu-west-1 --at 500":        `{"steps": [{"action": "move", "range": 7, "region": "eu-west-1", "at": 500}]}`,
		"move 7 --to eu-west-1 --remainder":     `{"steps": [{"action": "move", "range": 7, "region": "eu-west-1", "remainder": true}]}`,
		"drain 7":                               `{"steps": [{"action": "drain", "range": 7}]}`,
		"revive 7":                              `{"steps": [{"action": "revive", "range": 7}]}`,
		"retire 7":                              `{"steps": [{"action": "retire", "range": 7}]}`,
		"retire 7 --force":                      `{"steps": [{"action": "retire", "range": 7, "force": true}]}`,
		"resume":                                `{"steps": [{"action": "resume"}]}`,
		"resume --gap 0":                        `{"steps": [{"action": "resume", "gap": 0}]}`,
		"resume --gap 40000000":                 `{"steps": [{"action": "resume", "gap": 40000000}]}`,
	} {
		t.Run(args, func(t *testing.T) {
			a := &rangesAPI{}
			words := append([]string{"ranges"}, strings.Fields(args)...)
			require.Equal(t, ran{stdout: "did it\n"}, a.run(t, words...))
			dry := a.run(t, append(words, "--dry-run")...)
			require.Equal(t, ran{stdout: "dry run, nothing was changed; this would be done:\ndid it\n"}, dry)
			inJSON := a.run(t, append(words, "--output=json")...)
			require.Contains(t, object(t, inJSON.stdout), "done")
			require.Len(t, a.changes, 3)
			require.JSONEq(t, want, a.changes[0])
			require.JSONEq(t, strings.TrimSuffix(want, "}")+`, "dry_run": true}`, a.changes[1])
			require.JSONEq(t, want, a.changes[2])
		})
	}
}

func TestAChangeTellsWhatBecameOfLeasesAndRanges(t *testing.T) {
	a := &rangesAPI{answers: map[string]string{"POST /api/admin/ranges/changes": `{"dry_run": false, "done": [
		{"step": {"action": "retire", "range": 1, "force": true}, "what": "range 1 is retired", "fenced": 2,
			"ranges": [` + strings.Replace(listedRange1, `"live"`, `"retired"`, 1) + `]}]}`}}
	got := a.run(t, "ranges", "retire", "1", "--force")
	require.Zero(t, got.code, got.stderr)
	require.Contains(t, got.stdout, "range 1 is retired\n  2 leases that are held become void: their remaining codes are never issued\n")
	require.Regexp(t, `(?m)^1 +eu-west-1 +4g +71.3 % +1,200/min +none +retired`, got.stdout)
}

func TestAChangeOfUnknownOutcomeIsToBeLookedAt(t *testing.T) {
	a := &rangesAPI{refuse: func(string) (int, string) { return 503, `{"detail": "the answer took too long"}` }}
	got := a.run(t, "ranges", "drain", "7")
	require.Equal(t, 1, got.code)
	require.Contains(t, got.stderr, "the answer took too long (503); look with `waypost ranges list` whether it was done")
}

const (
	planned = `{"made_at": "2031-05-06T07:08:09Z", "fingerprint": "f00d", "reason": "",
		"steps": [{"action": "move", "range": 2, "region": "eu-west-1", "at": 458066416}, {"action": "assign", "region": "us-east-1"},
			{"action": "move", "range": 5, "region": "eu-west-1", "remainder": true}],
		"before": [{"region": "eu-west-1", "unissued": 262932852, "rate_per_minute": 1200, "minutes_left": 219110},
			{"region": "us-east-1", "unissued": 916132832, "rate_per_minute": 0, "minutes_left": null}],
		"after": [{"region": "eu-west-1", "unissued": 720999268, "rate_per_minute": 1200, "minutes_left": 600832},
			{"region": "us-east-1", "unissued": 458066416, "rate_per_minute": 0, "minutes_left": null}]}`
	nothingPlanned = `{"made_at": "2031-05-06T07:08:09Z", "fingerprint": "f00d", "reason": "all regions last equally long", "steps": [], "before": [], "after": []}`
)

func TestAPlanIsShownKeptAndCarriedOut(t *testing.T) {
	a := &rangesAPI{answers: map[string]string{"GET /api/admin/ranges/plan": planned}}
	file := filepath.Join(t.TempDir(), "plan.json")
	got := a.run(t, "ranges", "plan", "--out", file)
	require.Equal(t, ran{stdout: strings.Join([]string{
		"1. move range 2 from counter 458,066,416 on to eu-west-1",
		"2. assign a free prefix to us-east-1",
		"3. move the unleased part of range 5 to eu-west-1",
		"",
		"REGION     RATE       UNISSUED     LEFT        UNISSUED THEN  LEFT THEN",
		"eu-west-1  1,200/min  262,932,852  152 days    720,999,268    417 days",
		"us-east-1  0/min      916,132,832  not in use  458,066,416    not in use",
		"",
		"written to " + file + "; carry it out with: waypost ranges apply " + file,
		"",
	}, "\n")}, got)
	kept, err := os.ReadFile(file)
	require.NoError(t, err)
	require.JSONEq(t, planned, string(kept))
	require.JSONEq(t, planned, a.run(t, "ranges", "plan", "--output=json").stdout)
	require.Empty(t, a.changes, "a plan changes nothing")

	dry := a.run(t, "ranges", "apply", file, "--dry-run")
	require.Equal(t, ran{stdout: "dry run, nothing was changed; this would be done:\ndid it\ndid it\ndid it\n"}, dry)
	require.Equal(t, ran{stdout: "did it\ndid it\ndid it\n"}, a.run(t, "ranges", "apply", file))
	require.Equal(t, ran{stdout: "did it\ndid it\ndid it\n"}, a.runWith(t, planned, "ranges", "apply", "-"))
	steps := `"steps": [{"action": "move", "range": 2, "region": "eu-west-1", "at": 458066416}, {"action": "assign", "region": "us-east-1"},
			{"action": "move", "range": 5, "region": "eu-west-1", "remainder": true}], "fingerprint": "f00d"`
	require.Len(t, a.changes, 3)
	require.JSONEq(t, `{`+steps+`, "dry_run": true}`, a.changes[0])
	require.JSONEq(t, `{`+steps+`}`, a.changes[1])
	require.JSONEq(t, `{`+steps+`}`, a.changes[2])
}

func TestAPlanTellsThatItIsNotNeededWhilePrefixesAreFree(t *testing.T) {
	a := &rangesAPI{answers: map[string]string{"GET /api/admin/ranges/plan": planned, "GET /api/admin/ranges": `{"free_prefixes": 3842}`}}
	const note = "none of this is needed now: 3,842 prefixes are free, and a region that runs low takes one automatically"
	require.Contains(t, a.run(t, "ranges", "plan").stdout, note)
	require.NotContains(t, a.run(t, "ranges", "plan", "--output=json").stdout, note)

	a.answers["GET /api/admin/ranges"] = `{"free_prefixes": 0}`
	require.NotContains(t, a.run(t, "ranges", "plan").stdout, "needed")
}

func TestAPlanWithNothingToDoIsASuccess(t *testing.T) {
	a := &rangesAPI{answers: map[string]string{"GET /api/admin/ranges/plan": nothingPlanned}}
	file := filepath.Join(t.TempDir(), "plan.json")
	require.Equal(t, ran{stdout: "nothing to do: all regions last equally long\n"}, a.run(t, "ranges", "plan", "--out", file))
	require.Equal(t, ran{stdout: "nothing to do: the plan has no steps\n"}, a.run(t, "ranges", "apply", file))
	require.JSONEq(t, `{"done": [], "dry_run": false}`, a.run(t, "ranges", "apply", file, "--output=json").stdout)
	require.Empty(t, a.changes)
}

func TestAStalePlanIsRefused(t *testing.T) {
	a := &rangesAPI{refuse: func(string) (int, string) {
		return 409, `{"detail": "the ranges have changed since the plan was made"}`
	}}
	got := a.runWith(t, planned, "ranges", "apply", "-")
	require.Equal(t, ran{code: 1, stderr: "waypost: the plan is not carried out, and nothing was changed: the ranges have changed since the plan was made (409); " +
		"`waypost ranges plan --out FILE` makes another\n"}, got)
}

func TestWhatIsNoPlanIsNotCarriedOut(t *testing.T) {
	a := &rangesAPI{}
	for name, c := range map[string]struct{ text, says string }{
		"nothing":                 {``, "EOF"},
		"no JSON":                 {`steps: []`, "invalid character"},
		"a list of ranges":        {`[` + listedRange1 + `]`, "cannot unmarshal array"},
		"a range":                 {listedRange1, `unknown field "id"`},
		"no fingerprint":          {`{"steps": [{"action": "drain", "range": 1}]}`, "it has no fingerprint"},
		"two plans":               {planned + planned, "something after its end"},
		"a name that is wrong":    {strings.Replace(planned, `"at"`, `"from"`, 1), `unknown field "from"`},
		"more than a plan can be": {`{"fingerprint": "` + strings.Repeat("f", 5<<20) + `"}`, "larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			got := a.runWith(t, c.text, "ranges", "apply", "-")
			require.Equal(t, 1, got.code)
			require.Contains(t, got.stderr, "is no plan of `waypost ranges plan`")
			require.Contains(t, got.stderr, c.says)
		})
	}
	require.Equal(t, 1, a.run(t, "ranges", "apply", filepath.Join(t.TempDir(), "none.json")).code)
	require.Empty(t, a.changes)
	device := a.run(t, "ranges", "plan", "--out", "/dev/null")
	require.Equal(t, exitUsage, device.code)
	require.Contains(t, device.stderr, "/dev/null is no regular file")
}

func TestWrongUsageOfRangesIsOneLineAndChangesNothing(t *testing.T) {
	a := &rangesAPI{}
	for args, want := range map[string]string{
		"bogus":                             `unknown command "bogus" for "waypost ranges"`,
		"show":                              " is missing: the command is `waypost ranges ",
		"show x":                            `ID: "x" is no number of a range`,
		"drain 0":                           `ID: "0" is no number of a range`,
		"assign":                            "--region is missing",
		"assign --region US":                `--region: region "US" must be`,
		"move 7":                            "--to is missing",
		"move 7 --to eu --at -1":            "--at: -1 is no counter",
		"move 7 --to eu --at 5 --remainder": "--remainder or --at, not both",
		"split 7 --at 0":                    "--at: 0 is no counter",
		"split 7 --at half":                 `--at: "half" is no whole number`,
		"resume --gap -5":                   "--gap: -5 is less than nothing",
		"plan now":                          "unknown command",
		"apply":                             " is missing: the command is `waypost ranges ",
		"decode":                            " is missing: the command is `waypost ranges ",
	} {
		got := a.run(t, append([]string{"ranges"}, strings.Fields(args)...)...)
		require.Equal(t, exitUsage, got.code, args)
		require.Contains(t, got.stderr, want)
		require.Equal(t, 1, strings.Count(got.stderr, "\n"), got.stderr)
		require.Empty(t, got.stdout)
	}
	require.Empty(t, a.changes)
}
