package replication_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"waypost"
	"waypost/replication"
	"waypost/rules"
)

func link() waypost.Record {
	return waypost.Record{
		Kind: waypost.KindLink, State: waypost.Live, Status: 302, Domain: 1, Name: []byte("abc1234"),
		Revision: waypost.Revision{Epoch: 3, Seq: 0x0102030405}, Stamp: 0xfedcba9876543210,
		ExpiresAt: 1_700_000_000_000, Payload: []byte("https://example.com/"),
	}
}

func TestTheBytesOfARecordNeverChange(t *testing.T) {
	r := link()
	got := hex.EncodeToString(replication.AppendRecord([]byte("x"), &r)[1:])
	want := "01" + "01" + "00" + "07" + // version, kind, state, name length
		"2e01" + "0000" + "01000000" + // status, extension length, domain
		"03000000" + "0504030201000000" + // revision
		"1032547698badcfe" + "0068e5cf8b010000" + // stamp, expiry
		"14000000" + "edb7782b" + // payload length, checksum
		hex.EncodeToString([]byte("abc1234https://example.com/"))
	require.Equal(t, want, got)

	r.Flags = waypost.ForwardPath
	got = hex.EncodeToString(replication.AppendRecord(nil, &r))
	require.Equal(t, "0500", got[12:16], "the length of the extensions")
	require.Equal(t, hex.EncodeToString([]byte("abc1234https://example.com/"))+"0100"+"0100"+"02", got[96:], "type, length, flags")
}

func TestTheFlagsOfALinkAreReadBesideOtherExtensions(t *testing.T) {
	r := link()
	b := replication.AppendRecord(nil, &r)
	for name, c := range map[string]struct {
		extensions string
		want       waypost.LinkFlags
	}{
		"none":                            {"", 0},
		"an empty value":                  {"\x01\x00\x00\x00", 0},
		"both":                            {"\x01\x00\x01\x00\x03", waypost.ForwardQuery | waypost.ForwardPath},
		"behind one that nobody knows":    {"\x09\x09\x03\x00abc\x01\x00\x01\x00\x01", waypost.ForwardQuery},
		"before one that nobody knows":    {"\x01\x00\x01\x00\x02\x09\x09\x03\x00abc", waypost.ForwardPath},
		"with more, of a later version":   {"\x01\x00\x02\x00\x01\xff", waypost.ForwardQuery},
		"with bits that are not ours yet": {"\x01\x00\x01\x00\x81", waypost.ForwardQuery | 0x80},
	} {
		var got waypost.Record
		require.NoError(t, replication.DecodeRecord(extend(b, []byte(c.extensions)), &got), name)
		require.Equal(t, c.want, got.Flags, name)

		apart := waypost.Record{Flags: 0xff} // of an earlier use
		require.NoError(t, replication.DecodeExtensions(replication.Extensions(extend(b, []byte(c.extensions))), &apart))
		require.Equal(t, c.want, apart.Flags, name)
	}
}

func TestARecordDecodesToWhatWasEncoded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := waypost.Record{
			Kind:      waypost.Kind(rapid.IntRange(2, 255).Filter(func(n int) bool { return !waypost.Kind(n).IsLink() }).Draw(t, "kind")),
			State:     waypost.State(rapid.Byte().Draw(t, "state")),
			Flags:     waypost.LinkFlags(rapid.Byte().Draw(t, "flags")),
			Status:    rapid.Uint16().Draw(t, "status"),
			Domain:    waypost.DomainID(rapid.Uint32().Draw(t, "domain")),
			Name:      rapid.SliceOfN(rapid.Byte(), 1, waypost.MaxName).Draw(t, "name"),
			Revision:  waypost.Revision{Epoch: rapid.Uint32().Draw(t, "epoch"), Seq: rapid.Uint64().Draw(t, "seq")},
			Stamp:     rapid.Uint64().Draw(t, "stamp"),
			ExpiresAt: rapid.Int64().Draw(t, "expires"),
			Payload:   rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "payload"),
		}
		if rapid.Bool().Draw(t, "has rules") {
			r.Programme = rapid.SliceOfN(rapid.Byte(), 1, waypost.MaxProgramme).Draw(t, "programme")
		}
		var got waypost.Record
		require.NoError(t, replication.DecodeRecord(replication.AppendRecord(nil, &r), &got))
		require.Equal(t, r, got)
	})
}

