package replica

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/replication"
)

func TestChangesThatAreOldWaitForNobody(t *testing.T) {
	at := time.UnixMilli(1_900_000_000_000)
	for age, is := range map[time.Duration]bool{0: false, late: false, late + time.Millisecond: true, -time.Hour: false} {
		require.Equal(t, is, isLate([]replication.Transaction{{}, {At: at.Add(-age).UnixMilli()}}, at), age)
	}
	require.False(t, isLate(nil, at))
}

func TestManyShortBatchesInASecondTakeLongTogether(t *testing.T) {
	var p pace
	at := time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC)
	second := func(batches, records int) (long int) {
		for i := range batches {
			if p.note(records, at.Add(time.Duration(i)*time.Second/time.Duration(batches))) {
				long++
			}
		}
		at = at.Add(time.Second)
		return long
	}
	for range 3 {
		require.Zero(t, second(2000, 1))
	}
	require.Equal(t, 1000-steady/20, second(1000, 20), "from where it is too many")
	require.Equal(t, 1000, second(1000, 20))
	require.Equal(t, 2000, second(2000, 1), "for a second longer")
	require.Zero(t, second(2000, 1))
	second(1000, 20)
	at = at.Add(time.Second)
	require.Zero(t, second(2000, 1), "nothing came for a second")
}
