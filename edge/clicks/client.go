package clicks

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"waypost/api/clickbatch"
	"waypost/api/requestid"
)

// maxAnswer bounds how much of an answer is read, in bytes.
const maxAnswer = 16 << 10

// verdict is the control plane's decision about a batch.
type verdict int

const (
	taken   verdict = iota + 1 // counted, now or earlier, or kept as a dead letter
	gap                        // others must come first
	refused                    // it can never be counted
)

// answer is a verdict with its details.
type answer struct {
	verdict    verdict
	watermark  uint64
	deadLetter bool
	detail     string // for the log
}

// retryError is an answer after which the batch has to be sent again.
type retryError struct {
	status int
	after  time.Duration // that the control plane asked for
	detail string
}

func (e *retryError) Error() string {
	return fmt.Sprintf("the control plane answered %d: %s", e.status, e.detail)
}

// client speaks the protocol.
type client struct {
	http  *http.Client
	url   string
	token string
}

func newClient(cfg ShipConfig) *client {
	c := *cfg.Client
	// A redirect would make a GET of it, and perhaps take the token elsewhere.
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &client{http: &c, url: strings.TrimSuffix(cfg.URL, "/") + clickbatch.Path, token: cfg.Token}
}

// post sends a batch. The error is a [*retryError] unless there was no answer.
func (c *client) post(ctx context.Context, body []byte) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Content-Type", clickbatch.ContentType)
	req.Header.Set("Content-Encoding", "zstd")
	requestid.Mark(req)
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return answer{}, fmt.Errorf("read the control plane's answer: %w", err)
	}
	return readAnswer(res, text)
}

// readAnswer reads an answer.
func readAnswer(res *http.Response, text []byte) (answer, error) {
	const shown = 200
	a := answer{detail: strconv.QuoteToASCII(strings.TrimSpace(string(text[:min(len(text), shown)])))}
	switch res.StatusCode {
	case http.StatusOK:
		a.verdict = taken
	case http.StatusConflict:
		a.verdict = gap
	case http.StatusUnprocessableEntity:
		// A proxy's 422 says nothing about the batch either.
		if mediaType, _, err := mime.ParseMediaType(res.Header.Get("Content-Type")); err != nil || mediaType != "application/problem+json" {
			return answer{}, retry(res, a.detail)
		}
		a.verdict = refused
		return a, nil
	default:
		// Whatever else it is, such as a proxy's own answer, says nothing about the batch.
		return answer{}, retry(res, a.detail)
	}
	var body struct {
		Watermark  *uint64 `json:"watermark"`
		DeadLetter bool    `json:"dead_letter"`
	}
	if err := json.Unmarshal(text, &body); err != nil || body.Watermark == nil {
		return answer{}, retry(res, "an answer without a watermark: "+a.detail)
	}
	a.watermark, a.deadLetter = *body.Watermark, body.DeadLetter
	return a, nil
}

func retry(res *http.Response, detail string) error {
	e := &retryError{status: res.StatusCode, detail: detail}
	if seconds, err := strconv.ParseUint(res.Header.Get("Retry-After"), 10, 16); err == nil {
		e.after = time.Duration(seconds) * time.Second
	}
	return e
}
