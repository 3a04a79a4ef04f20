package judge_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/test/chaos/judge"
)

// Targets of the one link of these histories.
const (
	code   = "link"
	first  = "https://example.com/1"
	second = "https://example.com/2"
)

// at is a time of a history, in seconds.
func at(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

func write(kind judge.Kind, value string, call, answer float64) judge.Operation {
	return judge.Operation{Kind: kind, Node: "control-1", Code: code, Value: value, Call: at(call), Return: at(answer), Outcome: judge.Done}
}

// lost is a write whose answer never came.
func lost(kind judge.Kind, value string, call float64) judge.Operation {
	op := write(kind, value, call, call+5)
	op.Outcome = judge.Unknown
	return op
}

// everywhere is a write that all edges have confirmed.
func everywhere(op judge.Operation) judge.Operation {
	op.Applied = "all; edges=2"
	return op
}

func restored(to string, call, answer float64) judge.Operation {
	op := write(judge.Restore, "", call, answer)
	op.Saw = to
	return op
}

func visit(edge, saw string, call float64) judge.Operation {
	return judge.Operation{Kind: judge.Visit, Node: edge, Code: code, Saw: saw, Call: at(call), Return: at(call + 0.1), Outcome: judge.Done}
}

// unanswered is a visit to a without an answer.
func unanswered(call float64) judge.Operation {
	op := visit("a", "", call)
	op.Outcome = judge.Unknown
	return op
}

func incident(what judge.What, edge string, begin, end float64) judge.Incident {
	return judge.Incident{What: what, Node: edge, Begin: at(begin), End: at(end)}
}

// history is one of two edges, a and b.
func history(ops ...judge.Operation) *judge.History {
	return &judge.History{Edges: []string{"a", "b"}, Operations: ops, Final: judge.Final{Rows: map[string]judge.Row{}}}
}

// ends sets what PostgreSQL has of the link at the end.
func ends(h *judge.History, row judge.Row) *judge.History {
	h.Final.Rows[code] = row
	return h
}

func during(h *judge.History, incidents ...judge.Incident) *judge.History {
	h.Incidents = incidents
	return h
}

// of is a history with a fault that lasts, so that no change need reach an edge in time,
// and with what PostgreSQL has of the link at the end.
func of(row judge.Row, ops ...judge.Operation) *judge.History {
	return troubled(ends(history(ops...), row))
}

func troubled(h *judge.History) *judge.History {
	h.Faults = []judge.Fault{{Name: "all", Whole: at(1000)}}
	return h
}

// counted is a row with a click for each visit that was redirected.
func counted(row judge.Row, ops []judge.Operation) judge.Row {
	for _, op := range ops {
		if op.Kind == judge.Visit && strings.HasPrefix(op.Saw, "https:") {
			row.Clicks++
		}
	}
	return row
}

func TestJudge_FindsWhatMustNotBeAndNothingElse(t *testing.T) {
	create, edit := write(judge.Create, first, 0, 1), write(judge.Edit, second, 2, 3)
	remove := write(judge.Delete, "", 4, 5)
	block := write(judge.Block, "", 4, 5)
	blocked := func(ops ...judge.Operation) *judge.History {
		return of(counted(judge.Row{Target: first, Blocked: true}, ops), append([]judge.Operation{create, block}, ops...)...)
	}
	edited := func(ops ...judge.Operation) *judge.History {
		return of(counted(judge.Row{Target: second}, ops), append([]judge.Operation{create, edit}, ops...)...)
	}
	removed := func(ops ...judge.Operation) *judge.History {
		return of(counted(judge.Row{Target: first, Deleted: true}, ops), append([]judge.Operation{create, remove}, ops...)...)
	}
	takenBack := func(edit judge.Operation) *judge.History {
		return of(judge.Row{Target: first, Clicks: 2}, create, edit, visit("a", second, 4), visit("a", first, 6))
	}
	failover := incident(judge.Failover, "", 5, 5.5)
	crash := func(begin float64) judge.Incident { return incident(judge.Crash, "a", begin, begin+0.5) }
	for _, c := range []struct {
		name string
		h    *judge.History
		want string // the invariant; "": nothing is found
	}{
		{
			"an edge goes from nothing to the first target and the second",
			edited(visit("a", judge.Absent, 0.5), visit("a", first, 1), visit("a", second, 4)), "",
		},
		{"an edge is late", edited(visit("a", first, 20)), ""},
		{"two edges differ", edited(visit("a", second, 4), visit("b", first, 5)), ""},
		{"an edge goes back", edited(visit("a", second, 4), visit("a", first, 5)), "I1"},
		{"an edge forgets a link", edited(visit("a", first, 4), visit("a", judge.Absent, 5)), "I1"},
		{"visits at the same time may see either", edited(visit("a", second, 4), visit("a", first, 4.05)), ""},
		{"a target that nobody wrote", edited(visit("a", "https://example.com/3", 4)), "I1"},
		{"a target before it was written", edited(visit("a", second, 1)), "I1"},
		{
			"an edge goes back in a crash just after it had the change",
			during(edited(visit("a", second, 4), visit("a", first, 6)), crash(5)), "",
		},
		{
			"an edge goes back in a crash long after it had the change",
			during(edited(visit("a", second, 4), visit("a", first, 9)), crash(8)), "I1",
		},
		{
			"an edge goes back in the crash of another",
			during(edited(visit("a", second, 4), visit("a", first, 6)), incident(judge.Crash, "b", 5, 5.5)), "I1",
		},
		{"an edge goes back after it was synced, and crashed before once more", during(
			edited(visit("a", second, 4), visit("a", second, 7), visit("a", first, 9)), crash(8)), "I1"},
		{
			"an edge goes back without its disk",
			during(edited(visit("a", second, 4), visit("a", first, 9)), incident(judge.Wipe, "a", 8, 8.5)), "",
		},
		{
			"an edge goes back without its disk, behind what all have confirmed",
			during(of(judge.Row{Target: second, Clicks: 1}, create, everywhere(edit), visit("a", first, 9)), incident(judge.Wipe, "a", 8, 8.5)),
			"I1",
		},
		{
			"an edge is behind what all have confirmed",
			of(judge.Row{Target: second, Clicks: 1}, create, everywhere(edit), visit("b", first, 9)), "I1",
		},
		{
			"a change that was not acknowledged is seen and stays",
			of(judge.Row{Target: second, Clicks: 1}, create, lost(judge.Edit, second, 2), visit("a", second, 4)), "",
		},
		{
			"a change that was not acknowledged never happens",
			of(judge.Row{Target: first, Clicks: 1}, create, lost(judge.Edit, second, 2), visit("a", first, 4)), "",
		},
		{"a change that was not acknowledged is taken back", takenBack(lost(judge.Edit, second, 2)), "I1"},
		{
			"a change that was not acknowledged is taken back by a failover",
			during(takenBack(lost(judge.Edit, second, 2)), failover), "",
		},
		{"a change that was acknowledged is lost by a failover", during(takenBack(edit), failover), "I1 durable"},
		{"a deleted link is gone", removed(visit("a", first, 3), visit("a", judge.Gone, 6)), ""},
		{"a deleted link returns", removed(visit("a", judge.Gone, 6), visit("a", first, 7)), "I1"},
		{
			"a deleted link returns in a crash",
			during(removed(visit("a", judge.Gone, 6), visit("a", first, 7)), crash(6.5)), "I1",
		},
		{
			"a restored link returns",
			of(judge.Row{Target: first, Clicks: 1}, create, remove, restored(first, 6, 7), visit("a", judge.Gone, 6), visit("a", first, 8)), "",
		},
		{
			"a restore that was not acknowledged brings any target back",
			of(judge.Row{Target: second, Clicks: 1}, create, edit, remove, lost(judge.Restore, "", 6),
				visit("a", judge.Gone, 6), visit("a", second, 8)), "",
		},
		{
			"a change takes long while nothing is wrong",
			ends(history(create, edit, visit("a", first, 20)), judge.Row{Target: second, Clicks: 1}), "I3",
		},
		{"a block is seen late", blocked(visit("a", first, 20), visit("a", judge.Blocked, 30)), ""},
		{"a block ends", blocked(visit("a", judge.Blocked, 6), visit("a", first, 7)), "I14"},
		{
			"a block is forgotten in a crash",
			during(blocked(visit("a", judge.Blocked, 6), visit("a", first, 17)), crash(15)), "I14",
		},
		{
			"a block takes long while nothing is wrong",
			ends(history(create, block, visit("a", first, 20)), judge.Row{Target: first, Blocked: true, Clicks: 1}), "I14",
		},
		{"a block that nobody asked for", edited(visit("a", judge.Blocked, 4)), "I14"},
		{"a block is lost", of(judge.Row{Target: first}, create, block), "I14"},
		{"a code is given to two links", of(judge.Row{Target: second}, create, write(judge.Create, second, 2, 3)), "I9"},
		{
			"the code of a deleted link is given to another",
			of(judge.Row{Target: first, Deleted: true}, create, remove, write(judge.Claim, second, 6, 7)), "I9",
		},
		{"a visit fails", edited(unanswered(4)), "I2"},
		{
			"a visit fails while the edge is away",
			during(edited(unanswered(4)), incident(judge.Away, "a", 3.5, 4.5)), "",
		},
		{
			"a visit fails while another edge is away",
			during(edited(unanswered(4)), incident(judge.Away, "b", 3.5, 4.5)), "I2",
		},
		{"an edge says that it is unavailable", edited(visit("a", judge.Later, 4)), "I2"},
		{"a click is counted twice", ends(edited(visit("a", second, 4)), judge.Row{Target: second, Clicks: 2}), "I6"},
		{"a click is lost", ends(edited(visit("a", second, 4)), judge.Row{Target: second}), "I5"},
		{
			"a visit without an answer counts",
			during(ends(edited(unanswered(4)), judge.Row{Target: second, Clicks: 1}), incident(judge.Away, "a", 3, 5)), "",
		},
		{
			"a click is lost with the disk",
			during(ends(edited(visit("a", second, 4)), judge.Row{Target: second}), incident(judge.Wipe, "a", 5, 6)), "",
		},
		{
			"a click is lost after another edge's disk",
			during(ends(edited(visit("a", second, 4)), judge.Row{Target: second}), incident(judge.Wipe, "b", 5, 6)), "I5",
		},
		{"an acknowledged change is lost", of(judge.Row{Target: first}, create, edit), "durable"},
		{"an acknowledged link is lost", troubled(history(create)), "durable"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, v := range judge.Judge(c.h) {
				got = append(got, v.Invariant)
			}
			require.Equal(t, c.want, strings.Join(got, " "), "%v", judge.Judge(c.h))
		})
	}
}

