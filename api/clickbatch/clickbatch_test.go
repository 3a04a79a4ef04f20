package clickbatch_test

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"waypost"
	"waypost/api/clickbatch"
)

func clicks() waypost.ClickBatch {
	const at = 1_700_000_000_000
	return waypost.ClickBatch{
		Node: "eu-1.a", Boot: waypost.BootID{0: 0x10, 15: 0x1f}, Seq: 0x0102030405, Exact: true, Dropped: 300,
		Profiles: []waypost.ClickProfile{
			{},
			{Country: "PT", City: "Évora", Device: "mobile", Browser: "Firefox", OS: "Android", Referrer: "www.example.com"},
			{Device: "bot", Bot: true, Rule: 3, Variant: 250, UTM: waypost.PackUTM(waypost.UTMValues{"mail", 2: "spring"})},
		},
		Links: []waypost.LinkClicks{
			{
				Domain: 7, Code: "A_-9", Last: at + 5,
				Rows:     []waypost.ClickRow{{At: at, Profile: 1, Count: 1}, {At: at + 5, Profile: 2, Count: 200}, {At: at - 70, Count: 1}},
				Visitors: []waypost.Visitor{{Day: 19674, Bot: true, Hash: 0x0000_0000_0100_0000}, {Day: 19675, Hash: 0xfedc_ba98_7600_0000}},
			},
			{Domain: 1, Code: "abc1234", Last: math.MinInt64, Rows: []waypost.ClickRow{{At: math.MaxInt64, Count: math.MaxUint64}}},
		},
	}
}

func TestAppend_BytesNeverChange(t *testing.T) {
	b := clicks()
	got := hex.EncodeToString(clickbatch.Append([]byte("x"), &b)[1:])
	text := func(s string) string { return fmt.Sprintf("%02x", len(s)) + hex.EncodeToString([]byte(s)) }
	want := "01010000" + "1000000000000000000000000000001f" + // version, exact; boot
		"0504030201000000" + text("eu-1.a") + // sequence, node
		"ac02" + hex.EncodeToString(binary.AppendVarint(nil, 1_700_000_000_000)) + // dropped, base time
		"03" + "02" + "04" + "02" + // profiles, links, rows, visitors
		"00" + "000000000000" +
		"00" + text("PT") + text("Évora") + text("mobile") + text("Firefox") + text("Android") + text("www.example.com") +
		"07" + "03fa" + "0000" + text("bot") + "000000" + text("mail") + "00" + text("spring") + "0000" +
		"0701" + "0407" + hex.EncodeToString([]byte("A_-9abc1234")) + "0301" + "0200" + // domains, codes, rows, visitors
		"000a9501" + hex.EncodeToString(binary.AppendVarint(nil, math.MaxInt64-1_700_000_000_000)) + // times
		"01020000" + "01c80101ffffffffffffffffff01" + // profiles, clicks
		"9601" + "02" + // last
		"0304" + "0000000001" + "fedcba9876" // days, hashes
	sum := crc32.Checksum(unhex(t, want), crc32.MakeTable(crc32.Castagnoli))
	require.Equal(t, want+hex.EncodeToString(binary.LittleEndian.AppendUint32(nil, sum)), got)
}

func unhex(t *testing.T, s string) []byte {
	b, err := hex.DecodeString(s)
	require.NoError(t, err)
	return b
}

func TestDecode_ReturnsTheEncodedBatch(t *testing.T) {
	largest := clicks()
	largest.Node = strings.Repeat("n", waypost.MaxNodeLength)
	largest.Links = make([]waypost.LinkClicks, clickbatch.MaxLinks)
	for i := range largest.Links {
		largest.Links[i] = waypost.LinkClicks{
			Domain: math.MaxUint32, Code: waypost.Code(fmt.Sprintf("%032d", i)), Last: int64(i),
			Rows: []waypost.ClickRow{{At: int64(i), Count: 1}, {At: int64(i), Profile: 2, Count: 2}}, Visitors: []waypost.Visitor{{Day: 1}},
		}
	}
	void := clicks()
	void.Links, void.Profiles = nil, nil
	for name, want := range map[string]waypost.ClickBatch{"some": clicks(), "none": void, "as many as may be": largest} {
		t.Run(name, func(t *testing.T) {
			encoded := clickbatch.Append(nil, &want)
			require.LessOrEqual(t, len(encoded), clickbatch.MaxBytes)
			got, err := clickbatch.Decode(encoded)
			require.NoError(t, err)
			require.Equal(t, want, got)
		})
	}
}

