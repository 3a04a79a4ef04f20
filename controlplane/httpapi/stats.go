package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"waypost"
	"waypost/controlplane"
)

// statsDescription is for both forms of statistics.
const statsDescription = "Counts the GET requests that edges have answered with a redirect; prefetches do not count. Edges report theirs within seconds, and as soon as they can after a time without a connection; each click is counted once. Expired links have statistics, deleted ones have none."

type statsOutput struct{ Body linkStats }

type linkStats struct {
	ShortCode      string     `json:"short_code"`
	OriginalURL    string     `json:"original_url"`
	ClickCount     int64      `json:"clicks" minimum:"0"`
	BotClicks      int64      `json:"bot_clicks" minimum:"0" doc:"Of these, by software that says it is no person, such as fetchers of previews and search engines."`
	CreatedAt      time.Time  `json:"created_at"`
	LastAccessedAt *time.Time `json:"last_accessed_at" doc:"Time of the newest click, null when there was none."`
}

type shortStatsOutput struct{ Body shortStats }

// shortStats is the short old form of [linkStats].
type shortStats struct {
	ShortCode      string     `json:"short_code"`
	OriginalURL    string     `json:"original_url"`
	ClickCount     int64      `json:"click_count" minimum:"0"`
	BotClicks      int64      `json:"bot_clicks" minimum:"0" doc:"Of these, by software that says it is no person, such as fetchers of previews and search engines."`
	CreatedAt      time.Time  `json:"created_at"`
	LastAccessedAt *time.Time `json:"last_accessed_at" doc:"Time of the newest click, null when there was none."`
}

func (s *server) registerStats() {
	security := s.needs(controlplane.ScopeAnalytics, controlplane.ScopeLinksRead)
	handle(s, huma.Operation{
		OperationID: "link-stats",
		Method:      http.MethodGet,
		Path:        linksPath + "/{code}/stats",
		Summary:     "Get a link's statistics",
		Description: statsDescription,
		Security:    security,
		Responses:   problems(401, 403, 404),
	}, s.linkStats)

	handle(s, huma.Operation{
		OperationID: "stats",
		Method:      http.MethodGet,
		Path:        "/stats/{code}",
		Summary:     "Get a link's statistics, in the short old form",
		Description: statsDescription,
		Security:    security,
		Responses:   problems(401, 403, 404),
	}, s.shortStats)
}

func (s *server) linkStats(ctx context.Context, in *codeInput) (*statsOutput, error) {
	if !waypost.ValidCode(in.Code) {
		return nil, errNoLink
	}
	l, err := s.links.Stats(ctx, actorFrom(ctx), in.Code)
	if err != nil {
		return nil, err
	}
	return &statsOutput{Body: linkStats{
		ShortCode:      string(l.Code),
		OriginalURL:    l.OriginalURL,
		ClickCount:     l.Clicks,
		BotClicks:      l.BotClicks,
		CreatedAt:      l.CreatedAt.UTC(),
		LastAccessedAt: momentOf(l.LastAccessedAt),
	}}, nil
}

func (s *server) shortStats(ctx context.Context, in *codeInput) (*shortStatsOutput, error) {
	out, err := s.linkStats(ctx, in)
	if err != nil {
		return nil, err
	}
	return &shortStatsOutput{Body: shortStats(out.Body)}, nil
}
