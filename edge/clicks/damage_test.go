package clicks_test

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/clicks"
)

const (
	recordBytes = 56 // of a code of four characters
	padding     = 4  // of these
)

// recorded makes what a process leaves that was killed after ten clicks on one link, in
// no batch yet. The path is that of the segment that has them.
func recorded(t *testing.T) (dir, segment string) {
	t.Helper()
	cfg := config(t.TempDir())
	cfg.Shards = 1
	j := open(t, cfg)
	record(t, j, "abcd", 10)
	dir = image(t, cfg.Dir, func() {})
	require.NoError(t, j.Close())
	for _, file := range files(t, dir, "segment") {
		if bytes.Contains(read(t, filepath.Join(dir, file)), []byte("abcd")) {
			return dir, filepath.Join(dir, file)
		}
	}
	require.FailNow(t, "no segment has the clicks")
	return "", ""
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return b
}

// change changes a file in place.
func change(t *testing.T, path string, how func(b []byte)) {
	t.Helper()
	b := read(t, path)
	how(b)
	require.NoError(t, os.WriteFile(path, b, 0o600))
}

// shipLeftovers opens a directory, ships what is there, and returns the number of
// clicks that were counted, and the metrics of the journal.
func shipLeftovers(t *testing.T, dir string) (uint64, *prometheus.Registry) {
	t.Helper()
	control, registry := newControlPlane(t), prometheus.NewPedanticRegistry()
	cfg := config(dir)
	cfg.Metrics = registry
	shipAll(t, open(t, cfg), control)
	_, sum := control.totals()
	return sum, registry
}

func TestRecovery_RecordThatWasCutOffIsCutAndThoseBeforeItAreKept(t *testing.T) {
	for cut := 4; cut < recordBytes-padding; cut++ { // the checksum alone is zero bytes by chance
		dir, segment := recorded(t)
		change(t, segment, func(b []byte) {
			at := bytes.LastIndex(b, []byte("abcd")) - 48
			clear(b[at+cut : at+recordBytes])
		})
		sum, registry := shipLeftovers(t, dir)
		require.EqualValues(t, 9, sum, "cut after %d bytes", cut)
		require.EqualValues(t, 1, metric(t, registry, "waypost_clicks_torn_total"))
		require.Empty(t, files(t, filepath.Join(dir, "quarantine"), ""), "a crash is no damage")
		require.Empty(t, files(t, dir, "segment"))
	}
}

func TestRecovery_FlippedBitCostsItsRecordAndTheSegmentIsQuarantined(t *testing.T) {
	for at := range recordBytes {
		dir, segment := recorded(t)
		change(t, segment, func(b []byte) { b[128+4*recordBytes+at] ^= 0x10 })
		want := read(t, segment)
		sum, registry := shipLeftovers(t, dir)
		require.EqualValues(t, 9, sum, "byte %d", at)
		require.EqualValues(t, 1, metric(t, registry, "waypost_clicks_quarantined_files_total"))
		kept := files(t, filepath.Join(dir, "quarantine"), "segment")
		require.Len(t, kept, 1)
		require.Equal(t, want, read(t, filepath.Join(dir, "quarantine", kept[0])), "as it was")
	}
}

func TestRecovery_DamageToASegmentIsNeverWiped(t *testing.T) {
	for name, c := range map[string]struct {
		how  func(b []byte)
		left uint64
	}{
		"a hole between records":         {func(b []byte) { clear(b[128+2*recordBytes : 128+4*recordBytes]) }, 8},
		"rubbish behind the last record": {func(b []byte) { copy(b[128+10*recordBytes:], bytes.Repeat([]byte("x"), 4000)) }, 10},
		"rubbish from the first record":  {func(b []byte) { copy(b[128:], bytes.Repeat([]byte("x"), 4000)) }, 0},
		"a wrong beginning":              {func(b []byte) { b[3] ^= 1 }, 0},
		"a wrong node":                   {func(b []byte) { b[45] ^= 1 }, 0},
		"nothing but zeros":              {func(b []byte) { clear(b) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir, segment := recorded(t)
			change(t, segment, c.how)
			sum, _ := shipLeftovers(t, dir)
			require.Equal(t, c.left, sum)
			require.Len(t, files(t, filepath.Join(dir, "quarantine"), "segment"), 1)
		})
	}
	t.Run("a file that is cut", func(t *testing.T) {
		dir, segment := recorded(t)
		require.NoError(t, os.Truncate(segment, 128+5*recordBytes+7))
		sum, _ := shipLeftovers(t, dir)
		require.EqualValues(t, 5, sum)
		require.NoError(t, os.WriteFile(segment, nil, 0o600))
		sum, _ = shipLeftovers(t, dir)
		require.Zero(t, sum)
		require.Len(t, files(t, filepath.Join(dir, "quarantine"), "segment"), 1)
	})
}

