package audience

import (
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"net/netip"

	"waypost"
)

// opened holds the keys of one day.
type opened struct {
	day   int32
	salt  waypost.Salt
	block cipher.Block
	mac   hash.Hash
}

// keptDays bounds the cached keys. The journal may hold clicks of several days.
const keptDays = 4

// dayOf returns the keys of a day, nil if its salt is missing or destroyed.
func (a *Audience) dayOf(at int64) *opened {
	day := waypost.Day(at)
	salt := a.cfg.Salts.Salt(day)
	if salt == nil {
		return nil
	}
	for i := range a.days {
		if d := &a.days[i]; d.block != nil && d.day == day && d.salt == *salt {
			return d
		}
	}
	d := &a.days[a.nextDay]
	a.nextDay = (a.nextDay + 1) % keptDays
	*d = opened{day: day, salt: *salt, block: newBlock(salt), mac: hmac.New(sha256.New, salt[:])}
	return d
}

// open returns the sealed address. An address that was sealed under another salt of the
// day becomes a random one.
func (d *opened) open(buf, sealed *[16]byte) netip.Addr {
	d.block.Decrypt(buf[:], sealed[:])
	return netip.AddrFrom16(*buf).Unmap()
}

// visitor identifies a visitor within a day: the first eight bytes of HMAC-SHA-256 under
// the day's salt, of the address as 16 bytes and the user agent. Of these,
// waypost.VisitorBits leave the edge, and they are never all zero.
func (d *opened) visitor(address *[16]byte, agent []byte, sum []byte) uint64 {
	d.mac.Reset()
	d.mac.Write(address[:])
	d.mac.Write(agent)
	v := binary.BigEndian.Uint64(d.mac.Sum(sum[:0]))
	if v&waypost.VisitorBits == 0 {
		v |= ^waypost.VisitorBits + 1 // the lowest of these bits
	}
	return v
}
