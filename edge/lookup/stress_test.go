package lookup_test

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/lookup"
)

// The race detector does not see mapped memory. Instead, every record repeats its key and
// version to its end. Readers check that they agree, and that no version follows a later
// one.
func TestTable_FindNeverSeesATornOrAnOlderRecord(t *testing.T) {
	for name, c := range map[string]struct {
		budget int64
		keys   int
	}{
		"while everything fits":    {8 << 20, 20_000},
		"while some make way":      {2 << 20, 60_000},
		"while one link is busy":   {lookup.MinBudget, 1},
		"while a few links change": {lookup.MinBudget, 100},
	} {
		t.Run(name, func(t *testing.T) {
			table := table(t, c.budget)
			versions := make([]atomic.Int64, c.keys) // the oldest version that a reader may see
			for i := range c.keys {
				table.Put(stamped(nil, i, 0), nil)
			}
			complete := table.Finish()
			require.Equal(t, name != "while some make way", complete)
			var done atomic.Bool
			var readers, reading sync.WaitGroup
			for r := range 3 {
				reading.Add(1)
				readers.Go(func() {
					begun := sync.OnceFunc(reading.Done)
					defer begun()
					rng := rand.New(rand.NewPCG(uint64(r), 7))
					buf := make([]byte, 0, 1024)
					for ; !done.Load(); runtime.Gosched() { // lets the writer run
						i := rng.IntN(c.keys)
						least := versions[i].Load()
						var rec waypost.Record
						_, _, a := table.Find(waypost.DefaultDomain, key(i), buf, &rec)
						if a == lookup.Absent || complete && a != lookup.Found {
							t.Errorf("%s: answer %d", key(i), a)
							return
						}
						if a != lookup.Found {
							continue
						}
						begun()
						version, ok := read(&rec, i)
						if !ok || version < least {
							t.Errorf("%s: %q at version %d or later", key(i), rec.Payload, least)
							return
						}
					}
				})
			}
			reading.Wait()
			rng := rand.New(rand.NewPCG(3, 4))
			var r *waypost.Record
			for n := range 40_000 {
				i := rng.IntN(c.keys)
				version := versions[i].Load() + 1
				r = stamped(r, i, version)
				if !complete && n%2 == 0 {
					table.Promote(stamped(r, i, version-1), nil)
					continue
				}
				table.Put(r, nil)
				versions[i].Store(version)
			}
			done.Store(true)
			readers.Wait()
			st := table.Stats()
			require.Zero(t, st.Damaged)
			require.Equal(t, complete, st.Complete)
			require.NotZero(t, st.Hits)
		})
	}
}

func key(i int) []byte { return append([]byte("key"), strconv.Itoa(i)...) }

// stamped makes a record of its own length that repeats its version.
func stamped(r *waypost.Record, i int, version int64) *waypost.Record {
	if r == nil {
		r = &waypost.Record{Kind: waypost.KindLink, Status: 302, Domain: waypost.DefaultDomain}
	}
	r.Name = key(i)
	one := append(strconv.AppendInt(append(strconv.AppendInt(nil, int64(i), 10), '/'), version, 10), ' ')
	r.Payload = bytes.Repeat(one, 1+int(version)%17)
	return r
}

func read(r *waypost.Record, i int) (version int64, ok bool) {
	one, _, _ := bytes.Cut(r.Payload, []byte(" "))
	number, text, _ := bytes.Cut(one, []byte("/"))
	version, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || string(number) != strconv.Itoa(i) || !bytes.Equal(r.Name, key(i)) {
		return 0, false
	}
	return version, bytes.Equal(r.Payload, stamped(nil, i, version).Payload)
}

func TestTable_CloseWaitsForReaders(t *testing.T) {
	for range 40 {
		budget := lookup.NewBudget(lookup.MinBudget)
		table, err := lookup.New(lookup.Config{Budget: budget})
		require.NoError(t, err)
		table.Put(stamped(nil, 1, 1), nil)
		var readers sync.WaitGroup
		started := make(chan struct{}, 3)
		for range 3 {
			readers.Go(func() {
				for n := 0; ; n++ {
					var rec waypost.Record
					_, _, a := table.Find(waypost.DefaultDomain, key(1), nil, &rec)
					if n == 10 {
						started <- struct{}{}
					}
					if a == lookup.Unknown {
						return
					}
					if _, ok := read(&rec, 1); !ok {
						t.Errorf("%q", rec.Payload)
						return
					}
				}
			})
		}
		<-started
		table.Close()
		readers.Wait()
		require.Zero(t, budget.Used())
		if t.Failed() {
			return
		}
	}
}
