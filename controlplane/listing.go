package controlplane

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"waypost"
)

// Order is how a list of links is sorted.
type Order string

// The orders. Links of one moment, or with as many clicks, go by id.
const (
	NewestFirst   Order = "-created"
	OldestFirst   Order = "created"
	MostClicked   Order = "-clicks" // links that were never followed come last, newest first
	LeastClicked  Order = "clicks"  // links that were never followed come first, oldest first
	MaxListed           = 1000      // links of a page, and tags
	MaxWords            = 256       // bytes of a search
	MaxTagsListed       = 8         // tags that a link must have, of one list
)

// LinkFilter says which links are asked for. Zero fields ask for all; what is given
// must be true of a link all together.
type LinkFilter struct {
	Words         string    // in the title and description, as people search: "a phrase", or, -not
	Tags          []string  // all of them
	Domain        string    // host; one that is unknown, or another workspace's, has no links
	Active        *bool     // enabled, or disabled
	Expired       *bool     // by the time of the control plane
	CreatedAfter  time.Time // or at that moment
	CreatedBefore time.Time
}

// ListRequest asks for a page of links.
type ListRequest struct {
	LinkFilter
	Order  Order  // default: NewestFirst
	Limit  int    // 1 to MaxListed
	Cursor string // of the page before, with the same filter and order; "" for the first
}

// Page is one page of a list.
type Page struct {
	Links []waypost.Link
	Next  string // opaque cursor of the next page, "" at the end
}

// ListStage is a part of a list, which a query can walk over on one index.
type ListStage byte

// The stages. By clicks, links that were followed are one stage and all others another.
const (
	StageAll ListStage = iota
	StageClicked
	StageNever
)

// ListPlace is where a list goes on: behind a link.
type ListPlace struct {
	Stage   ListStage
	Created time.Time // of the link; used unless by clicks
	Clicks  int64     // that the link is sorted by
	ID      int64     // 0: at the beginning of the stage
}

// LinkPage is a page as the store gives it: Links that fit, and where to go on, nil at
// the end. A page may be short, or empty, and yet not the last, because the store looks
// at a limited number of links at once.
type LinkPage struct {
	Links []waypost.Link
	Next  *ListPlace
}

// TagCount is a tag and how many live links have it.
type TagCount struct {
	Tag   string
	Links int64
}

// LinkLister finds links of a workspace.
type LinkLister interface {
	// ListLinks gives up to limit links of one stage, in order, that fit a filter at a
	// moment, with their clicks.
	ListLinks(ctx context.Context, ws waypost.WorkspaceID, f LinkFilter, now time.Time, o Order, from ListPlace, limit int) (LinkPage, error)

	// ListTags gives up to limit tags that begin with prefix and come after another, in
	// the order of their bytes.
	ListTags(ctx context.Context, ws waypost.WorkspaceID, prefix, after string, limit int) ([]TagCount, error)
}

// stages of an order, in theirs.
func (o Order) stages() []ListStage {
	switch o {
	case MostClicked:
		return []ListStage{StageClicked, StageNever}
	case LeastClicked:
		return []ListStage{StageNever, StageClicked}
	default:
		return []ListStage{StageAll}
	}
}

// List gives a page of the workspace's links. EMalformed for a bad cursor, EInvalid for
// one of another list, and for a filter that breaks a rule.
func (s *Links) List(ctx context.Context, actor Actor, r ListRequest) (Page, error) {
	if r.Order == "" {
		r.Order = NewestFirst
	}
	if err := r.check(); err != nil {
		return Page{}, err
	}
	stages := r.Order.stages()
	from := ListPlace{Stage: stages[0]}
	if r.Cursor != "" {
		var err error
		if from, err = r.readCursor(); err != nil {
			return Page{}, err
		}
	}
	var page Page
	for i := slices.Index(stages, from.Stage); i < len(stages); i++ {
		if from.Stage != stages[i] {
			from = ListPlace{Stage: stages[i]}
		}
		got, err := s.store.ListLinks(ctx, actor.Workspace, r.LinkFilter, s.now(), r.Order, from, r.Limit-len(page.Links))
		if err != nil {
			return Page{}, err
		}
		page.Links = append(page.Links, got.Links...)
		if got.Next != nil {
			page.Next = r.cursor(*got.Next)
			break
		}
		if len(page.Links) == r.Limit && i+1 < len(stages) {
			page.Next = r.cursor(ListPlace{Stage: stages[i+1]})
			break
		}
	}
	return page, nil
}

