package httpapi

import (
	"encoding/hex"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"

	"waypost"
	"waypost/controlplane"
)

const maxEnrolling = 4 << 10 // bytes of a body

// enrolling is the body of a node that exchanges a token. Fields that are not known here
// are of later versions and ignored.
type enrolling struct {
	Token    string `json:"token"`
	Hash     string `json:"credential_sha256"` // 64 hex digits
	Node     string `json:"node"`
	Region   string `json:"region"`
	Previous string `json:"previous"` // credential that the node had before; "": none

	Former []string `json:"former_names"` // under which it still has clicks
}

type enrolledAnswer struct {
	Node   string `json:"node"`
	Region string `json:"region"`
	Role   string `json:"role"`
}

// Enrol exchanges a token for a credential, of which the node sends the SHA-256. The same
// request once more is answered alike.
func (g *EdgeGate) Enrol(w http.ResponseWriter, r *http.Request) {
	node, err := g.enrol(w, r)
	if err != nil {
		g.refuse(w, r, err)
		return
	}
	g.cfg.Logger.InfoContext(r.Context(), "an edge is enrolled", slog.String("node", node.Name), slog.String("region", string(node.Region)))
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	// An error means that the client has left, and will ask again.
	_ = json.NewEncoder(w).Encode(enrolledAnswer{Node: node.Name, Region: string(node.Region), Role: string(node.Role)})
}

func (g *EdgeGate) enrol(w http.ResponseWriter, r *http.Request) (node controlplane.Node, err error) {
	if r.Method != http.MethodPost {
		p := newProblem(codeMethodNotAllowed, "enrol with POST")
		p.header.Set("Allow", http.MethodPost)
		return node, p
	}
	if !isJSON(r.Header.Get("Content-Type")) {
		return node, waypost.Errorf(codeUnsupportedMedia, "send Content-Type: application/json")
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxEnrolling))
	if err != nil {
		return node, unreadable(err, maxEnrolling)
	}
	var body enrolling
	if err := json.Unmarshal(data, &body); err != nil {
		return node, waypost.WrapError(waypost.EMalformed, "the body is no enrolment in JSON", err)
	}
	e := controlplane.Enrolling{Token: body.Token, Node: body.Node, Region: body.Region, Previous: body.Previous, Former: body.Former}
	hash, err := hex.DecodeString(body.Hash)
	if err != nil || len(hash) != len(e.Hash) {
		return node, waypost.Errorf(waypost.EInvalid, "credential_sha256 must be 64 hex digits")
	}
	e.Hash = [32]byte(hash)
	if g.cfg.Certificates {
		names := certified(r.TLS)
		if len(names) == 0 {
			return node, errNoCertificate
		}
		if err := certifies(names, body.Node); err != nil {
			return node, err
		}
	}
	err = g.judge(r, body.Token, controlplane.ValidEnrolmentToken(body.Token), func() error {
		node, err = g.cfg.Nodes.Enrol(r.Context(), e)
		return err
	})
	return node, err
}
