package httpapi_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/httpapi"
	"waypost/controlplane/keys"
)

// keys is a Keys in memory. It remembers what it was asked, and answers what it
// was told to.
type fakeKeys struct {
	err   error // of everything
	space keys.KeySpace
	done  []api.StepDone
	plan  api.RangePlan
	found api.DecodedKey
	audit []api.AuditEntry
	stats api.KeyStats

	mu      sync.Mutex
	minted  int
	held    map[string][]waypost.Code // by service
	changes []api.RangeChange
}

// startWithKeys serves an API that looks after key ranges.
func startWithKeys(t *testing.T, f *fakeKeys, changes ...func(*links, *httpapi.Config)) *testAPI {
	return start(t, append(changes, func(l *links, c *httpapi.Config) { c.Keys, c.Workspaces = supply{f, l}, workspaces{keys: f} })...)
}

func (f *fakeKeys) ReserveKeys(_ context.Context, _ controlplane.Actor, service string, n int) ([]waypost.Code, error) {
	if f.err != nil {
		return nil, f.err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	codes := make([]waypost.Code, n)
	for i := range codes {
		codes[i] = waypost.Code(fmt.Sprintf("k%06d", f.minted))
		f.minted++
	}
	if f.held == nil {
		f.held = map[string][]waypost.Code{}
	}
	f.held[service] = append(f.held[service], codes...)
	return codes, nil
}

func (f *fakeKeys) ReturnKeys(_ context.Context, _ controlplane.Actor, service string, given []string) ([]keys.Returned, error) {
	if f.err != nil {
		return nil, f.err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	outcomes := make([]keys.Returned, len(given))
	for i, k := range given {
		outcomes[i].Code = waypost.Code(k)
		j := slices.Index(f.held[service], waypost.Code(k))
		switch {
		case k == "linked0":
			outcomes[i].Err = waypost.Errorf(waypost.EConflict, "a link has this key")
		case k == "broken0":
			outcomes[i].Err = fmt.Errorf("password=secret")
		case j < 0:
			outcomes[i].Err = waypost.Errorf(waypost.ENotFound, "%s does not hold this key", service)
		default:
			f.held[service] = slices.Delete(f.held[service], j, j+1)
		}
	}
	return outcomes, nil
}

func (f *fakeKeys) Stats(context.Context, controlplane.Actor) (api.KeyStats, error) {
	return f.stats, f.err
}

func (f *fakeKeys) KeySpace(_ context.Context, actor controlplane.Actor) (keys.KeySpace, error) {
	if err := actor.CheckOperator(); err != nil {
		return keys.KeySpace{}, err
	}
	return f.space, f.err
}

func (f *fakeKeys) ChangeRanges(_ context.Context, actor controlplane.Actor, c api.RangeChange) ([]api.StepDone, error) {
	if err := actor.CheckOperator(); err != nil {
		return nil, err
	}
	f.changes = append(f.changes, c)
	return f.done, f.err
}

func (f *fakeKeys) PlanRanges(_ context.Context, actor controlplane.Actor) (api.RangePlan, error) {
	if err := actor.CheckOperator(); err != nil {
		return api.RangePlan{}, err
	}
	return f.plan, f.err
}

func (f *fakeKeys) Decode(_ context.Context, actor controlplane.Actor, code string) (api.DecodedKey, error) {
	if err := actor.CheckOperator(); err != nil {
		return api.DecodedKey{}, err
	}
	if len(code) != 7 {
		return api.DecodedKey{}, waypost.Errorf(waypost.EInvalid, "no range can hold this code")
	}
	return f.found, f.err
}

func (f *fakeKeys) Audit(
	_ context.Context, _ controlplane.Actor, _ bool, limit int, cursor string,
) (p api.AuditPage, err error) {
	from := 0
	if cursor != "" {
		if _, err := fmt.Sscanf(cursor, "after-%d", &from); err != nil {
			return p, waypost.Errorf(waypost.EMalformed, "the cursor is not one of ours")
		}
	}
	rest := f.audit[from:]
	if len(rest) > limit {
		return api.AuditPage{Entries: rest[:limit], Next: fmt.Sprintf("after-%d", from+limit)}, f.err
	}
	return api.AuditPage{Entries: rest}, f.err
}

// aSpace is a key space of two live ranges and a retired one.
func aSpace() keys.KeySpace {
	at := time.Date(2031, 5, 6, 6, 8, 9, 0, time.UTC)
	space := keys.KeySpace{Prefixes: 3844, FreePrefixes: 3841, PrefixSize: 1000, Rates: map[waypost.Region]float64{"eu-west-1": 7.2}}
	for _, b := range []api.RangeBounds{
		{ID: 1, Prefix: "4g", Hi: 1000, Next: 300, Returned: 20, Region: "eu-west-1", State: keys.RangeLive, Generation: 2, CreatedAt: at},
		{ID: 2, Prefix: "4h", Hi: 500, Region: "us-east-1", State: keys.RangeLive, Generation: 1, CreatedAt: at},
		{ID: 3, Prefix: "4i", Hi: 500, Next: 500, Region: "us-east-1", State: keys.RangeRetired, Generation: 1, CreatedAt: at},
	} {
		space.Ranges = append(space.Ranges, keys.Range{Range: api.Range{RangeBounds: b, Leases: []api.Lease{}}})
	}
	r := &space.Ranges[0]
	r.Rate, r.MinutesLeft, r.Leases = 7.2, new(100.0), []api.Lease{{Node: "control-1", Lo: 290, Hi: 300, Generation: 2}}
	return space
}
