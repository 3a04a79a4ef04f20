package replication

import (
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"waypost"
)

// HeaderProtocol lists the versions of the protocol that a follower speaks, such as
// "1, 2", on its requests, and on an answer the one that the source has chosen, the
// highest that both speak; on a refusal because there is none, those of the source.
// A follower that leaves it out speaks version 1.
const HeaderProtocol = "Waypost-Protocol"

// spoken are the versions of the protocol that this program speaks, in order.
var spoken = []uint16{ProtocolVersion}

// maxVersions bounds what is read of a list.
const maxVersions = 32

func versionList(versions []uint16) string {
	texts := make([]string, len(versions))
	for i, v := range versions {
		texts[i] = strconv.Itoa(int(v))
	}
	return strings.Join(texts, ", ")
}

// parseVersions reads a list, and passes over what is none.
func parseVersions(list string) (versions []uint16) {
	for _, text := range strings.SplitN(list, ",", maxVersions+1)[:min(strings.Count(list, ",")+1, maxVersions)] {
		if v, err := strconv.ParseUint(strings.TrimSpace(text), 10, 16); err == nil {
			versions = append(versions, uint16(v))
		}
	}
	return versions
}

// agree picks the version for a request, and otherwise refuses it.
func (s *Server) agree(w http.ResponseWriter, r *http.Request) bool {
	theirs := []uint16{1}
	if list := r.Header.Get(HeaderProtocol); list != "" {
		theirs = parseVersions(list)
	}
	for _, v := range slices.Backward(s.speaks) {
		if slices.Contains(theirs, v) {
			w.Header().Set(HeaderProtocol, strconv.Itoa(int(v)))
			return true
		}
	}
	detail := fmt.Sprintf("the source speaks version %s of the replication protocol, and the follower %s: %s", versionList(s.speaks), versionList(theirs), whomToUpgrade(s.speaks, theirs))
	s.cfg.Logger.Warn("a follower speaks another version of the protocol", "node", bounded(r.Header.Get(HeaderNode)), "detail", detail)
	w.Header().Set(HeaderProtocol, versionList(s.speaks))
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(http.StatusNotAcceptable)
	text, err := json.Marshal(problem{Type: waypost.ProblemType("protocol"), Title: "No version of the protocol in common", Status: http.StatusNotAcceptable, Detail: detail})
	if err == nil {
		_, _ = w.Write(text) // who asked may have gone
	}
	return false
}

func whomToUpgrade(source, follower []uint16) string {
	switch {
	case len(follower) == 0:
		return "it names none that can be read"
	case slices.Max(follower) < source[0]:
		return "upgrade the follower, which is the edge"
	case slices.Min(follower) > source[len(source)-1]:
		return "upgrade the source, which is the control plane"
	}
	return "upgrade the older of the two"
}

// problem is a refusal, as RFC 9457 has it.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
}

// refusalText is what an answer that is no stream says of itself, for the log.
func refusalText(res *http.Response) string {
	text, _ := io.ReadAll(io.LimitReader(res.Body, 4<<10)) // a hint, nothing more
	if t, _, err := mime.ParseMediaType(res.Header.Get("Content-Type")); err == nil && t == "application/problem+json" {
		var p problem
		if err := json.Unmarshal(text, &p); err == nil && p.Detail != "" {
			return strings.Map(oneLine, p.Detail[:min(len(p.Detail), 1024)])
		}
	}
	return strconv.QuoteToASCII(strings.TrimSpace(string(text[:min(len(text), 200)])))
}

// oneLine takes out what would end a line, or move a terminal's cursor.
func oneLine(r rune) rune {
	if r < ' ' || r >= 0x7f && r < 0xa0 {
		return ' '
	}
	return r
}

// EndError is the cause of a request's context that was ended because the follower is to
// go: it is told so, in a bye.
type EndError struct{ Text string }

func (e *EndError) Error() string { return e.Text }
