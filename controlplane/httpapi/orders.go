package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"waypost"
	"waypost/controlplane"
)

// Orders passes on what operators ask of edges.
type Orders interface {
	// Give asks something of an edge, and Find tells what came of it: ENotFound when there is no such edge, or order.
	Give(ctx context.Context, actor controlplane.Actor, order controlplane.EdgeOrder) (controlplane.EdgeOrder, error)
	Find(ctx context.Context, actor controlplane.Actor, node string, id int64) (controlplane.EdgeOrder, error)

	// Verified gives the last verification of an edge that has an outcome. It must not block.
	Verified(node string) (controlplane.EdgeOrder, bool)
}

type verifyInput struct {
	Node string `path:"node" maxLength:"64" example:"eu-1" doc:"The name of an edge."`
	Body body[verifyOrder]
}

type verifyOrder struct {
	Repair bool `json:"repair,omitempty" doc:"Repair what differs."`
}

type acceptHeldInput struct {
	Node string `path:"node" maxLength:"64" example:"eu-1" doc:"The name of an edge."`
	Body body[acceptOrder]
}

type acceptOrder struct {
	What string `json:"what,omitempty" enum:"mass-delete,empty-snapshot,record" doc:"What the edge holds; left out: whatever it is."`
}

type findOrderInput struct {
	Node string `path:"node" maxLength:"64" example:"eu-1" doc:"The name of an edge."`
	ID   int64  `path:"id" minimum:"1" doc:"The order's number."`
}

type orderOutput struct{ Body edgeOrder }

type edgeOrder struct {
	ID        int64        `json:"id"`
	Node      string       `json:"node"`
	What      string       `json:"what" enum:"verify,accept"`
	Repair    bool         `json:"repair" doc:"Of a verification: what differs is repaired."`
	OrderedBy string       `json:"ordered_by"`
	OrderedAt time.Time    `json:"ordered_at"`
	Until     time.Time    `json:"until" doc:"An edge that has not answered by then does not do it any more."`
	DoneAt    *time.Time   `json:"done_at" doc:"When the edge has answered; null before."`
	Outcome   *edgeOutcome `json:"outcome" doc:"What came of it; null before."`
}

type edgeOutcome struct {
	Error       string           `json:"error" doc:"Why it was not done, or not to the end; may be empty."`
	Accepted    string           `json:"accepted" doc:"What was held and is taken now; empty if nothing was."`
	Slots       int              `json:"slots" doc:"How many parts of the key space were compared."`
	Records     uint64           `json:"records" doc:"Records in them, by PostgreSQL."`
	Different   int              `json:"different" doc:"Slots that were different."`
	Repaired    int              `json:"repaired" doc:"Of these, that are so no more."`
	Position    *seqInLog        `json:"position" doc:"Where it was compared; null when nothing was."`
	Seconds     float64          `json:"seconds" doc:"How long it took."`
	Differences []edgeDifference `json:"differences" nullable:"false" doc:"Records that are different, at most 20."`
}

type edgeDifference struct {
	Slot   uint16 `json:"slot"`
	Kind   uint8  `json:"kind" doc:"Of the record; 1 is a link."`
	Domain uint32 `json:"domain" doc:"Number of the link's domain; 0 for what is no link."`
	Name   string `json:"name" doc:"The link's code."`
	What   string `json:"what" doc:"missing, extra, different or unreadable"`
	Edge   string `json:"edge" doc:"What visitors get."`
	Source string `json:"source" doc:"What they should get."`
}

