// Package edgepost posts the JSON of edges to the control plane. It decides nothing about
// answers.
package edgepost

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"waypost/api/requestid"
)

// Answer holds an answer of the control plane.
type Answer struct {
	StatusCode int
	Status     string // the code and its words
	Body       []byte
}

// Send posts a value to a path of the control plane at base, a scheme and a host. It
// returns the answer with at most limit bytes of its body. With again, the value is sent
// once more if an idle connection has ended.
func Send(
	ctx context.Context, client *http.Client, base, path string, value any, limit int64, again bool,
) (Answer, error) {
	body, err := json.Marshal(value)
	if err != nil {
		return Answer{}, fmt.Errorf("encode the request: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(base, "/")+path, bytes.NewReader(body))
	if err != nil {
		return Answer{}, fmt.Errorf("make the request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	if again {
		req.Header["X-Idempotency-Key"] = nil // which net/http reads, and does not send
	}
	requestid.Mark(req)
	res, err := client.Do(req)
	if err != nil {
		return Answer{}, err
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, limit))
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return Answer{}, fmt.Errorf("read the answer: %w", err)
	}
	return Answer{res.StatusCode, res.Status, text}, nil
}
