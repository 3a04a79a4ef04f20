package linkimport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"waypost/client"
)

const (
	rounds    = 3           // times that the rest of a batch is sent after answers were lost
	skew      = time.Minute // between the clocks of the API and of its database, at most
	listLimit = 1000
)

var errInterrupted = errors.New("the import was interrupted while these were sent")

// deliver creates rows of one batch, each once, and books their outcomes. Doubt says why
// an earlier attempt at all these rows may have had an effect; it is nil without such an
// attempt. With an error the rest of the batch is not created, or in doubt.
func (d *delivery) deliver(ctx context.Context, f flight, rows []row, doubt error) error {
	for round := 1; len(rows) > 0; round++ {
		if doubt != nil {
			missing, err := d.findMissing(ctx, f, rows)
			if err != nil {
				d.leaveInDoubt(rows, doubt)
				return fmt.Errorf("it is unknown which of lines %s were created: %w", span(rows), errors.Join(doubt, err))
			}
			d.created(len(rows) - len(missing))
			if rows = missing; round > rounds {
				rows = d.refuseFailing(rows)
			}
			if len(rows) == 0 {
				return nil
			}
			if round > rounds {
				return fmt.Errorf("nothing was created of lines %s: %w", span(rows), doubt)
			}
		}
		outcomes, err := d.send(ctx, rows)
		switch {
		case err == nil:
			rows, doubt = d.book(rows, outcomes)
		case unread(err) != 0 && len(rows) > 1:
			half := len(rows) / 2
			if err := d.deliver(ctx, f, rows[:half], nil); err != nil {
				return err
			}
			return d.deliver(ctx, f, rows[half:], nil)
		case unread(err) != 0 && unread(err) != http.StatusRequestTimeout:
			d.refuse(rows[0].because(unread(err), err.Error()))
			return nil
		case client.Processed(err) && d.Try == nil:
			doubt = err
		default:
			return fmt.Errorf("nothing was created of lines %s: %w", span(rows), err)
		}
	}
	return nil
}

// unread returns the status of a refusal of a request as a whole, before anything was
// created, that a smaller one may not get: 400, 408 or 413. Otherwise it returns 0.
func unread(err error) int {
	p, ok := errors.AsType[*client.Problem](err)
	if ok && slices.Contains([]int{http.StatusBadRequest, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge}, p.Status) {
		return p.Status
	}
	return 0
}

// span names lines from the first to the last of rows.
func span(rows []row) string {
	return fmt.Sprintf("%d to %d", rows[0].line, rows[len(rows)-1].line)
}

func (d *delivery) leaveInDoubt(rows []row, doubt error) {
	for _, row := range rows {
		left := row.because(0, doubt.Error())
		left.Whole = true
		d.report.InDoubt = append(d.report.InDoubt, left)
	}
	d.report.Rows += len(rows)
}

// book notes final outcomes, and returns the rows that failed within the API: whether
// these were created is unknown.
func (d *delivery) book(rows []row, outcomes []client.Outcome) (unclear []row, doubt error) {
	for i, o := range outcomes {
		row := rows[i]
		switch {
		case o.Status >= 500 && d.Try == nil:
			row.status, row.reason = o.Status, reasonOf(o)
			unclear = append(unclear, row)
			doubt = &client.Problem{Status: row.status, Detail: row.reason}
		case o.Status >= 300:
			d.refuse(row.because(o.Status, reasonOf(o)))
		case o.Status == http.StatusOK:
			d.report.Rows++
			d.report.Found++
		default:
			d.created(1)
			if d.Try != nil {
				d.tried = append(d.tried, row)
			}
		}
	}
	return unclear, doubt
}

// refuseFailing refuses the rows that the API fails at one by one, and returns the
// others. 503 is no such failure: the API asks to come again.
func (d *delivery) refuseFailing(rows []row) (rest []row) {
	for _, row := range rows {
		if row.status == 0 || row.status == http.StatusServiceUnavailable {
			rest = append(rest, row)
			continue
		}
		d.refuse(row.because(row.status, row.reason))
	}
	return rest
}

func reasonOf(o client.Outcome) string {
	if o.Error == nil {
		return "the API gave no reason"
	}
	return o.Error.Detail
}

// findMissing finds out which of the rows do not exist, by the created_by of the links
// that the API has. It first waits until no request sent before can take effect:
// an API that answers again, its database included, has finished or given up every
// request that it had received some seconds later.
func (r *run) findMissing(ctx context.Context, f flight, rows []row) (missing []row, err error) {
	if _, err := r.list(ctx, 1, ""); err != nil {
		return nil, err
	}
	r.Settling(span(rows), r.Settle)
	if err := r.Wait(ctx, r.Settle); err != nil {
		return nil, err
	}
	wanted := make(map[int]bool, len(rows))
	for _, row := range rows {
		wanted[row.line] = true
	}
	oldest := f.At.Add(-skew)
	for cursor := ""; len(wanted) > 0; {
		page, err := r.list(ctx, listLimit, cursor)
		if err != nil {
			return nil, err
		}
		recent := false
		for _, link := range page.Links {
			recent = recent || !link.CreatedAt.Before(oldest)
			if number, ours := strings.CutPrefix(link.CreatedBy, r.tag); ours {
				if line, err := strconv.Atoi(number); err == nil {
					delete(wanted, line)
				}
			}
		}
		if cursor = page.Next; cursor == "" || !recent {
			break
		}
	}
	for _, row := range rows {
		if wanted[row.line] {
			missing = append(missing, row)
		}
	}
	return missing, nil
}

// send asks for the rows, again as long as that surely had no effect.
func (r *run) send(ctx context.Context, rows []row) (outcomes []client.Outcome, err error) {
	links := make([]client.NewLink, len(rows))
	for i, row := range rows {
		links[i] = row.link
		links[i].CreatedBy = r.tag + strconv.Itoa(row.line)
		links[i].Domain = cmp.Or(row.link.Domain, r.Domain)
		if l := &links[i]; l.Dedupe == nil && r.dedupes(l) {
			l.Dedupe = &r.Dedupe
		}
	}
	create, again := r.API.CreateBulk, client.Transient
	if r.Try != nil {
		create, again = r.Try, client.Passing
	}
	err = r.persist(ctx, func(err error) (time.Duration, bool) {
		after, ok := again(err)
		return after, ok && (len(rows) == 1 || unread(err) == 0)
	}, func() error {
		outcomes, err = create(ctx, links)
		return err
	})
	return outcomes, err
}

// dedupes reports whether a row asks for the one link of its target.
func (r *run) dedupes(l *client.NewLink) bool {
	if l.Dedupe != nil {
		return *l.Dedupe
	}
	return r.Dedupe && (l.Active == nil || *l.Active) && !hasRules(l)
}

// hasRules reports whether a link decides on more than its target, so that it is not the
// one link of that target.
func hasRules(l *client.NewLink) bool {
	return len(l.Rules) > 0 || !l.ValidFrom.IsZero() || l.ExpiredURL != "" || l.MaxClicks != 0 || l.Confirm || l.Password != ""
}

func (r *run) list(ctx context.Context, limit int, cursor string) (page client.Page, err error) {
	err = r.persist(ctx, client.Passing, func() error {
		page, err = r.API.List(ctx, limit, cursor)
		return err
	})
	return page, err
}

func (r *run) persist(ctx context.Context, again func(error) (time.Duration, bool), try func() error) error {
	return client.Retry{Tries: r.Attempts, Again: again, Pause: r.Wait}.Do(ctx, try)
}
