package controlplane

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"waypost"
	"waypost/api"
)

// Order sorts a list of links.
type Order string

// The orders. Links of the same time or clicks are sorted by id.
const (
	NewestFirst   Order = "-created"
	OldestFirst   Order = "created"
	MostClicked   Order = "-clicks" // links that were never followed come last, newest first
	LeastClicked  Order = "clicks"  // links that were never followed come first, oldest first
	NewestDeleted Order = "-deleted"
	MaxListed           = 1000 // links of a page, and tags
	MaxWords            = 256  // bytes of a search
	MaxTagsListed       = 8    // tags that a link must have, of one list
)

// LinkFilter selects links. Zero fields select all; a link must match all other fields.
type LinkFilter struct {
	Words         string    // in the title and description, in web search syntax: "a phrase", or, -not
	Typed         string    // beginnings of words, tags, a code, a host or a URL
	Tags          []string  // a link must have all of them
	Domain        string    // host; an unknown host, or another workspace's, has no links
	Active        *bool     // enabled, or disabled
	Expired       *bool     // by the time of the control plane
	CreatedAfter  time.Time // or at that moment
	CreatedBefore time.Time
	ExpiresBefore time.Time // links with an expiry before that moment
}

// ListRequest asks for a page of links.
type ListRequest struct {
	LinkFilter
	Order  Order  // default: NewestFirst; NewestDeleted lists deleted links, and takes no filter
	Limit  int    // 1 to MaxListed
	Cursor string // of the page before, with the same filter and order; "" for the first
}

// Page is one page of a list.
type Page struct {
	Links []waypost.Link
	Next  string // opaque cursor of the next page, "" at the end
}

// ListStage is a part of a list that a query reads from one index.
type ListStage byte

// The stages of a list. In a list by clicks, followed links are one stage and all other
// links another.
const (
	StageAll ListStage = iota
	StageClicked
	StageNever
	StageDeleted
)

// ListPlace is the link after which a list continues.
type ListPlace struct {
	Stage   ListStage
	Created time.Time // of the link, or its deletion; used unless by clicks
	Clicks  int64     // that the link is sorted by
	ID      int64     // 0: at the beginning of the stage
}

// LinkPage is a page of the store: the matching links, and the place where the list
// continues, nil at the end. A short or empty page may not be the last, because the
// store reads a limited number of links at once.
type LinkPage struct {
	Links []waypost.Link
	Next  *ListPlace
}

// LinkLister finds links of a workspace.
type LinkLister interface {
	// ListLinks returns up to limit links of one stage, in order, that match a filter at a
	// time, with their clicks.
	//
	// Deleted links match only while they can be restored.
	ListLinks(ctx context.Context, ws waypost.WorkspaceID, f LinkFilter, now time.Time, o Order, from ListPlace, limit int) (LinkPage, error)

	// ListTags returns up to limit tags that begin with prefix and follow after, in the
	// order of their bytes.
	ListTags(ctx context.Context, ws waypost.WorkspaceID, prefix, after string, limit int) ([]api.TagCount, error)
}

// stages returns the stages of a list, in its order.
func (o Order) stages() []ListStage {
	switch o {
	case MostClicked:
		return []ListStage{StageClicked, StageNever}
	case LeastClicked:
		return []ListStage{StageNever, StageClicked}
	case NewestDeleted:
		return []ListStage{StageDeleted}
	default:
		return []ListStage{StageAll}
	}
}

// List returns a page of the workspace's links. It returns EMalformed for a bad cursor,
// and EInvalid for a cursor of another list or a filter that breaks a rule.
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
	case NewestDeleted:
		if !reflect.DeepEqual(r.LinkFilter, LinkFilter{}) {
			return waypost.Errorf(waypost.EInvalid, "deleted links are listed without filters")
		}
	default:
		return waypost.Errorf(waypost.EInvalid, "sort must be created, -created, clicks or -clicks")
	}
	if r.Limit < 1 || r.Limit > MaxListed {
		return waypost.Errorf(waypost.EInvalid, "limit must be 1 to %d", MaxListed)
	}
	r.Words, r.Typed = norm.NFC.String(r.Words), norm.NFC.String(r.Typed)
	if len(r.Words) > MaxWords || !isText(r.Words) {
		return waypost.Errorf(waypost.EInvalid, "q must be UTF-8 without NUL, at most %d bytes", MaxWords)
	}
	if len(r.Typed) > MaxWords || !isText(r.Typed) {
		return waypost.Errorf(waypost.EInvalid, "search must be UTF-8 without NUL, at most %d bytes", MaxWords)
	}
	if len(r.Tags) > MaxTagsListed {
		return waypost.Errorf(waypost.EInvalid, "at most %d tags at once", MaxTagsListed)
	}
	r.Tags = canonicalTags(r.Tags)
	for _, tag := range r.Tags {
		if tag == "" || len(tag) > waypost.MaxTag || !isText(tag) || strings.ContainsFunc(tag, unicode.IsControl) {
			return waypost.Errorf(waypost.EInvalid, "tag must be UTF-8 without control characters, of 1 to %d bytes", waypost.MaxTag)
		}
	}
	if len(r.Domain) > 253 || !isText(r.Domain) {
		return waypost.Errorf(waypost.EInvalid, "domain must be a host name")
	}
	for _, t := range []time.Time{r.CreatedAfter, r.CreatedBefore, r.ExpiresBefore} {
		if year := t.UTC().Year(); year < 1 || year > 9999 {
			return waypost.Errorf(waypost.EInvalid, "a time must be between the years 1 and 9999")
		}
	}
	return nil
}

func isText(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

// Tags returns up to limit of the workspace's tags that begin with prefix, each with the
// number of its links, and the tag after which to continue, "" at the end.
func (s *Links) Tags(ctx context.Context, actor Actor, prefix, after string, limit int) (tags []api.TagCount, next string, err error) {
	prefix, after = norm.NFC.String(prefix), norm.NFC.String(after)
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

// A cursor is a version, a stage, a digest of filter and order, the time of
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
	if err != nil || len(b) != cursorSize || b[0] != cursorVersion { // line ends count for nothing in base64
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

// digest identifies the filter and order of a list.
func (r *ListRequest) digest() []byte {
	tags := slices.Sorted(slices.Values(r.Tags))
	truth := func(b *bool) string {
		if b == nil {
			return ""
		}
		return fmt.Sprint(*b)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q %q %s %s %d %d %d", r.Order, r.Words, r.Typed, slices.Compact(tags), r.Domain,
		truth(r.Active), truth(r.Expired), r.CreatedAfter.UnixMicro(), r.CreatedBefore.UnixMicro(), r.ExpiresBefore.UnixMicro()))
	return sum[:8]
}