func TestJudge_HoldsBudgets(t *testing.T) {
	h := of(judge.Row{Target: first, Clicks: 2}, write(judge.Create, first, 0, 1), visit("a", first, 2), visit("b", first, 3),
		visit("a", judge.Later, 4))
	h.Budgets = map[string]judge.Budget{code: {Target: first, Most: 2}}
	require.Empty(t, judge.Judge(h))
	h.Budgets[code] = judge.Budget{Target: first, Most: 1}
	found := judge.Judge(h)
	require.Len(t, found, 1)
	require.Equal(t, "budget", found[0].Invariant)
}

func TestJudge_ComparesWhatIsLeft(t *testing.T) {
	h := of(judge.Row{Target: first}, write(judge.Create, first, 0, 1))
	h.Final.Heads = map[string]string{"postgresql": "1-5 aa", "a": "1-5 aa", "b": "1-5 aa"}
	h.Final.Answers = map[string]map[string]string{"a": {code: first}, "b": {code: first}}
	require.Empty(t, judge.Judge(h))
	h.Final.Heads["a"] = "1-5 ab"
	h.Final.Answers["b"][code] = judge.Absent
	h.Final.Wrong = []string{"a wrote: panic: nil"}
	found := judge.Judge(h)
	require.Len(t, found, 3)
	text := found[0].String() + found[1].String() + found[2].String()
	for _, part := range []string{"a ends at 1-5 ab", "b ends with absent", "panic: nil"} {
		require.Contains(t, text, part)
	}
}