func TestDecodeRecord_RefusesDamagedRulesAndPassesLaterOnes(t *testing.T) {
	with := rules.Compiling{Status: 302, Target: func(url string) (string, string, error) { return url, url, nil }}
	programme, err := rules.Compile(&rules.Source{Rules: []rules.Rule{{
		When: []rules.Condition{{Agent: []string{"ios"}}}, To: "https://example.com/ios",
	}}}, &with)
	require.NoError(t, err)
	r := link()
	var got waypost.Record
	decode := func(programme []byte) error {
		r.Programme = programme
		return replication.DecodeRecord(replication.AppendRecord(nil, &r), &got)
	}
	require.NoError(t, decode(programme))
	require.Equal(t, r, got)
	require.ErrorIs(t, decode(programme[:len(programme)-1]), replication.ErrContent)
	require.Equal(t, r, got, "the record is kept as it is")
	require.ErrorIs(t, decode(make([]byte, waypost.MaxProgramme+1)), replication.ErrContent)
	require.NoError(t, decode(append([]byte{9}, programme[1:]...)), "rules of a later version")
}

func TestEveryFlippedBitOfARecordIsNoticed(t *testing.T) {
	r := link()
	b := replication.AppendRecord(nil, &r)
	for i := range len(b) * 8 {
		b[i/8] ^= 1 << (i % 8)
		var got waypost.Record
		require.ErrorIs(t, replication.DecodeRecord(b, &got), replication.ErrRecord, "bit %d", i)
		b[i/8] ^= 1 << (i % 8)
	}
}

func TestARecordUnderAnotherKeyDoesNotVerify(t *testing.T) {
	r, other := link(), link()
	other.Name = []byte("xyz9876")
	b := replication.AppendRecord(nil, &r)
	copy(b[48:], other.Name)
	require.ErrorIs(t, replication.DecodeRecord(b, &waypost.Record{}), replication.ErrRecord)
}

func TestRecordsOutOfBoundsAreRefused(t *testing.T) {
	for name, change := range map[string]func(*waypost.Record){
		"no name":           func(r *waypost.Record) { r.Name = nil },
		"a name too long":   func(r *waypost.Record) { r.Name = make([]byte, waypost.MaxName+1) },
		"a huge name":       func(r *waypost.Record) { r.Name = make([]byte, 256+7) },
		"a payload too big": func(r *waypost.Record) { r.Payload = make([]byte, waypost.MaxPayload+1) },
		"a huge payload":    func(r *waypost.Record) { r.Payload = make([]byte, 1<<20) },
	} {
		r := link()
		change(&r)
		err := replication.DecodeRecord(replication.AppendRecord(nil, &r), &waypost.Record{})
		require.ErrorIs(t, err, replication.ErrRecord, name)
	}
	r := link()
	b := replication.AppendRecord(nil, &r)
	for cut := range b {
		require.ErrorIs(t, replication.DecodeRecord(b[:cut], &waypost.Record{}), replication.ErrRecord)
	}
	require.ErrorIs(t, replication.DecodeRecord(append(b, 0), &waypost.Record{}), replication.ErrRecord)
}

func TestALinkThatMustNotBeServedIsRecognised(t *testing.T) {
	for name, change := range map[string]func(*waypost.Record){
		"CR":           func(r *waypost.Record) { r.Payload = []byte("https://a/\rX: y") },
		"LF":           func(r *waypost.Record) { r.Payload = []byte("https://a/\nX: y") },
		"NUL":          func(r *waypost.Record) { r.Payload = []byte("https://a/\x00") },
		"DEL":          func(r *waypost.Record) { r.Payload = []byte("https://a/\x7f") },
		"nothing":      func(r *waypost.Record) { r.Payload = nil },
		"status 200":   func(r *waypost.Record) { r.Status = 200 },
		"status 303":   func(r *waypost.Record) { r.Status = 303 },
		"disabled, LF": func(r *waypost.Record) { r.State, r.Payload = waypost.Disabled, []byte("\n") },
		"tombstone CR": func(r *waypost.Record) { r.State, r.Payload = waypost.Deleted, []byte("\r") },
	} {
		r := link()
		change(&r)
		var got waypost.Record
		err := replication.DecodeRecord(replication.AppendRecord(nil, &r), &got)
		require.ErrorIs(t, err, replication.ErrContent, name)
		require.Equal(t, r.Stamp, got.Stamp, "the envelope is known all the same")
	}
	for _, status := range []uint16{301, 302, 307, 308} {
		r := link()
		r.Status = status
		require.NoError(t, replication.DecodeRecord(replication.AppendRecord(nil, &r), &waypost.Record{}))
	}
	tombstone := link()
	tombstone.State, tombstone.Status, tombstone.Payload = waypost.Deleted, 0, nil
	require.NoError(t, replication.DecodeRecord(replication.AppendRecord(nil, &tombstone), &waypost.Record{}))
}

