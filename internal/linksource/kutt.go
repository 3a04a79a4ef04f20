package linksource

import (
	"context"
	"net/url"
	"strconv"
)

const kuttPage = 50 // links, which is the most of its API

// readKutt reads the links of one user of Kutt. The newest links are first.
func readKutt(ctx context.Context, r *reader) error {
	r.header.Set("X-Api-Key", r.Key)
	for skip := 0; ; {
		var got struct {
			Data  []link
			Total int
		}
		query := url.Values{"limit": {strconv.Itoa(kuttPage)}, "skip": {strconv.Itoa(skip)}}
		if err := r.get(ctx, "/api/v2/links", query, &got); err != nil {
			return err
		}
		r.told = got.Total
		if err := r.writePage(got.Data); err != nil {
			return err
		}
		skip += len(got.Data)
		if len(got.Data) == 0 || len(got.Data) < kuttPage && skip >= got.Total {
			return nil
		}
	}
}
