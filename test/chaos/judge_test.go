package chaos

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Targets of the one link of these histories.
const (
	code   = "link"
	first  = "https://example.com/1"
	second = "https://example.com/2"
)

// at is a time of a history, in seconds.
func at(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

func write(kind Kind, value string, call, answer float64) Operation {
	return Operation{Kind: kind, Node: "control-1", Code: code, Value: value, Call: at(call), Return: at(answer), Outcome: Done}
}

// lost is a write whose answer never came.
func lost(kind Kind, value string, call float64) Operation {
	op := write(kind, value, call, call+5)
	op.Outcome = Unknown
	return op
}

// everywhere is a write that all edges have confirmed.
func everywhere(op Operation) Operation {
	op.Applied = "all; edges=2"
	return op
}

func restored(to string, call, answer float64) Operation {
	op := write(Restore, "", call, answer)
	op.Saw = to
	return op
}

func visit(edge, saw string, call float64) Operation {
	return Operation{Kind: Visit, Node: edge, Code: code, Saw: saw, Call: at(call), Return: at(call + 0.1), Outcome: Done}
}

// unanswered is a visit to a without an answer.
func unanswered(call float64) Operation {
	op := visit("a", "", call)
	op.Outcome = Unknown
	return op
}

func incident(what What, edge string, begin, end float64) Incident {
	return Incident{What: what, Node: edge, Begin: at(begin), End: at(end)}
}

// history is one of two edges, a and b.
func history(ops ...Operation) *History {
	return &History{Edges: []string{"a", "b"}, Operations: ops, Final: Final{Rows: map[string]Row{}}}
}

// ends sets what PostgreSQL has of the link at the end.
func ends(h *History, row Row) *History {
	h.Final.Rows[code] = row
	return h
}

func during(h *History, incidents ...Incident) *History {
	h.Incidents = incidents
	return h
}

// of is a history with a fault that lasts, so that no change need reach an edge in time,
// and with what PostgreSQL has of the link at the end.
func of(row Row, ops ...Operation) *History {
	return troubled(ends(history(ops...), row))
}

func troubled(h *History) *History {
	h.Faults = []Fault{{Name: "all", Whole: at(1000)}}
	return h
}

// counted is a row with a click for each visit that was redirected.
func counted(row Row, ops []Operation) Row {
	for _, op := range ops {
		if op.Kind == Visit && strings.HasPrefix(op.Saw, "https:") {
			row.Clicks++
		}
	}
	return row
}

func TestJudge_FindsWhatMustNotBeAndNothingElse(t *testing.T) {
	create, edit := write(Create, first, 0, 1), write(Edit, second, 2, 3)
	remove := write(Delete, "", 4, 5)
	block := write(Block, "", 4, 5)
	blocked := func(ops ...Operation) *History {
		return of(counted(Row{Target: first, Blocked: true}, ops), append([]Operation{create, block}, ops...)...)
	}
	edited := func(ops ...Operation) *History {
		return of(counted(Row{Target: second}, ops), append([]Operation{create, edit}, ops...)...)
	}
	removed := func(ops ...Operation) *History {
		return of(counted(Row{Target: first, Deleted: true}, ops), append([]Operation{create, remove}, ops...)...)
	}
	takenBack := func(edit Operation) *History {
		return of(Row{Target: first, Clicks: 2}, create, edit, visit("a", second, 4), visit("a", first, 6))
	}
	failover := incident(Failover, "", 5, 5.5)
	crash := func(begin float64) Incident { return incident(Crash, "a", begin, begin+0.5) }
	for _, c := range []struct {
		name string
		h    *History
		want string // the invariant; "": nothing is found
	}{
		{
			"an edge goes from nothing to the first target and the second",
			edited(visit("a", Absent, 0.5), visit("a", first, 1), visit("a", second, 4)), "",
		},
		{"an edge is late", edited(visit("a", first, 20)), ""},
		{"two edges differ", edited(visit("a", second, 4), visit("b", first, 5)), ""},
		{"an edge goes back", edited(visit("a", second, 4), visit("a", first, 5)), "I1"},
		{"an edge forgets a link", edited(visit("a", first, 4), visit("a", Absent, 5)), "I1"},
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
			during(edited(visit("a", second, 4), visit("a", first, 6)), incident(Crash, "b", 5, 5.5)), "I1",
		},
		{"an edge goes back after it was synced, and crashed before once more", during(
			edited(visit("a", second, 4), visit("a", second, 7), visit("a", first, 9)), crash(8)), "I1"},
		{
			"an edge goes back without its disk",
			during(edited(visit("a", second, 4), visit("a", first, 9)), incident(Wipe, "a", 8, 8.5)), "",
		},
		{
			"an edge goes back without its disk, behind what all have confirmed",
			during(of(Row{Target: second, Clicks: 1}, create, everywhere(edit), visit("a", first, 9)), incident(Wipe, "a", 8, 8.5)),
			"I1",
		},
		{
			"an edge is behind what all have confirmed",
			of(Row{Target: second, Clicks: 1}, create, everywhere(edit), visit("b", first, 9)), "I1",
		},
		{
			"a change that was not acknowledged is seen and stays",
			of(Row{Target: second, Clicks: 1}, create, lost(Edit, second, 2), visit("a", second, 4)), "",
		},
		{
			"a change that was not acknowledged never happens",
			of(Row{Target: first, Clicks: 1}, create, lost(Edit, second, 2), visit("a", first, 4)), "",
		},
		{"a change that was not acknowledged is taken back", takenBack(lost(Edit, second, 2)), "I1"},
		{
			"a change that was not acknowledged is taken back by a failover",
			during(takenBack(lost(Edit, second, 2)), failover), "",
		},
		{"a change that was acknowledged is lost by a failover", during(takenBack(edit), failover), "I1 durable"},
		{"a deleted link is gone", removed(visit("a", first, 3), visit("a", Gone, 6)), ""},
		{"a deleted link returns", removed(visit("a", Gone, 6), visit("a", first, 7)), "I1"},
		{
			"a deleted link returns in a crash",
			during(removed(visit("a", Gone, 6), visit("a", first, 7)), crash(6.5)), "I1",
		},
		{
			"a restored link returns",
			of(Row{Target: first, Clicks: 1}, create, remove, restored(first, 6, 7), visit("a", Gone, 6), visit("a", first, 8)), "",
		},
		{
			"a restore that was not acknowledged brings any target back",
			of(Row{Target: second, Clicks: 1}, create, edit, remove, lost(Restore, "", 6),
				visit("a", Gone, 6), visit("a", second, 8)), "",
		},
		{
			"a change takes long while nothing is wrong",
			ends(history(create, edit, visit("a", first, 20)), Row{Target: second, Clicks: 1}), "I3",
		},
		{"a block is seen late", blocked(visit("a", first, 20), visit("a", Blocked, 30)), ""},
		{"a block ends", blocked(visit("a", Blocked, 6), visit("a", first, 7)), "I14"},
		{
			"a block is forgotten in a crash",
			during(blocked(visit("a", Blocked, 6), visit("a", first, 17)), crash(15)), "I14",
		},
		{
			"a block takes long while nothing is wrong",
			ends(history(create, block, visit("a", first, 20)), Row{Target: first, Blocked: true, Clicks: 1}), "I14",
		},
		{"a block that nobody asked for", edited(visit("a", Blocked, 4)), "I14"},
		{"a block is lost", of(Row{Target: first}, create, block), "I14"},
		{"a code is given to two links", of(Row{Target: second}, create, write(Create, second, 2, 3)), "I9"},
		{
			"the code of a deleted link is given to another",
			of(Row{Target: first, Deleted: true}, create, remove, write(Claim, second, 6, 7)), "I9",
		},
		{"a visit fails", edited(unanswered(4)), "I2"},
		{
			"a visit fails while the edge is away",
			during(edited(unanswered(4)), incident(Away, "a", 3.5, 4.5)), "",
		},
		{
			"a visit fails while another edge is away",
			during(edited(unanswered(4)), incident(Away, "b", 3.5, 4.5)), "I2",
		},
		{"an edge says that it is unavailable", edited(visit("a", Later, 4)), "I2"},
		{"a click is counted twice", ends(edited(visit("a", second, 4)), Row{Target: second, Clicks: 2}), "I6"},
		{"a click is lost", ends(edited(visit("a", second, 4)), Row{Target: second}), "I5"},
		{
			"a visit without an answer counts",
			during(ends(edited(unanswered(4)), Row{Target: second, Clicks: 1}), incident(Away, "a", 3, 5)), "",
		},
		{
			"a click is lost with the disk",
			during(ends(edited(visit("a", second, 4)), Row{Target: second}), incident(Wipe, "a", 5, 6)), "",
		},
		{
			"a click is lost after another edge's disk",
			during(ends(edited(visit("a", second, 4)), Row{Target: second}), incident(Wipe, "b", 5, 6)), "I5",
		},
		{"an acknowledged change is lost", of(Row{Target: first}, create, edit), "durable"},
		{"an acknowledged link is lost", troubled(history(create)), "durable"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, v := range Judge(c.h) {
				got = append(got, v.Invariant)
			}
			require.Equal(t, c.want, strings.Join(got, " "), "%v", Judge(c.h))
		})
	}
}

