package httpapi

import (
	"context"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"waypost"
	"waypost/controlplane"
)

// Keys looks after key ranges, and gives keys to services outside of Waypost. All
// methods may be called by many goroutines at once, and must return soon after
// their context has ended. Errors are as those of [Links]; EForbidden says that
// the actor is no operator of the installation.
type Keys interface {
	// ReserveKeys gives a service n keys, 1 to [controlplane.MaxReserved], that nobody
	// else will ever get. They are durable when it returns. EExhausted says that the
	// region has no key left.
	ReserveKeys(ctx context.Context, actor controlplane.Actor, service string, n int) ([]waypost.Code, error)

	// ReturnKeys takes back up to [controlplane.MaxReserved] keys that the service
	// never published, each with its own outcome, in the order of keys.
	ReturnKeys(ctx context.Context, actor controlplane.Actor, service string, keys []string) ([]controlplane.Returned, error)

	// KeyStats tells how this control plane's region stands for keys.
	KeyStats(ctx context.Context, actor controlplane.Actor) (controlplane.KeyStats, error)

	// KeySpace gives all ranges, for operators.
	KeySpace(ctx context.Context, actor controlplane.Actor) (controlplane.KeySpace, error)

	// ChangeRanges does what an operator asks: all steps, which are at most
	// [controlplane.MaxRangeSteps], or none. EConflict says that the ranges are not as
	// the change takes them to be.
	ChangeRanges(ctx context.Context, actor controlplane.Actor, c controlplane.RangeChange) ([]controlplane.StepDone, error)

	// PlanRanges works out a change after which all regions last equally long, and
	// makes none.
	PlanRanges(ctx context.Context, actor controlplane.Actor) (controlplane.RangePlan, error)

	// Decode takes a generated code apart, for operators: EInvalid when it cannot be one.
	Decode(ctx context.Context, actor controlplane.Actor, code string) (controlplane.Decoded, error)

	// Audit gives a page of what administrators of the actor's workspace did, or, for
	// operators, those of all, newest first. A cursor that Audit did not give is EMalformed.
	Audit(ctx context.Context, actor controlplane.Actor, all bool, limit int, cursor string) (entries []controlplane.AuditEntry, next string, err error)
}

const keysPath = "/api/v1/kgs"

type keyInput struct {
	Service string `query:"service" minLength:"1" maxLength:"100" doc:"Who holds the key: 1 to 100 printable ASCII characters. Left out: the API key's name, or \"default\" where that will not do."`
}

type keyOutput struct{ Body reservedKey }

type reservedKey struct {
	Key     string `json:"key" example:"r7Qx0aZ" doc:"A code that nothing else in this cluster will ever have."`
	Service string `json:"service" doc:"Who holds it."`
}

// keysWish is a wish for many keys.
type keysWish struct {
	Count   int    `json:"count" minimum:"1" maximum:"10000" doc:"How many keys."`
	Service string `json:"service,omitempty" minLength:"1" maxLength:"100" doc:"Who holds the keys: 1 to 100 printable ASCII characters. Left out: the API key's name, or \"default\" where that will not do."`
}

type keysInput struct{ Body body[keysWish] }

type keysOutput struct{ Body reservedKeys }

type reservedKeys struct {
	Keys    []string `json:"keys" nullable:"false" doc:"As many as were asked for."`
	Service string   `json:"service" doc:"Who holds them."`
}

// keysBack is keys that a service gives back.
type keysBack struct {
	Keys    []string `json:"keys" nullable:"false" minItems:"1" maxItems:"10000" maxLength:"32" doc:"Keys that were never published."`
	Service string   `json:"service,omitempty" minLength:"1" maxLength:"100" doc:"Who holds the keys. Left out: as when they were reserved without one."`
}

type keysBackInput struct{ Body body[keysBack] }

type keysBackOutput struct{ Body keysTaken }

type keysTaken struct {
	Returned int          `json:"returned" minimum:"0" doc:"How many were taken back, and will be given out again."`
	Refused  []refusedKey `json:"refused" nullable:"false" doc:"The others."`
}

type refusedKey struct {
	Key    string `json:"key"`
	Code   string `json:"code" example:"not-found" doc:"Ends the type of the problem that this key alone would have got: not-found when the service does not hold it, conflict when a link has it."`
	Detail string `json:"detail"`
}

type keyStatsOutput struct{ Body keyStats }

type keyStats struct {
	Region       string           `json:"region" doc:"Of the control plane that answers."`
	PoolSize     int64            `json:"pool_size" minimum:"0" doc:"All counters that can still be leased from the region's live ranges."`
	Leased       int64            `json:"leased" minimum:"0" doc:"Counters that this control plane has leased beside that, and not issued yet."`
	Rate         float64          `json:"rate_per_minute" minimum:"0" doc:"Keys issued in the region, over the last hour."`
	MinutesLeft  *float64         `json:"minutes_left" doc:"How long the pool lasts at that rate; null when no key is issued."`
	FreePrefixes int              `json:"free_prefixes" minimum:"0" doc:"Prefixes that no region has. One is taken by itself when a region runs low."`
	Held         *string          `json:"held" doc:"Why no key is leased until an operator resumes; null when keys are."`
	Reserved     map[string]int64 `json:"reserved" doc:"How many keys the workspace's services hold, by service."`
}