// extend adds an extension block to an encoded record, as a later version would.
func extend(b, ext []byte) []byte {
	b = append(append([]byte(nil), b...), ext...)
	binary.LittleEndian.PutUint16(b[6:], uint16(len(ext)))
	return seal(b)
}

func seal(b []byte) []byte {
	table := crc32.MakeTable(crc32.Castagnoli)
	binary.LittleEndian.PutUint32(b[44:], crc32.Update(crc32.Checksum(b[:44], table), table, b[48:]))
	return b
}

func TestUnknownExtensionsAreIgnoredAndMalformedOnesRefused(t *testing.T) {
	r := link()
	b := replication.AppendRecord(nil, &r)
	var got waypost.Record
	require.NoError(t, replication.DecodeRecord(extend(b, []byte{9, 9, 3, 0, 'a', 'b', 'c', 1, 0, 0, 0}), &got))
	require.Equal(t, r, got)
	for _, ext := range []string{"\x01", "\x01\x00\x01", "\x01\x00\x02\x00a", strings.Repeat("\x00", waypost.MaxExtensions+4)} {
		require.ErrorIs(t, replication.DecodeRecord(extend(b, []byte(ext)), &got), replication.ErrRecord)
	}
}

func TestAnUnknownVersionIsAnErrorAndAnUnknownKindIsNot(t *testing.T) {
	r := link()
	b := replication.AppendRecord(nil, &r)
	b[0] = 2
	require.ErrorContains(t, replication.DecodeRecord(seal(b), &waypost.Record{}), "version 2")
	r.Kind, r.Payload = 200, []byte("\r\n anything")
	require.NoError(t, replication.DecodeRecord(replication.AppendRecord(nil, &r), &waypost.Record{}))
}

func TestDecodingARecordDoesNotAllocate(t *testing.T) {
	r := link()
	r.Flags = waypost.ForwardQuery
	b := replication.AppendRecord(nil, &r)
	var got waypost.Record
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if err := replication.DecodeRecord(b, &got); err != nil {
			panic(err)
		}
	}))
	require.Zero(t, testing.AllocsPerRun(100, func() { b = replication.AppendRecord(b[:0], &r) }))
}

func FuzzDecodeRecord(f *testing.F) {
	r := link()
	f.Add(replication.AppendRecord(nil, &r))
	f.Add(extend(replication.AppendRecord(nil, &r), []byte{1, 0, 0, 0}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= 48 {
			b = seal(append([]byte(nil), b...)) // past the checksum, or nothing is reached
		}
		var r, again waypost.Record
		if err := replication.DecodeRecord(b, &r); errors.Is(err, replication.ErrRecord) {
			return
		}
		enc := replication.AppendRecord(nil, &r)
		if err := replication.DecodeRecord(enc, &again); errors.Is(err, replication.ErrRecord) {
			t.Fatalf("what was decoded does not encode: %v", err)
		}
		require.Equal(t, r, again)
	})
}

func TestAControlByteAnywhereInALocationIsFound(t *testing.T) {
	for size := 1; size <= 24; size++ {
		for at := range size {
			for c := range 256 {
				location := bytes.Repeat([]byte{0x80}, size)
				location[at] = byte(c)
				raw := replication.AppendRecord(nil, &waypost.Record{
					Kind: waypost.KindLink, Status: 302, Domain: waypost.DefaultDomain, Name: []byte("code"), Payload: location,
				})
				var r waypost.Record
				err := replication.DecodeRecord(raw, &r)
				if c < 0x20 || c == 0x7f {
					require.ErrorIs(t, err, replication.ErrContent, "byte %#x at %d of %d", c, at, size)
				} else {
					require.NoError(t, err, "byte %#x at %d of %d", c, at, size)
				}
			}
		}
	}
}
