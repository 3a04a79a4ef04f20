package replication

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestStatusBoard_MeasuresTheOriginsClock(t *testing.T) {
	b := newStatusBoard(Status{}, "http://127.0.0.1:1", slog.New(slog.DiscardHandler))
	hour := time.Now().Add(time.Hour).UnixMilli()
	b.heard(Head{At: hour - 60_000})
	require.Zero(t, b.get().Ahead, "the first head may be one of before an outage of PostgreSQL")
	b.heard(Head{At: hour})
	require.InDelta(t, time.Hour, b.get().Ahead, float64(10*time.Second))
	then := b.get().Ahead
	b.heard(Head{At: hour})
	require.Equal(t, then, b.get().Ahead, "a head that is repeated says nothing")
	b.heard(Head{At: hour - 2*3600_000})
	require.InDelta(t, -time.Hour, b.get().Ahead, float64(10*time.Second))
	b.via([]string{"relay-1"})
	b.heard(Head{At: hour})
	require.InDelta(t, -time.Hour, b.get().Ahead, float64(10*time.Second), "a relay may be late")
}