func TestRecovery_DamageIsKnownAfterAnotherCrash(t *testing.T) {
	dir, segment := recorded(t)
	change(t, segment, func(b []byte) { b[128+4*recordBytes+9] ^= 1 })
	again := crash(t, dir, func(left string) bool {
		return len(files(t, left, "batch")) > 0 && len(files(t, left, "segment")) > 0 // its clicks are in both
	})
	require.NotEmpty(t, again)
	sum, _ := shipLeftovers(t, again)
	require.EqualValues(t, 9, sum)
	require.Len(t, files(t, filepath.Join(again, "quarantine"), "segment"), 1)
}

func TestRecovery_RecordThatWasCutOffIsNoDamageAfterAnotherCrashEither(t *testing.T) {
	dir, segment := recorded(t)
	change(t, segment, func(b []byte) { clear(b[bytes.LastIndex(b, []byte("abcd"))-8:]) })
	again := crash(t, dir, func(left string) bool {
		return len(files(t, left, "batch")) > 0 && len(files(t, left, "segment")) > 0 // its clicks are in both
	})
	require.NotEmpty(t, again)
	sum, _ := shipLeftovers(t, again)
	require.EqualValues(t, 9, sum)
	require.Empty(t, files(t, filepath.Join(again, "quarantine"), ""))
}

// batches makes a directory with at least n batches that wait, and reports how many
// clicks there are altogether.
func batches(t *testing.T, n int) (dir string, sum uint64) {
	t.Helper()
	cfg := config(t.TempDir())
	cfg.SegmentBytes, cfg.FlushInterval = 4<<10, time.Millisecond
	j := open(t, cfg)
	for len(files(t, cfg.Dir, "batch")) < n {
		if j.TryRecord(1, []byte("abcd"), 1) {
			sum++
		}
	}
	require.NoError(t, j.Close())
	return cfg.Dir, sum
}

func TestRecovery_BatchThatRottedIsQuarantinedAndTheOthersAreShipped(t *testing.T) {
	dir, sum := batches(t, 4)
	control := newControlPlane(t)
	second := files(t, dir, "batch")[1]
	change(t, filepath.Join(dir, second), func(b []byte) { b[len(b)/2] ^= 1 })
	shipAll(t, open(t, config(dir)), control)
	require.Equal(t, []string{second}, files(t, filepath.Join(dir, "quarantine"), ""))
	require.Equal(t, []string{"edge-1/1", "edge-1/2", "edge-1/3", "edge-1/4"}, control.counts()[:4], "an empty one took its place")
	_, counted := control.totals()
	require.Less(t, counted, sum)
	require.Positive(t, counted)
}

func TestRecovery_BatchesBetweenThoseThatRottedAreShipped(t *testing.T) {
	dir, _ := batches(t, 4)
	control := newControlPlane(t)
	all := files(t, dir, "batch")
	for _, file := range []string{all[0], all[len(all)-1]} {
		change(t, filepath.Join(dir, file), func(b []byte) { b[len(b)/2] ^= 1 })
	}
	shipAll(t, open(t, config(dir)), control)
	require.Len(t, files(t, filepath.Join(dir, "quarantine"), ""), 2)
	require.Equal(t, "edge-1/1", control.counts()[0])
	require.GreaterOrEqual(t, len(control.counts()), len(all)-1)
	require.Empty(t, files(t, dir, "segment"))
}

func TestRecovery_BatchThatRotsWhileItWaitsIsQuarantined(t *testing.T) {
	dir, _ := batches(t, 3)
	control := newControlPlane(t)
	j := open(t, config(dir))
	all := files(t, dir, "batch")
	change(t, filepath.Join(dir, all[0]), func(b []byte) { b[len(b)-1] ^= 1 })
	shipAll(t, j, control)
	require.Equal(t, all[:1], files(t, filepath.Join(dir, "quarantine"), ""))
	require.GreaterOrEqual(t, len(control.counts()), len(all))
}

// Without the newest batch no one knows which clicks were shipped before.
func TestRecovery_SegmentsWhoseBatchRottedAreNotShippedASecondTime(t *testing.T) {
	control := newControlPlane(t)
	cfg := config(t.TempDir())
	cfg.FlushInterval = time.Millisecond
	j := open(t, cfg)
	shipInBackground(t, j, control.shipping())
	record(t, j, "abcd", 1) // in one batch
	control.awaitClicks(t, 1)
	dir := image(t, cfg.Dir, func() {})
	require.NoError(t, j.Close())

	change(t, filepath.Join(dir, files(t, dir, "batch")[0]), func(b []byte) { b[len(b)/2] ^= 1 })
	segments := files(t, dir, "segment")
	require.NotEmpty(t, segments)
	again := open(t, config(dir))
	record(t, again, "efgh", 1)
	shipAll(t, again, control)
	got, _ := control.totals()
	require.Equal(t, map[string]uint64{"1/abcd": 1, "1/efgh": 1}, got)
	require.Equal(t, segments, files(t, filepath.Join(dir, "quarantine"), "segment"))
	require.Len(t, files(t, filepath.Join(dir, "quarantine"), "batch"), 1)
}