func TestJudge_HoldsBudgets(t *testing.T) {
	h := of(Row{Target: first, Clicks: 2}, write(Create, first, 0, 1), visit("a", first, 2), visit("b", first, 3),
		visit("a", Later, 4))
	h.Budgets = map[string]Budget{code: {Target: first, Most: 2}}
	require.Empty(t, Judge(h))
	h.Budgets[code] = Budget{Target: first, Most: 1}
	found := Judge(h)
	require.Len(t, found, 1)
	require.Equal(t, "budget", found[0].Invariant)
}

func TestJudge_ComparesWhatIsLeft(t *testing.T) {
	h := of(Row{Target: first}, write(Create, first, 0, 1))
	h.Final.Heads = map[string]string{"postgresql": "1-5 aa", "a": "1-5 aa", "b": "1-5 aa"}
	h.Final.Answers = map[string]map[string]string{"a": {code: first}, "b": {code: first}}
	require.Empty(t, Judge(h))
	h.Final.Heads["a"] = "1-5 ab"
	h.Final.Answers["b"][code] = Absent
	h.Final.Wrong = []string{"a wrote: panic: nil"}
	found := Judge(h)
	require.Len(t, found, 3)
	text := found[0].String() + found[1].String() + found[2].String()
	for _, part := range []string{"a ends at 1-5 ab", "b ends with absent", "panic: nil"} {
		require.Contains(t, text, part)
	}
}