func (s *server) registerOrders() {
	if s.orders == nil {
		return
	}
	handle(s, withBody(huma.Operation{
		OperationID: "verify-edge",
		Method:      http.MethodPost,
		Path:        "/api/admin/edges/{node}/verifications",
		Summary:     "Compare an edge with PostgreSQL, slot by slot",
		Description: "Asks the edge to compare its replica with PostgreSQL while it serves, and to repair what differs if that is wanted. The answer is an order, which has an outcome later. It is in the audit log.",
		Security:    s.needs(controlplane.ScopeAdmin),
		Responses:   problems(400, 401, 403, 404, 408, 413, 415, 422),
	}, maxBody), func(ctx context.Context, in *verifyInput) (*orderOutput, error) {
		asked, err := decode[verifyOrder](s, in.Body.raw, "body")
		if err != nil {
			return nil, err
		}
		return s.order(ctx, controlplane.EdgeOrder{Node: in.Node, What: controlplane.OrderVerify, Repair: asked.Repair})
	})
	handle(s, withBody(huma.Operation{
		OperationID: "accept-edge",
		Method:      http.MethodPost,
		Path:        "/api/admin/edges/{node}/acceptances",
		Summary:     "Let an edge take what it holds back",
		Description: "An edge that is asked to delete very many links at once, or to replace all it has by next to nothing, holds and serves what it has. This says that it is right. The answer is an order, which has an outcome later. It is in the audit log.",
		Security:    s.needs(controlplane.ScopeAdmin),
		Responses:   problems(400, 401, 403, 404, 408, 413, 415, 422),
	}, maxBody), func(ctx context.Context, in *acceptHeldInput) (*orderOutput, error) {
		asked, err := decode[acceptOrder](s, in.Body.raw, "body")
		if err != nil {
			return nil, err
		}
		return s.order(ctx, controlplane.EdgeOrder{Node: in.Node, What: controlplane.OrderAccept, Hold: asked.What})
	})
	handle(s, huma.Operation{
		OperationID: "get-edge-order",
		Method:      http.MethodGet,
		Path:        "/api/admin/edges/{node}/orders/{id}",
		Summary:     "Tell what came of something that was asked of an edge",
		Security:    s.needs(controlplane.ScopeAdmin),
		Responses:   problems(401, 403, 404, 422),
	}, func(ctx context.Context, in *findOrderInput) (*orderOutput, error) {
		o, err := s.orders.Find(ctx, actorFrom(ctx), in.Node, in.ID)
		if err != nil {
			return nil, err
		}
		return &orderOutput{Body: showOrder(&o)}, nil
	})
}

func (s *server) order(ctx context.Context, o controlplane.EdgeOrder) (*orderOutput, error) {
	given, err := s.orders.Give(ctx, actorFrom(ctx), o)
	if err != nil {
		return nil, err
	}
	return &orderOutput{Body: showOrder(&given)}, nil
}

func showOrder(o *controlplane.EdgeOrder) edgeOrder {
	shown := edgeOrder{
		ID: o.ID, Node: o.Node, What: string(o.What), Repair: o.Repair, OrderedBy: o.By, OrderedAt: o.At.UTC(), Until: o.Until.UTC(), DoneAt: momentOf(o.DoneAt),
	}
	if o.DoneAt.IsZero() {
		return shown
	}
	c := &o.Outcome
	outcome := &edgeOutcome{
		Error: c.Error, Accepted: c.Accepted, Slots: c.Slots, Records: c.Records, Different: c.Different, Repaired: c.Repaired, Seconds: c.Seconds,
		Differences: make([]edgeDifference, len(c.Differences)),
	}
	if c.Epoch > 0 {
		outcome.Position = &seqInLog{Epoch: c.Epoch, Seq: c.Seq}
	}
	for i := range c.Differences {
		outcome.Differences[i] = edgeDifference(c.Differences[i])
	}
	shown.Outcome = outcome
	return shown
}

// PathEdgeOutcomes is where edges tell what came of what was asked of them.
const PathEdgeOutcomes = "/fleet/v1/outcome"

const (
	maxOutcome     = 64 << 10 // bytes of a body
	maxOutcomeText = 1024
)

// OutcomeTaker takes what edges answer. ENotFound: nobody has asked.
type OutcomeTaker interface {
	Done(ctx context.Context, node string, id int64, outcome controlplane.EdgeOutcome) error
}

// edgeAnswer is the body of an outcome.
type edgeAnswer struct {
	Node  string `json:"node"`
	Order int64  `json:"order"`
	controlplane.EdgeOutcome
}

