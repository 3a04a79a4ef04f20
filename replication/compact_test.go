package replication_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/replication"
)

// extended returns a record with an extension block, which this version does not write.
func extended(r *waypost.Record, block string) []byte {
	raw := append(replication.AppendRecord(nil, r), block...)
	binary.LittleEndian.PutUint16(raw[6:], uint16(len(block)))
	table := crc32.MakeTable(crc32.Castagnoli)
	binary.LittleEndian.PutUint32(raw[44:], crc32.Update(crc32.Checksum(raw[:44], table), table, raw[48:]))
	return raw
}

func TestACompactRecordLeavesNothingOut(t *testing.T) {
	link := waypost.Record{
		Kind: waypost.KindLink, Status: 302, Domain: waypost.DefaultDomain, Name: []byte("a-code"), Stamp: 1 << 63,
		Revision: waypost.Revision{Epoch: 1<<32 - 1, Seq: 1<<64 - 1}, Payload: []byte("https://example.com/"),
	}
	expires, domain := link, link
	expires.ExpiresAt, expires.State, expires.Payload = -1, waypost.Deleted, nil
	domain.Kind, domain.Domain, domain.Status = waypost.KindDomain, 0, 0
	for name, raw := range map[string][]byte{
		"a link":           replication.AppendRecord(nil, &link),
		"one that expires": replication.AppendRecord(nil, &expires),
		"a domain":         replication.AppendRecord(nil, &domain),
		"with extensions":  extended(&expires, "\x09\x00\x01\x00x"),
	} {
		t.Run(name, func(t *testing.T) {
			var r, again waypost.Record
			require.NoError(t, replication.DecodeRecord(raw, &r))
			compact := replication.Compact([]byte("kept"), raw)
			require.Less(t, len(compact), len(raw)-len(r.Name))
			got, err := replication.Expand([]byte("too"), compact[4:], r.Kind, r.Domain, r.Name)
			require.NoError(t, err)
			require.Equal(t, "too"+string(raw), string(got))
			full, err := replication.Expand(nil, raw, r.Kind, r.Domain, r.Name)
			require.NoError(t, err)
			require.Equal(t, raw, full, "a record in full stays as it is")

			other, err := replication.Expand(nil, compact[4:], r.Kind, r.Domain, []byte("b-code"))
			require.NoError(t, err)
			require.ErrorIs(t, replication.DecodeRecord(other, &again), replication.ErrRecord, "under another key it does not hold")
		})
	}
}

func FuzzExpand(f *testing.F) {
	link := waypost.Record{Kind: waypost.KindLink, Status: 302, Domain: 7, Name: []byte("code"), ExpiresAt: 5, Payload: []byte("https://example.com/")}
	f.Add(replication.Compact(nil, replication.AppendRecord(nil, &link)), uint32(7), []byte("code"))
	f.Add(replication.Compact(nil, extended(&link, "\x09\x00\x01\x00x")), uint32(7), []byte("code"))
	f.Add(replication.AppendRecord(nil, &link), uint32(7), []byte("code"))
	f.Fuzz(func(t *testing.T, b []byte, domain uint32, name []byte) {
		raw, err := replication.Expand(nil, b, waypost.KindLink, waypost.DomainID(domain), name)
		if err != nil {
			require.ErrorIs(t, err, replication.ErrRecord)
			return
		}
		var r waypost.Record
		if err := replication.DecodeRecord(raw, &r); err != nil {
			return
		}
		again, err := replication.Expand(nil, replication.Compact(nil, raw), r.Kind, r.Domain, r.Name)
		require.NoError(t, err)
		require.True(t, bytes.Equal(raw, again))
	})
}
