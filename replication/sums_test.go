package replication_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/replication"
	"waypost/replication/replicationtest"
)

// everySecond returns the first n even slots.
func everySecond(n int) (slots []string) {
	for i := range n {
		slots = append(slots, strconv.Itoa(2*i))
	}
	return slots
}

// get returns the frames of a route, and its slots' records.
func (w *world) get(t *testing.T, path string) (types []string, records [][]byte, sums map[uint16]replication.Sum) {
	t.Helper()
	res, err := w.client(t).Get("http://source" + path)
	require.NoError(t, err)
	defer func() { require.NoError(t, res.Body.Close()) }()
	require.Equal(t, http.StatusOK, res.StatusCode)
	types, records, sums, err = replication.ReadSlots(res.Body)
	require.ErrorContains(t, err, "EOF")
	return types, records, sums
}

func TestSumsAndSingleSlotsComeAsTheyStand(t *testing.T) {
	for _, width := range []int{1024, 4096} {
		bubble(t, func(t *testing.T) {
			w := newWorld(t, nil)
			w.source.SetWidth(width)
			var rs []waypost.Record
			for i := range 50 {
				rs = append(rs, replicationtest.Link(fmt.Sprintf("code%d", i), "https://example.com/"))
			}
			w.source.Commit(rs...)
			synctest.Wait()

			want, _, err := w.source.Sums(t.Context(), 0, waypost.Slots-1)
			require.NoError(t, err)
			types, _, sums := w.get(t, replication.PathSums)
			require.Len(t, types, 2+waypost.Slots/width)
			require.Equal(t, "end", types[len(types)-1])
			require.Len(t, sums, waypost.Slots)
			for slot, sum := range want {
				require.Equal(t, sum, sums[uint16(slot)])
			}
			_, _, sums = w.get(t, replication.PathSums+"?first=4000")
			require.Len(t, sums, 96)

			slots := []uint16{}
			for _, r := range rs[:3] {
				slots = append(slots, waypost.Slot(r.Kind, r.Domain, r.Name))
			}
			slices.Sort(slots)
			asked := fmt.Sprintf("?slots=%d,%d-%d", slots[0], slots[1], slots[2])
			var listed [][]byte
			for _, run := range [][2]uint16{{slots[0], slots[0]}, {slots[1], slots[2]}} {
				_, err := w.source.Snapshot(t.Context(), run[0], run[1], func(raw []byte) error {
					listed = append(listed, slices.Clone(raw))
					return nil
				})
				require.NoError(t, err)
			}
			_, records, _ := w.get(t, replication.PathSnapshot+asked)
			require.ElementsMatch(t, listed, records)
		})
	}
}

func TestSumsHaveTokensOfTheirOwn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, func(c *replication.ServerConfig) { c.MaxSnapshots = 1 })
		synctest.Wait()
		w.source.Fail(errors.New("the source is away")) // so that who is let in stays
		for _, ask := range []struct {
			path string
			code int
		}{
			{replication.PathSnapshot, http.StatusOK},
			{replication.PathSums, http.StatusOK},
			{replication.PathSums, http.StatusServiceUnavailable},
		} {
			res, err := w.client(t).Get("http://source" + ask.path)
			require.NoError(t, err)
			defer func() { require.NoError(t, res.Body.Close()) }()
			require.Equal(t, ask.code, res.StatusCode, ask.path)
		}
	})
}
