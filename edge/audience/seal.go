package audience

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"net/netip"
	"sync/atomic"

	"waypost"
)

// sealLabel derives the key that addresses are sealed with from the day's salt. It is
// shorter than an address, and so never the beginning of the input of a visitor's hash.
const sealLabel = "seal address"

// newBlock makes the cipher of a day.
func newBlock(salt *waypost.Salt) cipher.Block {
	mac := hmac.New(sha256.New, salt[:])
	mac.Write([]byte(sealLabel))
	block, err := aes.NewCipher(mac.Sum(nil)[:16])
	if err != nil {
		panic(err) // the key has the right length
	}
	return block
}

// Sealer seals addresses for the click journal. It may be used by many goroutines at
// once.
type Sealer struct {
	salts   Salts
	current atomic.Pointer[seal]
}

// seal is the cipher of one day's salt.
type seal struct {
	day   int32
	salt  waypost.Salt
	block cipher.Block
}

// NewSealer takes the salts that it is to seal with.
func NewSealer(salts Salts) *Sealer { return &Sealer{salts: salts} }

// Seal puts the address into dst, encrypted under the key of the day of at, which is
// in Unix milliseconds; zero when there is no address or no salt. Equal addresses of a
// day look alike. It does not wait, and allocates only when the day or its salt is
// another than before. Dst may be a part of a value that lives longer than the call.
func (s *Sealer) Seal(dst *[16]byte, addr netip.Addr, at int64) {
	*dst = [16]byte{}
	day := waypost.Day(at)
	salt := s.salts.Salt(day)
	if salt == nil || !addr.IsValid() {
		return
	}
	k := s.current.Load()
	if k == nil || k.day != day || k.salt != *salt {
		k = &seal{day: day, salt: *salt, block: newBlock(salt)}
		s.current.Store(k)
	}
	*dst = addr.As16()
	k.block.Encrypt(dst[:], dst[:])
}
