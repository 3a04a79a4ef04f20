package budgets

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"waypost/api"
	"waypost/api/requestid"
)

const (
	maxAnswer = 256 << 10 // bytes of an answer
	maxShown  = 200       // bytes of it in an error
)

// exchange sends a report, and returns the control plane's answer.
func (s *Store) exchange(ctx context.Context, report *api.EdgeBudgets) (answer api.EdgeGrants, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	body, err := json.Marshal(report)
	if err != nil {
		return answer, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(s.cfg.URL, "/")+api.PathEdgeBudgets, bytes.NewReader(body))
	if err != nil {
		return answer, err
	}
	req.Header.Set("Content-Type", "application/json")
	requestid.Mark(req)
	req.Header["X-Idempotency-Key"] = nil // so that it is sent again if an idle connection has ended
	res, err := s.cfg.Client.Do(req)
	if err != nil {
		return answer, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return answer, err
	}
	if res.StatusCode != http.StatusOK {
		return answer, fmt.Errorf("the control plane answered %s: %.*q", res.Status, maxShown, text)
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return answer, fmt.Errorf("the control plane's answer: %w", err)
	}
	if len(answer.Grants) != len(report.Accounts) {
		return answer, fmt.Errorf("the control plane answered %d accounts for %d", len(answer.Grants), len(report.Accounts))
	}
	return answer, nil
}