func (s *server) registerKeys() {
	if s.keys == nil {
		return
	}
	handle(s, huma.Operation{
		OperationID: "reserve-key",
		Method:      http.MethodGet,
		Path:        keysPath + "/key",
		Summary:     "Reserve one key for a service",
		Description: "Every request gives another key.",
		Security:    s.needs(controlplane.ScopeLinksWrite),
		Responses:   problems(401, 403, 422),
	}, s.reserveKey)

	handle(s, withBody(huma.Operation{
		OperationID: "reserve-keys",
		Method:      http.MethodPost,
		Path:        keysPath + "/keys/bulk",
		Summary:     "Reserve up to 10,000 keys for a service",
		Security:    s.needs(controlplane.ScopeLinksWrite),
		Responses:   problems(400, 401, 403, 408, 413, 415, 422),
	}, maxBody), s.reserveKeys)

	handle(s, withBody(huma.Operation{
		OperationID: "return-keys",
		Method:      http.MethodPost,
		Path:        keysPath + "/keys/return",
		Summary:     "Give back keys that were never published",
		Security:    s.needs(controlplane.ScopeLinksWrite),
		Responses:   problems(400, 401, 403, 408, 413, 415, 422),
	}, maxBody), s.returnKeys)

	handle(s, huma.Operation{
		OperationID: "key-stats",
		Method:      http.MethodGet,
		Path:        keysPath + "/stats",
		Summary:     "How this region stands for keys",
		Security:    s.needs(controlplane.ScopeLinksRead),
		Responses:   problems(401, 403),
	}, s.keyStats)
}

func (s *server) reserveKey(ctx context.Context, in *keyInput) (*keyOutput, error) {
	codes, service, err := s.reserve(ctx, in.Service, 1)
	if err != nil {
		return nil, err
	}
	return &keyOutput{Body: reservedKey{Key: string(codes[0]), Service: service}}, nil
}

func (s *server) reserveKeys(ctx context.Context, in *keysInput) (*keysOutput, error) {
	wish, err := decode[keysWish](s, in.Body.raw, "body")
	if err != nil {
		return nil, err
	}
	codes, service, err := s.reserve(ctx, wish.Service, wish.Count)
	if err != nil {
		return nil, err
	}
	out := &keysOutput{Body: reservedKeys{Keys: make([]string, len(codes)), Service: service}}
	for i, code := range codes {
		out.Body.Keys[i] = string(code)
	}
	return out, nil
}

func (s *server) reserve(ctx context.Context, service string, n int) ([]waypost.Code, string, error) {
	actor := actorFrom(ctx)
	service = serviceOf(actor, service)
	codes, err := s.keys.ReserveKeys(ctx, actor, service, n)
	if err == nil && len(codes) != n {
		err = fmt.Errorf("%d keys where %d were asked for", len(codes), n)
	}
	return codes, service, err
}

func (s *server) returnKeys(ctx context.Context, in *keysBackInput) (*keysBackOutput, error) {
	back, err := decode[keysBack](s, in.Body.raw, "body")
	if err != nil {
		return nil, err
	}
	actor := actorFrom(ctx)
	outcomes, err := s.keys.ReturnKeys(ctx, actor, serviceOf(actor, back.Service), back.Keys)
	if err != nil {
		return nil, err
	}
	out := &keysBackOutput{Body: keysTaken{Refused: []refusedKey{}}}
	for i := range outcomes {
		if outcomes[i].Err == nil {
			out.Body.Returned++
			continue
		}
		p := s.problem(ctx, "return-keys", outcomes[i].Err)
		out.Body.Refused = append(out.Body.Refused, refusedKey{Key: string(outcomes[i].Code), Code: p.code(), Detail: p.Detail})
	}
	return out, nil
}

func (s *server) keyStats(ctx context.Context, _ *struct{}) (*keyStatsOutput, error) {
	stats, err := s.keys.KeyStats(ctx, actorFrom(ctx))
	if err != nil {
		return nil, err
	}
	out := &keyStatsOutput{Body: keyStats{
		Region: string(stats.Region), PoolSize: stats.PoolSize, Leased: stats.Leased, Rate: stats.Rate,
		MinutesLeft:  known(controlplane.Supply{Unissued: stats.PoolSize, Rate: stats.Rate}.MinutesLeft()),
		FreePrefixes: stats.FreePrefixes, Held: textOrNull(stats.Held), Reserved: stats.Reserved,
	}}
	if out.Body.Reserved == nil {
		out.Body.Reserved = map[string]int64{}
	}
	return out, nil
}

// serviceOf gives the service that a request is for: the one that it names, or
// else the API key's name, unless that is none that a service may have.
func serviceOf(actor controlplane.Actor, named string) string {
	if named != "" {
		return named
	}
	const most = 100 // as for a service that is named
	for i := range len(actor.Name) {
		if c := actor.Name[i]; c < ' ' || c > '~' {
			return "default"
		}
	}
	if actor.Name == "" || len(actor.Name) > most {
		return "default"
	}
	return actor.Name
}

// known gives v as a client reads it, nil when it is not known.
func known[T any](v T, ok bool) *T {
	if !ok {
		return nil
	}
	return &v
}

// textOrNull gives a text as a client reads it, nil for none.
func textOrNull(text string) *string { return known(text, text != "") }
