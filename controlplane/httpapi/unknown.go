package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
)

// maxUnknownReport bounds a report of unknown addresses, in bytes.
const maxUnknownReport = 1 << 20

// UnknownTaker counts the reports of edges about unknown addresses.
type UnknownTaker interface {
	CountUnknown(ctx context.Context, r *controlplane.UnknownReport) error
}

// EdgeUnknown takes the unknown addresses of edges, one [api.EdgeUnknown] a POST of at
// most 1 MiB, and answers 204, also when the report was counted before.
func EdgeUnknown(to UnknownTaker, log *slog.Logger) http.Handler {
	const refusal = "refused an edge's report of unknown addresses"
	return edgePosts(maxUnknownReport, refusal, log, func(ctx context.Context, body *api.EdgeUnknown) (any, error) {
		report, err := unknownOf(body)
		if err == nil {
			err = edgeFrom(ctx).maySpeak(ctx, body.Node)
		}
		if err == nil {
			err = to.CountUnknown(ctx, &report)
		}
		return nil, err
	})
}

// unknownOf accepts only addresses that can be stored and shown.
func unknownOf(b *api.EdgeUnknown) (r controlplane.UnknownReport, err error) {
	const most = 1 << 40 // visits
	if !waypost.ValidNode(b.Node) || b.Seq < 1 || b.Seq > 1<<62 || len(b.Addresses) > api.MaxEdgeUnknown {
		return r, waypost.Errorf(waypost.EInvalid, "the report needs the name of the edge, a sequence, and at most %d addresses", api.MaxEdgeUnknown)
	}
	r = controlplane.UnknownReport{Node: b.Node, Seq: b.Seq, Addresses: make([]controlplane.UnknownVisits, len(b.Addresses))}
	if r.Boot, err = bootOf(b.Boot); err != nil {
		return r, err
	}
	type name struct{ domain, day, path, kind any }
	seen := make(map[name]bool, len(b.Addresses))
	for i, a := range b.Addresses {
		day, err := waypost.ParseDay(a.Day)
		key := name{a.Domain, a.Day, a.Path, a.Kind}
		switch {
		case err != nil:
			return r, waypost.Errorf(waypost.EInvalid, "day must be a date such as 2026-03-31")
		case a.Domain < 1 || a.Domain > 1<<31-1 || a.Kind > uint8(waypost.LedByPattern) || seen[key]:
			return r, waypost.Errorf(waypost.EInvalid, "domain, day, kind and path must name an address, once")
		case a.Path == "" || len(a.Path) > waypost.MaxUnknownPath || !waypost.ValidClickName(a.Path):
			return r, waypost.Errorf(waypost.EInvalid, "path must be 1 to %d bytes of UTF-8 without control characters", waypost.MaxUnknownPath)
		case a.People > most || a.Bots > most || len(a.Visitors) > waypost.UnknownVisitors:
			return r, waypost.Errorf(waypost.EInvalid, "people, bots and visitors must be possible")
		}
		seen[key] = true
		r.Addresses[i] = controlplane.UnknownVisits{
			Domain: waypost.DomainID(a.Domain), Day: day, Kind: waypost.UnknownKind(a.Kind), Path: a.Path,
			People: int64(a.People), Bots: int64(a.Bots), Visitors: a.Visitors,
		}
	}
	return r, nil
}

type unknownInput struct {
	inDomain
	From  string `query:"from" maxLength:"10" example:"2026-03-01" doc:"First day, in UTC. Default: a week, including the last day."`
	To    string `query:"to" maxLength:"10" example:"2026-03-07" doc:"Last day, in UTC. Default: today."`
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"How many addresses."`
}

func (a *statisticsAPI) unknown(ctx context.Context, in *unknownInput) (*body[api.UnknownAddresses], error) {
	from, err := timeIn(time.UTC, "query.from", in.From, 0)
	if err != nil {
		return nil, err
	}
	to, err := timeIn(time.UTC, "query.to", in.To, 0)
	if err != nil {
		return nil, err
	}
	addresses, q, err := a.clicks.Unknown(ctx, actorFrom(ctx), in.Domain, from, to, in.Limit)
	return answered(api.UnknownAddresses{
		From: q.From.Format(time.DateOnly), To: q.To.Format(time.DateOnly), Addresses: filled(addresses),
	}, err)
}