func (r *ListRequest) check() error {
	switch r.Order {
	case NewestFirst, OldestFirst, MostClicked, LeastClicked:
	default:
		return waypost.Errorf(waypost.EInvalid, "sort must be created, -created, clicks or -clicks")
	}
	if r.Limit < 1 || r.Limit > MaxListed {
		return waypost.Errorf(waypost.EInvalid, "limit must be 1 to %d", MaxListed)
	}
	if len(r.Words) > MaxWords || !isText(r.Words) {
		return waypost.Errorf(waypost.EInvalid, "q must be UTF-8 without NUL, at most %d bytes", MaxWords)
	}
	if len(r.Tags) > MaxTagsListed {
		return waypost.Errorf(waypost.EInvalid, "at most %d tags at once", MaxTagsListed)
	}
	for _, tag := range r.Tags {
		if tag == "" || len(tag) > waypost.MaxTag || !isText(tag) || strings.ContainsFunc(tag, unicode.IsControl) {
			return waypost.Errorf(waypost.EInvalid, "tag must be UTF-8 without control characters, of 1 to %d bytes", waypost.MaxTag)
		}
	}
	if len(r.Domain) > 253 || !isText(r.Domain) {
		return waypost.Errorf(waypost.EInvalid, "domain must be a host name")
	}
	for _, t := range []time.Time{r.CreatedAfter, r.CreatedBefore} {
		if year := t.UTC().Year(); year < 1 || year > 9999 {
			return waypost.Errorf(waypost.EInvalid, "a time must be between the years 1 and 9999")
		}
	}
	return nil
}

func isText(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

// Tags gives up to limit of the workspace's tags that begin with prefix, each with the
// number of its links, and the tag to go on after, "" at the end.
func (s *Links) Tags(ctx context.Context, actor Actor, prefix, after string, limit int) (tags []TagCount, next string, err error) {
	if len(prefix) > waypost.MaxTag || len(after) > waypost.MaxTag || !isText(prefix) || !isText(after) {
		return nil, "", waypost.Errorf(waypost.EInvalid, "a tag must be UTF-8 without NUL, at most %d bytes", waypost.MaxTag)
	}
	if limit < 1 || limit > MaxListed {
		return nil, "", waypost.Errorf(waypost.EInvalid, "limit must be 1 to %d", MaxListed)
	}
	tags, err = s.store.ListTags(ctx, actor.Workspace, prefix, after, limit+1)
	if len(tags) > limit {
		tags = tags[:limit]
		next = tags[limit-1].Tag
	}
	return tags, next, err
}

// A cursor is a version, a stage, a digest of what the list is of, the time of
// creation in microseconds since the year 1, clicks, and an id, in base64url.
const (
	cursorVersion = 1
	cursorSize    = 2 + 8 + 3*8
)

func (r *ListRequest) cursor(p ListPlace) string {
	b := append(make([]byte, 0, cursorSize), cursorVersion, byte(p.Stage))
	b = append(b, r.digest()...)
	var created int64
	if p.ID != 0 {
		created = p.Created.UnixMicro()
	}
	for _, n := range []int64{created, p.Clicks, p.ID} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func (r *ListRequest) readCursor() (ListPlace, error) {
	bad := waypost.Errorf(waypost.EMalformed, "the cursor is not one of ours")
	if base64.RawURLEncoding.DecodedLen(len(r.Cursor)) != cursorSize {
		return ListPlace{}, bad
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(r.Cursor)
	if err != nil || b[0] != cursorVersion {
		return ListPlace{}, bad
	}
	number := func(at int) int64 { return int64(binary.BigEndian.Uint64(b[at:])) }
	p := ListPlace{Stage: ListStage(b[1]), Created: time.UnixMicro(number(10)).UTC(), Clicks: number(18), ID: number(26)}
	if p.ID < 0 || p.Clicks < 0 || p.Created.Year() < 1 || p.Created.Year() > 9999 {
		return ListPlace{}, bad
	}
	if string(b[2:10]) != string(r.digest()) || !slices.Contains(r.Order.stages(), p.Stage) {
		return ListPlace{}, waypost.Errorf(waypost.EInvalid, "the cursor is of a list with other filters, or another order")
	}
	return p, nil
}

// digest tells lists apart.
func (r *ListRequest) digest() []byte {
	tags := slices.Sorted(slices.Values(r.Tags))
	truth := func(b *bool) string {
		if b == nil {
			return ""
		}
		return fmt.Sprint(*b)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q %s %s %d %d", r.Order, r.Words, slices.Compact(tags), r.Domain,
		truth(r.Active), truth(r.Expired), r.CreatedAfter.UnixMicro(), r.CreatedBefore.UnixMicro()))
	return sum[:8]
}