// EdgeOutcomes takes what came of orders, one JSON object of at most 64 KiB a POST, and answers 204. It does not
// ask who sends it.
func EdgeOutcomes(orders OutcomeTaker, logger *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body edgeAnswer
		data, err := readPosted(w, r, maxOutcome)
		if err == nil {
			if err = json.Unmarshal(data, &body); err != nil {
				err = waypost.WrapError(waypost.EMalformed, "the body is no outcome in JSON", err)
			} else {
				err = body.judge()
			}
		}
		if err == nil {
			err = speakerOf(r.Context()).maySpeak(r.Context(), body.Node)
		}
		if err == nil {
			err = orders.Done(r.Context(), body.Node, body.Order, body.EdgeOutcome)
		}
		if err != nil {
			refuseEdge(w, r, logger, "an edge's answer was not taken", err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
}

// judge lets through only what can be shown to an operator as it is.
func (a *edgeAnswer) judge() error {
	shown := []string{a.Error, a.Accepted}
	for _, d := range a.Differences {
		shown = append(shown, d.Name, d.What, d.Edge, d.Source)
	}
	for _, text := range shown {
		if len(text) > maxOutcomeText || !printable(strings.ReplaceAll(text, " ", "")) {
			return waypost.Errorf(waypost.EInvalid, "texts must be at most %d printable characters", maxOutcomeText)
		}
	}
	if !waypost.ValidNode(a.Node) || a.Order < 1 || len(a.Differences) > controlplane.MaxDifferences ||
		a.Slots < 0 || a.Slots > waypost.Slots || a.Different < 0 || a.Repaired < 0 || a.Records > 1<<62 || a.Seq > 1<<62 || a.Seconds < 0 {
		return waypost.Errorf(waypost.EInvalid, "the outcome is out of bounds")
	}
	return nil
}

// readPosted reads a JSON body that was sent with POST.
func readPosted(w http.ResponseWriter, r *http.Request, most int64) ([]byte, error) {
	if r.Method != http.MethodPost {
		p := newProblem(codeMethodNotAllowed, "send it with POST")
		p.header.Set("Allow", http.MethodPost)
		return nil, p
	}
	if !isJSON(r.Header.Get("Content-Type")) {
		return nil, waypost.Errorf(codeUnsupportedMedia, "send Content-Type: application/json")
	}
	// Not every ResponseWriter has a deadline.
	conn := http.NewResponseController(w)
	if err := conn.SetReadDeadline(time.Now().Add(reportReadTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, waypost.WrapError(waypost.EUnavailable, "the connection is broken", err)
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if err != nil {
		return nil, unreadable(err, most)
	}
	if err := conn.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, waypost.WrapError(waypost.EUnavailable, "the connection is broken", err)
	}
	return data, nil
}

// refuseEdge answers an edge with what is wrong, and logs it.
func refuseEdge(w http.ResponseWriter, r *http.Request, logger *slog.Logger, what string, err error) {
	p, ok := errors.AsType[*problem](err)
	if !ok {
		p = newProblem(waypost.CodeOf(err), waypost.MessageOf(err))
	}
	logger.WarnContext(r.Context(), what, slog.Int("status", p.Status), slog.Any("error", err))
	writeProblem(w, p)
}

// told is an order as an edge is told of it.
type told struct {
	ID     int64  `json:"id"`
	What   string `json:"what"`
	Repair bool   `json:"repair,omitempty"`
	Hold   string `json:"hold,omitempty"`
}

// writeOrders answers a report with what the edge is to do.
func writeOrders(w http.ResponseWriter, orders []controlplane.EdgeOrder) error {
	all := make([]told, 0, min(len(orders), maxTold))
	for _, o := range orders[:min(len(orders), maxTold)] {
		all = append(all, told{o.ID, string(o.What), o.Repair, o.Hold})
	}
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(map[string][]told{"orders": all})
}

// maxTold bounds the orders in an answer; the others come later.
const maxTold = 16
