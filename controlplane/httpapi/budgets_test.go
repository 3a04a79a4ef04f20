package httpapi_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/httpapi"
	"waypost/rules/budget"
)

// granter keeps the last report.
type granter struct{ last *controlplane.BudgetReport }

func (g *granter) ReportBudgets(_ context.Context, r *controlplane.BudgetReport) (controlplane.BudgetGrants, error) {
	g.last = r
	return controlplane.BudgetGrants{EdgeGrants: api.EdgeGrants{
		Epoch: 9, Grants: []api.EdgeGrant{{Granted: 12, State: controlplane.BudgetOpen}},
		Recalled: []api.EdgeLink{{Domain: 2, Code: "held"}},
	}}, nil
}

func TestEdgeBudgets_TakesOnlyPossibleAccounts(t *testing.T) {
	to := &granter{}
	send := func(method, body string) answer {
		req := httptest.NewRequestWithContext(t.Context(), method, api.PathEdgeBudgets, strings.NewReader(body))
		req.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		httpapi.EdgeBudgets(to, slog.New(slog.DiscardHandler), nil).ServeHTTP(w, req)
		return answer{w.Result(), w.Body.String()}
	}
	const good = `{"node": "a", "epoch": 8, "complete": true, "disk": "a0000000000000000000000000000000", "accounts": [{"domain": 1, "code": "tickets",
		"id": "0102030405060708090a0b0c0d0e0f10", "granted": 10, "returned": 2, "spent": 7, "want": 5, "waiting": 3}]}`
	many, err := json.Marshal(make([]api.EdgeBudget, api.MaxEdgeBudgets+1))
	require.NoError(t, err)
	for name, body := range map[string]string{
		"no node":                strings.Replace(good, `"a"`, `""`, 1),
		"an id that is cut":      strings.Replace(good, "0f10", "0f", 1),
		"a long id":              strings.Replace(good, "0f10", "0f1011", 1),
		"an id in other letters": strings.Replace(good, "0102", "xy02", 1),
		"no disk":                strings.Replace(good, `"disk"`, `"disc"`, 1),
		"a short disk":           strings.Replace(good, "a000", "a0", 1),
		"no domain":              strings.Replace(good, `"domain": 1`, `"domain": 0`, 1),
		"a bad code":             strings.Replace(good, "tickets", "a//b", 1),
		"more returned":          strings.Replace(good, `"returned": 2`, `"returned": 11`, 1),
		"less than nothing":      strings.Replace(good, `"granted": 10`, `"granted": -10`, 1),
		"more spent":             strings.Replace(good, `"spent": 7`, `"spent": 700`, 1),
		"a large wish":           strings.Replace(good, `"want": 5`, `"want": 50000`, 1),
		"a large crowd":          strings.Replace(good, `"waiting": 3`, `"waiting": 50000`, 1),
		"too many":               `{"node": "a", "accounts": ` + string(many) + `}`,
	} {
		requireProblem(t, send(http.MethodPost, body), 422, "invalid")
		require.Nil(t, to.last, name)
	}
	requireProblem(t, send(http.MethodGet, good), 405, "method-not-allowed")
	requireProblem(t, send(http.MethodPost, good+strings.Repeat(" ", 512<<10)), 413, "too-large")
	got := send(http.MethodPost, good)
	require.Equal(t, http.StatusOK, got.StatusCode)
	require.JSONEq(t, `{"epoch": 9, "grants": [{"granted": 12, "state": "open"}], "recalled": [{"domain": 2, "code": "held"}]}`, got.text)
	disk := [16]byte{0xa0}
	require.Equal(t, &controlplane.BudgetReport{Node: "a", Epoch: 8, Complete: true, Disk: disk, Accounts: []controlplane.BudgetAccount{{
		Domain: 1, Code: "tickets", ID: controlplane.BudgetAccountID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16},
		Account: budget.Account{Granted: 10, Returned: 2, Spent: 7}, Want: 5, Waiting: 3,
	}}}, to.last)
}