// someBatch draws any batch that is sound.
func someBatch(t *rapid.T) waypost.ClickBatch {
	b := waypost.ClickBatch{
		Node: rapid.StringMatching(`[a-zA-Z0-9._-]{1,64}`).Draw(t, "node"), Boot: waypost.BootID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "boot")),
		Seq: rapid.Uint64Min(1).Draw(t, "seq"), Exact: rapid.Bool().Draw(t, "exact"), Dropped: rapid.Uint64().Draw(t, "dropped"),
	}
	name := rapid.StringMatching(`[^\x00-\x1f\x7f]{0,20}`).Filter(waypost.ValidClickName)
	b.Profiles = rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) waypost.ClickProfile {
		p := waypost.ClickProfile{
			Country: rapid.StringMatching(`([A-Z]{2})?`).Draw(t, "country"), Browser: name.Draw(t, "browser"), OS: name.Draw(t, "os"),
			Device:   rapid.SampledFrom([]string{"", "desktop", "mobile", "tablet", "bot", "unknown"}).Draw(t, "device"),
			Referrer: name.Draw(t, "referrer"), Bot: rapid.Bool().Draw(t, "bot"),
			Rule: rapid.Uint8Max(waypost.MaxRule).Draw(t, "rule"), Variant: rapid.Uint8Max(waypost.MaxVariant).Draw(t, "variant"),
		}
		var utm waypost.UTMValues
		for i := range utm {
			utm[i] = rapid.SampledFrom([]string{"", "", "", "mail", "spring sale"}).Draw(t, "utm")
		}
		p.UTM = waypost.PackUTM(utm)
		if p.Country != "" {
			p.City = name.Draw(t, "city")
		}
		return p
	}), 1, 4, rapid.ID).Draw(t, "profiles")
	time := rapid.OneOf(rapid.Int64(), rapid.Int64Range(1_700_000_000_000, 1_700_000_900_000))
	b.Links = rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) waypost.LinkClicks {
		l := waypost.LinkClicks{
			Domain: waypost.DomainID(rapid.Uint32().Draw(t, "domain")), Code: waypost.Code(rapid.StringMatching(`[A-Za-z0-9_-]{1,32}|[a-z]{1,9}(/[a-z.é🦣]{3,9}){0,3}`).Draw(t, "code")),
			Last: time.Draw(t, "last"),
		}
		l.Rows = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) waypost.ClickRow {
			at := time.Draw(t, "at")
			if !b.Exact {
				at = waypost.Quarter(at)
			}
			return waypost.ClickRow{At: at, Profile: uint32(rapid.IntRange(0, len(b.Profiles)-1).Draw(t, "profile")), Count: rapid.Uint64Min(1).Draw(t, "count")}
		}), 1, 5).Draw(t, "rows")
		l.Visitors = rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) waypost.Visitor {
			return waypost.Visitor{Day: rapid.Int32().Draw(t, "day"), Bot: rapid.Bool().Draw(t, "bot"), Hash: rapid.Uint64().Draw(t, "hash") & waypost.VisitorBits}
		}), 0, 5, rapid.ID).Draw(t, "visitors")
		slices.SortFunc(l.Visitors, waypost.Visitor.Compare)
		if len(l.Visitors) == 0 {
			l.Visitors = nil
		}
		return l
	}), 0, 6, func(l waypost.LinkClicks) string { return fmt.Sprint(l.Domain, l.Code) }).Draw(t, "links")
	if len(b.Links) == 0 {
		b.Links = nil
	}
	return b
}

func TestDecode_ReturnsAnyEncodedBatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := someBatch(t)
		got, err := clickbatch.Decode(clickbatch.Append(nil, &want))
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
}

func TestDecode_NoticesEveryFlippedBit(t *testing.T) {
	b := clicks()
	encoded := clickbatch.Append(nil, &b)
	for i := range len(encoded) * 8 {
		encoded[i/8] ^= 1 << (i % 8)
		_, err := clickbatch.Decode(encoded)
		require.Equal(t, waypost.EInvalid, waypost.CodeOf(err), "bit %d", i)
		encoded[i/8] ^= 1 << (i % 8)
	}
}

func TestDecode_RefusesABatchBeyondItsBounds(t *testing.T) {
	for name, change := range map[string]func(*waypost.ClickBatch){
		"no node":                   func(b *waypost.ClickBatch) { b.Node = "" },
		"a node too long":           func(b *waypost.ClickBatch) { b.Node = strings.Repeat("n", waypost.MaxNodeLength+1) },
		"a node far too long":       func(b *waypost.ClickBatch) { b.Node = strings.Repeat("n", 256+6) },
		"a node with a space":       func(b *waypost.ClickBatch) { b.Node = "a b" },
		"a node beyond ASCII":       func(b *waypost.ClickBatch) { b.Node = "ä" },
		"sequence 0":                func(b *waypost.ClickBatch) { b.Seq = 0 },
		"a link without rows":       func(b *waypost.ClickBatch) { b.Links[1].Rows = nil },
		"a count of 0":              func(b *waypost.ClickBatch) { b.Links[0].Rows[1].Count = 0 },
		"a profile that is missing": func(b *waypost.ClickBatch) { b.Links[0].Rows[1].Profile = 3 },
		"times between quarters":    func(b *waypost.ClickBatch) { b.Exact = false },
		"a code too short":          func(b *waypost.ClickBatch) { b.Links[0].Code = "" },
		"a code too long":           func(b *waypost.ClickBatch) { b.Links[0].Code = waypost.Code(strings.Repeat("A", 129)) },
		"a code far too long":       func(b *waypost.ClickBatch) { b.Links[0].Code = waypost.Code(strings.Repeat("A", 256+4)) },
		"a code without a segment":  func(b *waypost.ClickBatch) { b.Links[0].Code = "AB//D" },
		"a link twice":              func(b *waypost.ClickBatch) { b.Links[1] = b.Links[0] },
		"a visitor twice":           func(b *waypost.ClickBatch) { b.Links[0].Visitors[1] = b.Links[0].Visitors[0] },
		"visitors out of order":     func(b *waypost.ClickBatch) { slices.Reverse(b.Links[0].Visitors) },
		"more of a visitor's hash":  func(b *waypost.ClickBatch) { b.Links[0].Visitors[0].Hash++ },
		"a profile twice":           func(b *waypost.ClickBatch) { b.Profiles[1] = b.Profiles[0] },
		"a country of one letter":   func(b *waypost.ClickBatch) { b.Profiles[1].Country = "P" },
		"a small country":           func(b *waypost.ClickBatch) { b.Profiles[1].Country = "pt" },
		"a city without a country":  func(b *waypost.ClickBatch) { b.Profiles[1].Country = "" },
		"a device of its own":       func(b *waypost.ClickBatch) { b.Profiles[1].Device = "watch" },
		"a browser too long":        func(b *waypost.ClickBatch) { b.Profiles[1].Browser = strings.Repeat("x", 129) },
		"a browser far too long":    func(b *waypost.ClickBatch) { b.Profiles[1].Browser = strings.Repeat("x", 256) },
		"a system with a newline":   func(b *waypost.ClickBatch) { b.Profiles[1].OS = "a\nb" },
		"a referrer that is cut":    func(b *waypost.ClickBatch) { b.Profiles[1].Referrer = "\xc3" },
		"a rule beyond its bound":   func(b *waypost.ClickBatch) { b.Profiles[1].Rule = waypost.MaxRule + 1 },
		"a utm parameter too long":  func(b *waypost.ClickBatch) { b.Profiles[1].UTM = waypost.UTM(strings.Repeat("x", waypost.MaxUTM+1)) },
		"one that is cut":           func(b *waypost.ClickBatch) { b.Profiles[1].UTM = "a\n\xc3" },
		"a variant beyond its":      func(b *waypost.ClickBatch) { b.Profiles[1].Variant = waypost.MaxVariant + 1 },
		"too many links": func(b *waypost.ClickBatch) {
			b.Links = make([]waypost.LinkClicks, clickbatch.MaxLinks+1)
			for i := range b.Links {
				b.Links[i] = waypost.LinkClicks{Code: waypost.Code(fmt.Sprintf("%08d", i)), Rows: []waypost.ClickRow{{Count: 1}}}
			}
		},
		"too many rows": func(b *waypost.ClickBatch) {
			b.Links[0].Rows = slices.Repeat([]waypost.ClickRow{{At: 1, Count: 1}}, clickbatch.MaxRows)
		},
		"too many visitors": func(b *waypost.ClickBatch) {
			b.Links[0].Visitors = make([]waypost.Visitor, clickbatch.MaxVisitors+1)
			for i := range b.Links[0].Visitors {
				b.Links[0].Visitors[i].Day = int32(i)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := clicks()
			change(&b)
			_, err := clickbatch.Decode(clickbatch.Append(nil, &b))
			require.Equal(t, waypost.EInvalid, waypost.CodeOf(err))
		})
	}
}

