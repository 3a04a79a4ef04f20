package linksource

import (
	"context"
	"net/url"
	"strconv"
)

const kuttPage = 50 // links, which is the most of its API

// kuttLink is a link as /api/v2 has it.
type kuttLink struct {
	Address     string `json:"address"`
	Target      string `json:"target"`
	Description string `json:"description"`
	Domain      string `json:"domain"`
	CreatedAt   string `json:"created_at"`
	ExpireIn    string `json:"expire_in"`
	Password    bool   `json:"password"`
	Banned      bool   `json:"banned"`
}

// readKutt reads the links of one user of Kutt. The newest links are first.
func readKutt(ctx context.Context, r *reader) error {
	r.header.Set("X-Api-Key", r.Key)
	for skip := 0; ; {
		var got struct {
			Data  []kuttLink `json:"data"`
			Total int        `json:"total"`
		}
		query := url.Values{"limit": {strconv.Itoa(kuttPage)}, "skip": {strconv.Itoa(skip)}}
		if err := r.get(ctx, "/api/v2/links", query, &got); err != nil {
			return err
		}
		for i := range got.Data {
			l := &got.Data[i]
			err := r.write(&link{
				OriginalURL: l.Target, CustomCode: l.Address, Domain: l.Domain, Description: l.Description, CreatedAt: l.CreatedAt,
				ExpiresAt: l.ExpireIn, Active: !l.Banned, HasPassword: l.Password,
			})
			if err != nil {
				return err
			}
		}
		r.told = got.Total
		if err := r.endPage(len(got.Data)); err != nil {
			return err
		}
		skip += len(got.Data)
		if len(got.Data) == 0 || len(got.Data) < kuttPage && skip >= got.Total {
			return nil
		}
	}
}
