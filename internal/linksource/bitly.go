package linksource

import (
	"context"
	"net/url"
)

// bitlyLink is a Bitlink as /v4 has it.
type bitlyLink struct {
	ID             string   `json:"id"` // the domain and the code, without a scheme
	LongURL        string   `json:"long_url"`
	CustomBitlinks []string `json:"custom_bitlinks"`
	Title          string   `json:"title"`
	Tags           []string `json:"tags"`
	CreatedAt      string   `json:"created_at"`
}

// readBitly reads the links of all groups of an account of Bitly. Archived links are
// hidden there, and redirect as the others do.
func readBitly(ctx context.Context, r *reader) error {
	r.header.Set("Authorization", "Bearer "+r.Key)
	var all struct {
		Groups []struct {
			GUID string `json:"guid"`
		} `json:"groups"`
	}
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
	for total := -1; ; {
		var got struct {
			Links      []bitlyLink `json:"links"`
			Pagination struct {
				Next  string `json:"next"`
				Total int    `json:"total"`
			} `json:"pagination"`
		}
		if err := r.get(ctx, "/v4/groups/"+url.PathEscape(group)+"/bitlinks", query, &got); err != nil {
			return err
		}
		for i := range got.Links {
			l := &got.Links[i]
			err := r.write(&link{
				OriginalURL: l.LongURL, ShortURL: l.ID, CustomBitlinks: l.CustomBitlinks, Title: l.Title, Tags: l.Tags, CreatedAt: l.CreatedAt,
				Active: true,
			})
			if err != nil {
				return err
			}
		}
		if total < 0 {
			total = got.Pagination.Total
			r.told += total
		}
		if err := r.endPage(len(got.Links)); err != nil {
			return err
		}
		next, err := url.Parse(got.Pagination.Next)
		if err != nil || next.RawQuery == "" || len(got.Links) == 0 {
			return nil
		}
		query = next.Query() // of this address, whatever host it names
	}
}
