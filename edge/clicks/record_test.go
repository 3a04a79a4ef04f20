package clicks_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/unicode/norm"

	"waypost"
	"waypost/edge/clicks"
)

// listener reports the texts of a click as they are.
type listener struct{}

func (listener) Profile(c *waypost.Click) (waypost.ClickProfile, uint64) {
	return waypost.ClickProfile{Device: "mobile", Browser: string(c.Agent), Referrer: string(c.Referrer), Bot: c.Bot}, 0
}

// told returns the texts of each link's clicks that were counted.
func (c *controlPlane) told() map[string][]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	texts := map[string][]string{}
	for _, of := range c.counted {
		for _, b := range of.batches {
			for _, l := range b.Links {
				for _, r := range l.Rows {
					p := b.Profiles[r.Profile]
					texts[string(l.Code)] = append(texts[string(l.Code)], textOf(p.Browser, p.Referrer, p.UTM.Values()[1], p.Rule, p.Variant))
				}
			}
		}
	}
	for _, all := range texts {
		slices.Sort(all)
	}
	return texts
}

// textOf joins all that is told of a click.
func textOf(agent, referrer, medium string, rule, variant uint8) string {
	return fmt.Sprintf("%s from %s of %s by %d/%d", agent, referrer, medium, rule, variant)
}

// visitNumber is a click whose link reports its texts. Few agents are most clicks', some
// are others', and some have none. The campaign comes in another Unicode form than NFC.
func visitNumber(n int) (c waypost.Click, code, texts string) {
	agent, referrer := fmt.Sprintf("Mozilla/5.0 number %d", n%7), ""
	if n%5 == 0 {
		agent = fmt.Sprintf("Mozilla/5.0 seldom %d", n)
	}
	if n%3 == 0 {
		referrer = fmt.Sprintf("https://www%d.example.com", n%2)
	}
	if n%11 == 0 {
		agent, referrer = "", ""
	}
	medium, utm := "", ""
	if n%4 == 1 {
		medium = fmt.Sprintf("m\u00e9dium %d", n%6)
		utm = "\n" + norm.NFD.String(medium)
	}
	code = fmt.Sprintf("%07d", n)
	return waypost.Click{
			Domain: 1, Code: []byte(code), At: 1_700_000_000_000, Address: [16]byte{1 + byte(n%250)},
			Agent: []byte(agent), Referrer: []byte(referrer), Rule: uint8(n % 4), Variant: uint8(n % 9), UTM: []byte(utm),
		},
		code, textOf(agent, referrer, medium, uint8(n%4), uint8(n%9))
}

// Their records differ in that alone.
func TestRecord_ClicksOfOneVisitorAreToldApartByTheirVariants(t *testing.T) {
	for name, profiler := range map[string]clicks.Profiler{"with a profile": crowd{}, "without": nil} {
		t.Run(name, func(t *testing.T) {
			control, cfg := newControlPlane(t), config(t.TempDir())
			cfg.Profiler = profiler
			j := open(t, cfg)
			for n := range 100 {
				require.True(t, j.TryClick(waypost.Click{
					Domain: 1, Code: []byte("abcd"), At: 1, Address: [16]byte{1}, Agent: agent, Referrer: referrer,
					Rule: uint8(1 + n%2), Variant: uint8(250 + n%5),
				}))
			}
			shipAll(t, j, control)
			require.EqualValues(t, 10, control.answered("1/abcd", 1, 250))
			require.EqualValues(t, 10, control.answered("1/abcd", 2, 250))
			require.EqualValues(t, 80, control.answered("1/abcd", 0, 0), "no programme has such a variant, and a batch would be refused for it")
		})
	}
}

func TestRecord_WhatIsSaidOftenIsInASegmentOnce(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.Shards = 1
	j := open(t, cfg)
	for n := range 100 {
		require.True(t, j.TryClick(waypost.Click{Domain: 1, Code: []byte("abcd"), At: int64(n), Agent: agent, Referrer: referrer}))
		require.True(t, j.TryClick(waypost.Click{Domain: 1, Code: []byte("efgh"), At: int64(n), Agent: agent}))
	}
	found := 0
	for _, file := range files(t, cfg.Dir, "segment") {
		found += bytes.Count(read(t, filepath.Join(cfg.Dir, file)), agent)
	}
	require.Equal(t, 2, found, "with the referrer and without")
}

// The record that has the texts is in a batch, and the segment has one more that refers
// to it.
func TestRecord_TextsOfAnEarlierBatchAreKnownAfterACrash(t *testing.T) {
	control, cfg := newControlPlane(t), config(t.TempDir())
	cfg.Shards, cfg.Profiler, cfg.FlushInterval = 1, listener{}, time.Millisecond
	var broken atomic.Bool
	cfg.SetSync(func(f *os.File) error {
		if broken.Load() {
			return errors.New("no more batches")
		}
		return f.Sync()
	})
	j := open(t, cfg)
	shipInBackground(t, j, control.shipping())
	click := waypost.Click{Domain: 1, Code: []byte("abcd"), At: 1, Agent: agent, Referrer: referrer}
	require.True(t, j.TryClick(click))
	control.await(t, "the first click is counted", func() bool { _, sum := control.totals(); return sum == 1 })
	broken.Store(true)
	click.Code = []byte("efgh")
	require.True(t, j.TryClick(click))
	left := image(t, cfg.Dir, func() {})
	require.Error(t, j.Close())

	again := config(left)
	again.Profiler = listener{}
	shipAll(t, open(t, again), control)
	texts := textOf(string(agent), string(referrer), "", 0, 0)
	require.Equal(t, map[string][]string{"abcd": {texts}, "efgh": {texts}}, control.told())
}

