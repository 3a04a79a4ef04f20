package replication

import (
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"waypost"
)

// The routes under a node's base URL.
const (
	PathStream   = "/replication/v1/stream"
	PathSnapshot = "/replication/v1/snapshot"
	PathSums     = "/replication/v1/sums"
	PathEnrol    = "/replication/v1/enrol" // of the control plane alone
)

// Headers of a follower's request. They describe it for logs and the fleet view; its
// identity comes from its credential.
const (
	HeaderNode     = "Waypost-Node"
	HeaderRegion   = "Waypost-Region"
	HeaderPosition = "Waypost-Position"
	// HeaderTestimony is the newest position that the follower has seen signed, as the
	// control plane has signed it.
	HeaderTestimony = "Waypost-Testimony"
)

// Headers of an answer.
const (
	// HeaderRecords is about how many records a snapshot has, if the source knows.
	HeaderRecords = "Waypost-Records"
	// HeaderBusy is "1" while as many snapshots are under way as may be: on the answer that
	// opens the stream, and on the refusal of a snapshot or of sums.
	HeaderBusy = "Waypost-Busy"
	// HeaderVia lists the nodes through which the changelog comes, the nearest first,
	// separated by commas. The origin leaves it out.
	HeaderVia = "Waypost-Via"
)

// ContentType is the media type of the stream, the snapshot and the sums.
const ContentType = "application/vnd.waypost.replication"

// EndError is the cause of a request's context that was ended because the follower is
// sent away. The follower is told the text in a bye.
type EndError struct{ Text string }

func (e *EndError) Error() string { return e.Text }

// maxVia bounds how many nodes a header lists, far more than a tree has levels.
const maxVia = 16

func viaHeader(nodes []string) string {
	return strings.Join(nodes[:min(len(nodes), maxVia)], ",")
}

func parseVia(header string) []string {
	if header == "" || len(header) > maxVia*(waypost.MaxNodeLength+1) {
		return nil
	}
	nodes := strings.SplitN(header, ",", maxVia+1)
	return nodes[:min(len(nodes), maxVia)]
}

// refusalText returns the reason in an answer that is no stream, for the log: the detail
// of a problem document (RFC 9457), or else the beginning of the body.
func refusalText(res *http.Response) string {
	text, _ := io.ReadAll(io.LimitReader(res.Body, 4<<10)) // a hint, nothing more
	if t, _, err := mime.ParseMediaType(res.Header.Get("Content-Type")); err == nil && t == "application/problem+json" {
		var problem struct {
			Detail string `json:"detail"`
		}
		if err := json.Unmarshal(text, &problem); err == nil && problem.Detail != "" {
			return strings.Map(oneLine, problem.Detail[:min(len(problem.Detail), 1024)])
		}
	}
	return strconv.QuoteToASCII(strings.TrimSpace(string(text[:min(len(text), 200)])))
}

// oneLine replaces characters that would end a line, or move a terminal's cursor.
func oneLine(r rune) rune {
	if r < ' ' || r >= 0x7f && r < 0xa0 {
		return ' '
	}
	return r
}