func TestJudge_LinksThatNobodyChangesStay(t *testing.T) {
	for saw, want := range map[string]string{first: "", judge.Absent: "I2 I1", second: "I1 I1"} {
		ops := []judge.Operation{write(judge.Create, first, 0, 1), visit("a", first, 2), visit("a", saw, 3)}
		h := of(counted(judge.Row{Target: first}, ops), ops...)
		h.Stable = map[string]string{code: first}
		var got []string
		for _, v := range judge.Judge(h) {
			got = append(got, v.Invariant)
		}
		require.ElementsMatch(t, strings.Fields(want), got, saw)
	}
}

func TestHistory_IsReadAsItWasWritten(t *testing.T) {
	h := during(of(judge.Row{Target: first}, write(judge.Create, first, 0, 1), unanswered(2)), incident(judge.Away, "a", 1, 3))
	var b bytes.Buffer
	require.NoError(t, h.Write(&b))
	got, err := judge.Read(&b)
	require.NoError(t, err)
	require.Equal(t, h, got)
	_, err = judge.Read(strings.NewReader("{"))
	require.Error(t, err)
}

func TestTable_CountsByFault(t *testing.T) {
	h := history(write(judge.Create, first, 0, 1), visit("a", first, 2), unanswered(3), lost(judge.Edit, second, 3), visit("a", first, 6), visit("b", first, 9))
	h.Faults = []judge.Fault{{Name: "an edge is killed", On: "a", Struck: at(2.5), Healed: at(4), Whole: at(7)}}
	table := judge.Table(h, []judge.Violation{{Invariant: "I2", At: at(3)}})
	require.Contains(t, table, "| an edge is killed | 1 | 2 | 1 | 1 | 1 | 4.0 s | 0.0 s | 3.0 s | 1 violation |")
}