// resum puts the right checksum under a changed batch.
func resum(b []byte) []byte {
	body := b[:len(b)-4]
	return binary.LittleEndian.AppendUint32(body[:len(body):len(body)], crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
}

func TestDecode_RefusesAWrongLength(t *testing.T) {
	b := clicks()
	encoded := clickbatch.Append(nil, &b)
	for cut := range encoded {
		_, err := clickbatch.Decode(encoded[:cut])
		require.Error(t, err)
		if cut >= 4 {
			_, err = clickbatch.Decode(resum(encoded[:cut]))
			require.Error(t, err, "cut at %d", cut)
		}
	}
	_, err := clickbatch.Decode(resum(append(slices.Clone(encoded[:len(encoded)-4]), 0, 0, 0, 0, 0)))
	require.Error(t, err)
	numbers := 28 + 7 + 2 + 6 // behind the node, what was dropped, and the base time
	for at := range 4 {
		for n := range byte(0x80) {
			lie := slices.Clone(encoded)
			if lie[numbers+at] == n {
				continue
			}
			lie[numbers+at] = n
			_, err := clickbatch.Decode(resum(lie))
			require.Error(t, err, "%d in the place of number %d", n, at)
		}
	}
	for i, flip := range map[int]byte{0: 4, 1: 2, 3: 0x80} {
		other := slices.Clone(encoded)
		other[i] ^= flip
		_, err := clickbatch.Decode(resum(other))
		require.ErrorContains(t, err, "version")
	}
}

func FuzzDecode(f *testing.F) {
	b := clicks()
	f.Add(clickbatch.Append(nil, &b))
	b.Exact, b.Links[0].Rows, b.Links[1].Rows = false, []waypost.ClickRow{{At: 900_000, Count: 1}, {
		Profile: 2,
		Count:   300,
	}}, []waypost.ClickRow{{Count: 1}}
	f.Add(clickbatch.Append(nil, &b))
	b.Links = nil
	f.Add(clickbatch.Append(nil, &b))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) >= 4 {
			raw = resum(raw) // past the checksum, or nothing is reached
		}
		batch, err := clickbatch.Decode(raw)
		if err != nil {
			require.Equal(t, waypost.EInvalid, waypost.CodeOf(err))
			return
		}
		require.Equal(t, raw, clickbatch.Append(nil, &batch), "there is one encoding of a batch")
	})
}
