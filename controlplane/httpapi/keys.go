package httpapi

import (
	"context"
	"fmt"
	"net/http"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/keys"
)

// Keys manages key ranges, and reserves keys for services outside of Waypost. EForbidden:
// the actor is not an operator of the installation.
type Keys interface {
	ReserveKeys(ctx context.Context, actor controlplane.Actor, service string, n int) ([]waypost.Code, error)
	ReturnKeys(ctx context.Context, actor controlplane.Actor, service string, unused []string) ([]keys.Returned, error)
	Stats(ctx context.Context, actor controlplane.Actor) (api.KeyStats, error)
	KeySpace(ctx context.Context, actor controlplane.Actor) (keys.KeySpace, error)
	ChangeRanges(ctx context.Context, actor controlplane.Actor, c api.RangeChange) ([]api.StepDone, error)
	PlanRanges(ctx context.Context, actor controlplane.Actor) (api.RangePlan, error)
	Decode(ctx context.Context, actor controlplane.Actor, code string) (api.DecodedKey, error)
	Health(ctx context.Context) keys.Health
}

// keysAPI reserves keys for services outside of Waypost.
type keysAPI struct {
	keys Keys
	auth *authenticator
}

type keyInput struct {
	Service string `query:"service" minLength:"1" maxLength:"100" doc:"The service that holds the key: 1 to 100 printable ASCII characters. Default: the API key's name, or \"default\" where that is not a valid name."`
}

func registerKeys(rt *router, a *keysAPI) {
	write := []controlplane.Scope{controlplane.ScopeLinksWrite}
	handle(rt, operation{
		id: "reserve-key", method: http.MethodGet, path: api.PathKeys + "/key", summary: "Reserve one key for a service",
		description: "Every request reserves another key.", scopes: write, problems: []int{http.StatusConflict},
	}, a.reserveOne)
	handle(rt, operation{
		id: "reserve-keys", method: http.MethodPost, path: api.PathKeys + "/keys/bulk",
		summary: "Reserve up to 10,000 keys for a service", scopes: write, problems: []int{http.StatusConflict},
	}, a.reserve)
	handle(rt, operation{
		id: "return-keys", method: http.MethodPost, path: api.PathKeys + "/keys/return",
		summary: "Return keys that were never published", scopes: write,
	}, func(ctx context.Context, in *body[api.ReturnKeys]) (*body[api.ReturnedKeys], error) {
		actor := actorFrom(ctx)
		a.auth.charge(ctx, len(in.Body.Keys))
		outcomes, err := a.keys.ReturnKeys(ctx, actor, serviceOf(actor, in.Body.Service), in.Body.Keys)
		if err != nil {
			return nil, err
		}
		out := bodyOf(api.ReturnedKeys{Refused: []api.RefusedKey{}})
		for i := range outcomes {
			if outcomes[i].Err == nil {
				out.Body.Returned++
				continue
			}
			p := rt.problem(ctx, "return-keys", outcomes[i].Err)
			out.Body.Refused = append(out.Body.Refused, api.RefusedKey{Key: string(outcomes[i].Code), Code: p.code(), Detail: p.Detail})
		}
		return out, nil
	})
	handle(rt, operation{
		id: "key-stats", method: http.MethodGet, path: api.PathKeys + "/stats", summary: "Get the supply of keys in this region",
		scopes: []controlplane.Scope{controlplane.ScopeLinksRead},
	}, func(ctx context.Context, _ *struct{}) (*body[api.KeyStats], error) {
		return answered(a.keys.Stats(ctx, actorFrom(ctx)))
	})
}

func (a *keysAPI) reserveOne(ctx context.Context, in *keyInput) (*body[api.ReservedKey], error) {
	keys, service, err := a.takeKeys(ctx, in.Service, 1)
	if err != nil {
		return nil, err
	}
	return bodyOf(api.ReservedKey{Key: keys[0], Service: service}), nil
}

func (a *keysAPI) reserve(ctx context.Context, in *body[api.ReserveKeys]) (*body[api.ReservedKeys], error) {
	keys, service, err := a.takeKeys(ctx, in.Body.Service, in.Body.Count)
	if err != nil {
		return nil, err
	}
	return bodyOf(api.ReservedKeys{Keys: keys, Service: service}), nil
}

func (a *keysAPI) takeKeys(ctx context.Context, service string, n int) (keys []string, holder string, err error) {
	actor := actorFrom(ctx)
	service = serviceOf(actor, service)
	a.auth.charge(ctx, n)
	codes, err := a.keys.ReserveKeys(ctx, actor, service, n)
	if err == nil && len(codes) != n {
		err = fmt.Errorf("%d keys where %d were requested", len(codes), n)
	}
	keys = make([]string, len(codes))
	for i, code := range codes {
		keys[i] = string(code)
	}
	return keys, service, err
}

// serviceOf returns the service of a request: the named one, or else the API key's name,
// unless a service cannot have that name.
func serviceOf(actor controlplane.Actor, named string) string {
	if named != "" {
		return named
	}
	const most = 100 // as for a named service
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