// sayings are a file of clicks that refer to each other, and their texts by their codes.
func sayings() (file []byte, texts map[string]string) {
	file, texts = make([]byte, 128), map[string]string{}
	at := map[string]int{}
	for n := range 12 {
		c := waypost.Click{Domain: 1, Code: fmt.Appendf(nil, "code%03d", n), At: 1, Agent: fmt.Appendf(nil, "Mozilla/5.0 %d", n%3), Referrer: referrer}
		said := string(c.Agent)
		texts[string(c.Code)] = said
		where, known := at[said]
		if !known {
			at[said] = len(file)
		}
		file = clicks.AppendReference(file, c, uint32(where))
	}
	return file, texts
}

func TestRecord_BitFlippedAnywhereGivesNoClickTheTextsOfAnother(t *testing.T) {
	file, texts := sayings()
	require.Len(t, clicks.WalkFile(file, 128), len(texts))
	check := func(b []byte, from int64) (whole int) {
		for _, c := range clicks.WalkFile(b, from) {
			if len(c.Agent) > 0 {
				require.Equal(t, texts[string(c.Code)], string(c.Agent))
				require.Equal(t, referrer, c.Referrer)
				whole++
			}
		}
		return whole
	}
	require.Equal(t, len(texts), check(file, 128))
	for at := 128; at < len(file); at++ {
		for _, from := range []int64{128, int64(len(file) - 56)} { // all of them, or the last one, of which the others have the texts
			changed := slices.Clone(file)
			changed[at] ^= 1 << (at % 8)
			got := len(clicks.WalkFile(changed, from))
			if from == 128 {
				require.Equal(t, len(texts)-1, got, "byte %d", at)
				require.GreaterOrEqual(t, check(changed, from), len(texts)-4, "byte %d", at)
			}
			check(changed, from)
			check(file[:at/8*8], min(from, int64(at/8*8)))
			clear(changed[128:at]) // as when power was cut
			check(changed, from)
		}
	}
}

func TestRecord_ReferenceToWhatIsNoRecordWithTextsGivesNone(t *testing.T) {
	sound := waypost.Click{Domain: 1, Code: []byte("abcd"), At: 1, Agent: agent, Referrer: referrer}
	last := func(where uint32, of func(b []byte) []byte) waypost.Click {
		before := of(make([]byte, 128))
		b := clicks.AppendReference(before, sound, where)
		alone := clicks.WalkFile(b, int64(len(before)))
		require.Len(t, alone, 1)
		require.Equal(t, "abcd", string(alone[0].Code), "it counts")
		all := clicks.WalkFile(b, 128)
		require.NotEmpty(t, all)
		require.Equal(t, string(alone[0].Agent), string(all[len(all)-1].Agent), "whether what lies before is read from the file or not")
		return alone[0]
	}
	whole := func(b []byte) []byte { return clicks.AppendClick(b, sound) }
	require.Equal(t, agent, last(128, whole).Agent)
	require.Empty(t, last(136, whole).Agent, "in the middle of a record")
	require.Empty(t, last(131, whole).Agent, "between two multiples of 8")
	require.Empty(t, last(64, whole).Agent, "before all records")
	require.Empty(t, last(1<<31, whole).Agent, "behind the end")
	require.Empty(t, last(128, func(b []byte) []byte { return append(b, make([]byte, 200)...) }).Agent, "nothing")
	require.Empty(t, last(128, func(b []byte) []byte { return clicks.AppendReference(b, sound, 128) }).Agent, "another reference")
	require.Empty(t, last(128, func(b []byte) []byte { return clicks.AppendNumberedClick(b, sound, 7) }).Agent, "what is left of another segment")
	other := sound
	other.Agent = agent[:20]
	require.Empty(t, last(128, func(b []byte) []byte { return clicks.AppendClick(b, other) }).Agent, "texts of other lengths")
}

func TestRecord_TextsThatMeetInTheirHashAreToldApart(t *testing.T) {
	one := waypost.Click{Domain: 1, Code: []byte("abcd"), At: 1, Agent: agent, Referrer: referrer}
	other := one
	other.Agent = bytes.Replace(agent, []byte("131"), []byte("132"), 1)
	shorter := one
	shorter.Agent, shorter.Referrer = agent[:len(agent)-1], append([]byte("7"), referrer...)
	require.True(t, clicks.Meets(one, one))
	require.False(t, clicks.Meets(one, other))
	require.False(t, clicks.Meets(one, shorter))
}

func FuzzReferences(f *testing.F) {
	file, _ := sayings()
	f.Add(file[128:], uint32(128), uint16(13), uint16(len(referrer)))
	f.Add([]byte{}, uint32(0), uint16(0), uint16(0))
	f.Fuzz(func(t *testing.T, before []byte, where uint32, agentLength, referrerLength uint16) {
		c := waypost.Click{
			Domain: 1, Code: []byte("mine"), At: 1,
			Agent: bytes.Repeat([]byte("a"), int(agentLength)), Referrer: bytes.Repeat([]byte("r"), int(referrerLength)),
		}
		b := append(make([]byte, 128), before[:len(before)/8*8]...)
		at := int64(len(b))
		b = clicks.AppendReference(b, c, where)
		for _, from := range []int64{128, at} {
			all := clicks.WalkFile(b, from)
			require.NotEmpty(t, all)
			last := all[len(all)-1]
			require.Equal(t, "mine", string(last.Code), "a sound record is found whatever is around it")
			if len(last.Agent)+len(last.Referrer) > 0 {
				require.Len(t, last.Agent, min(int(agentLength), waypost.MaxAgent))
				require.Len(t, last.Referrer, min(int(referrerLength), waypost.MaxReferrer))
			}
		}
	})
}
