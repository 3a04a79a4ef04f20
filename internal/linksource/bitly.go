package linksource

import (
	"context"
	"net/url"
)

// readBitly reads the links of all groups of an account of Bitly. Archived links are
// hidden there, and redirect as the others do.
func readBitly(ctx context.Context, r *reader) error {
	r.header.Set("Authorization", "Bearer "+r.Key)
	var all struct{ Groups []struct{ GUID string } }
	if err := r.get(ctx, "/v4/groups", nil, &all); err != nil {
		return err
	}
	for _, group := range all.Groups {
		if err := readBitlyGroup(ctx, r, group.GUID); err != nil {
			return err
		}
	}
	return nil
}

func readBitlyGroup(ctx context.Context, r *reader, group string) error {
	query := url.Values{"size": {"100"}, "archived": {"both"}}
	for first := true; ; first = false {
		var got struct {
			Links      []link
			Pagination struct {
				Next  string
				Total int
			}
		}
		if err := r.get(ctx, "/v4/groups/"+url.PathEscape(group)+"/bitlinks", query, &got); err != nil {
			return err
		}
		if first {
			r.told += got.Pagination.Total
		}
		if err := r.writePage(got.Links); err != nil {
			return err
		}
		next, err := url.Parse(got.Pagination.Next)
		if err != nil || next.RawQuery == "" || len(got.Links) == 0 {
			return nil
		}
		query = next.Query() // of this address, whatever host it names
	}
}