func TestRecovery_FilesThatAreNotTheJournalsAreQuarantined(t *testing.T) {
	dir, segment := recorded(t)
	number := filepath.Base(segment)
	names := []string{"notes.txt", "segment-1", strings.ToUpper(number), number + ".bak", strings.Replace(number, "active", "fixed", 1)}
	for _, name := range append(names, ".new-"+number) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "quarantine-me"), nil, 0o600))
	sum, _ := shipLeftovers(t, dir)
	require.EqualValues(t, 10, sum)
	require.ElementsMatch(t, append(names, "quarantine-me"), files(t, filepath.Join(dir, "quarantine"), ""))
	require.Empty(t, files(t, dir, ".new-"))
}

func TestRecovery_FileIsQuarantinedNextToOneOfTheSameName(t *testing.T) {
	dir := t.TempDir()
	for range 3 {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("x"), 0o600))
		require.NoError(t, open(t, config(dir)).Close())
	}
	require.Equal(t, []string{"notes.txt", "notes.txt.2", "notes.txt.3"}, files(t, filepath.Join(dir, "quarantine"), ""))
}

func TestRecovery_BytesOfARecordNeverChange(t *testing.T) {
	click := waypost.Click{
		Domain: 1, Code: []byte("abc1234"), At: 1, Bot: true, Rule: 3, Variant: 250,
		Address: [16]byte{0: 0xaa, 15: 0xbb}, Agent: []byte("curl/8"), Referrer: []byte("https://a.b/"), UTM: []byte("mail"),
	}
	require.Equal(t, "5000"+"01"+"07"+"010000000000"+"03fa"+ // length, version, code, time, rule and variant
		"00000000"+"01000000"+ // segment, domain
		"aa0000000000000000000000000000bb"+"06304080"+"00000000"+ // address, lengths, where
		hex.EncodeToString([]byte("curl/8https://a.b/mailabc1234"))+"000000",
		hex.EncodeToString(clicks.AppendClick(nil, click)[4:]))
	require.Equal(t, "3800"+"01"+"07"+"010000000000"+"03fa"+"00000000"+"01000000"+
		"aa0000000000000000000000000000bb"+"06304080"+"80000000"+
		hex.EncodeToString([]byte("abc1234"))+"00",
		hex.EncodeToString(clicks.AppendReference(nil, click, 0x80)[4:]))
}

func TestRecovery_ClickIsReadAsItWasRecorded(t *testing.T) {
	for n := waypost.MinCodeLength; n <= waypost.MaxCodeLength; n++ {
		for _, bot := range []bool{false, true} {
			want := waypost.Click{
				Domain: 7, Code: []byte(strings.Repeat("x", n)), At: -1, Bot: bot, Rule: uint8(n), Variant: uint8(255 - n), Address: [16]byte{byte(n)},
				Agent: bytes.Repeat([]byte("a"), n*4), Referrer: bytes.Repeat([]byte("r"), (waypost.MaxCodeLength-n)*4),
			}
			if n%2 == 0 {
				want.UTM = bytes.Repeat([]byte("u"), n*waypost.MaxUTMText/waypost.MaxCodeLength)
			}
			b := clicks.AppendClick(nil, want)
			got, size := clicks.ReadClick(append(b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff))
			require.Equal(t, want, got, "and nothing of what follows")
			require.Equal(t, len(b), size)
			require.Zero(t, size%8)
		}
	}
}

func TestRecovery_WhatAClientSaysOfItselfIsCut(t *testing.T) {
	long := bytes.Repeat([]byte("x"), 70_000)
	got, _ := clicks.ReadClick(clicks.AppendClick(nil, waypost.Click{Code: []byte("abcd"), Agent: long, Referrer: long}))
	require.Len(t, got.Agent, waypost.MaxAgent)
	require.Len(t, got.Referrer, waypost.MaxReferrer)
	require.Equal(t, []byte("abcd"), got.Code)
	got, _ = clicks.ReadClick(clicks.AppendClick(nil, waypost.Click{Code: []byte("abcd"), UTM: long}))
	require.Empty(t, got.UTM, "a part of it would be another campaign")
}

func FuzzWalk(f *testing.F) {
	sound := clicks.AppendRecord(clicks.AppendRecord(nil, "abcd"), "abc1234")
	f.Add([]byte(nil), sound)
	f.Add(bytes.Repeat([]byte("x"), 24), sound[:30])
	f.Fuzz(func(t *testing.T, before, after []byte) {
		b := clicks.AppendRecord(before[:len(before)/8*8:len(before)/8*8], "mine")
		codes, tail, hole := clicks.Walk(append(b, after...))
		require.Contains(t, codes, "mine", "a sound record is found whatever is around it")
		require.LessOrEqual(t, tail, len(after))
		require.False(t, hole && len(before) < 8 && len(after) < 8)
	})
}

func FuzzDecodeBatchFile(f *testing.F) {
	for _, b := range sampleBatches(f) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		b = resum(b) // past the checksum, or nothing is reached
		if again, err := clicks.ReencodeBatchFile(b); err == nil {
			require.Equal(t, b, again)
		}
	})
}
