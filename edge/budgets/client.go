package budgets

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"waypost/api"
	"waypost/api/edgepost"
)

const (
	maxAnswer = 256 << 10 // bytes of an answer
	maxShown  = 200       // bytes of it in an error
)

// exchange sends a report, and returns the control plane's answer.
func (s *Store) exchange(ctx context.Context, report *api.EdgeBudgets) (answer api.EdgeGrants, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	res, err := edgepost.Send(ctx, s.cfg.Client, s.cfg.URL, api.PathEdgeBudgets, report, maxAnswer, true)
	if err != nil {
		return answer, err
	}
	if res.StatusCode != http.StatusOK {
		return answer, fmt.Errorf("the control plane answered %s: %.*q", res.Status, maxShown, res.Body)
	}
	if err := json.Unmarshal(res.Body, &answer); err != nil {
		return answer, fmt.Errorf("the control plane's answer: %w", err)
	}
	if len(answer.Grants) != len(report.Accounts) {
		return answer, fmt.Errorf("the control plane answered %d accounts for %d", len(answer.Grants), len(report.Accounts))
	}
	return answer, nil
}
