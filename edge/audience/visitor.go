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

// opened is what a day's salt opens and tells apart.
type opened struct {
	day   int32
	salt  waypost.Salt
	block cipher.Block
	mac   hash.Hash
}

// keptDays is how many days' keys are at hand: the journal may hold clicks of several.
const keptDays = 4

// dayOf gives the keys of a day, nil when its salt is not there or not there any more.
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

// open gives the address that was sealed. An address that was sealed under another
// salt of the day comes out as one that nobody has.
func (d *opened) open(buf, sealed *[16]byte) netip.Addr {
	d.block.Decrypt(buf[:], sealed[:])
	return netip.AddrFrom16(*buf).Unmap()
}

// visitor tells the visitors of a day apart: the first eight bytes of HMAC-SHA-256
// under the day's salt, of the address in its form of 16 bytes and the user agent. Of
// these waypost.VisitorBits leave the edge, and they are never all zero.
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