func TestJudge_LinksThatNobodyChangesStay(t *testing.T) {
	for saw, want := range map[string]string{first: "", Absent: "I2 I1", second: "I1 I1"} {
		ops := []Operation{write(Create, first, 0, 1), visit("a", first, 2), visit("a", saw, 3)}
		h := of(counted(Row{Target: first}, ops), ops...)
		h.Stable = map[string]string{code: first}
		var got []string
		for _, v := range Judge(h) {
			got = append(got, v.Invariant)
		}
		require.ElementsMatch(t, strings.Fields(want), got, saw)
	}
}

func TestHistory_IsReadAsItWasWritten(t *testing.T) {
	h := during(of(Row{Target: first}, write(Create, first, 0, 1), unanswered(2)), incident(Away, "a", 1, 3))
	var b bytes.Buffer
	require.NoError(t, h.Write(&b))
	got, err := Read(&b)
	require.NoError(t, err)
	require.Equal(t, h, got)
	_, err = Read(strings.NewReader("{"))
	require.Error(t, err)
}

func TestTable_CountsByFault(t *testing.T) {
	h := history(write(Create, first, 0, 1), visit("a", first, 2), unanswered(3), lost(Edit, second, 3), visit("a", first, 6), visit("b", first, 9))
	h.Faults = []Fault{{Name: "an edge is killed", On: "a", Struck: at(2.5), Healed: at(4), Whole: at(7)}}
	table := Table(h, []Violation{{Invariant: "I2", At: at(3)}})
	require.Contains(t, table, "| an edge is killed | 1 | 2 | 1 | 1 | 1 | 4.0 s | 0.0 s | 3.0 s | 1 violation |")
}
