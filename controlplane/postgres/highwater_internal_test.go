package postgres

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
)

func at(epoch uint32, seq uint64) waypost.Position {
	return waypost.Position{Epoch: waypost.Epoch{Ordinal: epoch}, Seq: seq}
}

func TestABlockThatCameDuringALookIsStillRemembered(t *testing.T) {
	m, err := loadHighWaterMark(nil, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	look := func() []rememberedRange {
		return []rememberedRange{
			{Prefix: 1, Region: "eu", Lo: 0, Hi: 500, Next: 100},
			{Prefix: 1, Region: "us", Lo: 500, Hi: 1000, Next: 500},
			{Prefix: 2, Region: "eu", Lo: 0, Hi: 1000, Next: 1000},
		}
	}
	m.learn("c", at(7, 1), look(), 1)
	m.leased(rememberedRange{Prefix: 1, Region: "eu", Lo: 100, Hi: 200, Next: 200}, 7)
	m.leased(rememberedRange{Prefix: 3, Region: "ap", Lo: 0, Hi: 50, Next: 50}, 7)
	m.learn("c", at(7, 1), look(), 2) // was read before they were committed
	require.Equal(t, []rememberedRange{
		{Prefix: 1, Region: "eu", Lo: 0, Hi: 500, Next: 200},
		{Prefix: 1, Region: "us", Lo: 500, Hi: 1000, Next: 500},
		{Prefix: 2, Region: "eu", Lo: 0, Hi: 1000, Next: 1000},
		{Prefix: 3, Region: "ap", Lo: 0, Hi: 50, Next: 50},
	}, m.current().keys)
}

func TestAnEpochThatBeganDuringALookIsToldBeforeItIsLearnt(t *testing.T) {
	m, err := loadHighWaterMark(nil, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	known := []rememberedRange{{Prefix: 1, Region: "eu", Lo: 0, Hi: 1000, Next: 900}}
	m.learn("c", at(7, 9), known, 1)
	m.learn("c", at(8, 5), []rememberedRange{{Prefix: 1, Region: "eu", Lo: 0, Hi: 1000, Next: 100}}, 2)
	seen := m.current()
	require.Equal(t, known, seen.keys)
	require.True(t, seen.foreign(8))

	m.beginEpoch(seen)
	m.leased(rememberedRange{Prefix: 1, Region: "eu", Lo: 900, Hi: 950, Next: 950}, 8)
	require.Zero(t, m.current().at, "a block is no whole look")
	m.beginEpoch(seen) // another connection told the same
	require.NotEmpty(t, m.current().keys)
}
