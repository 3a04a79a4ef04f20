package rules

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
	"strconv"
)

var (
	bcryptHash = regexp.MustCompile(`^\$2[aby]\$([0-9]{2})\$([./A-Za-z0-9]{22})([./A-Za-z0-9]{31})$`)
	argonHash  = regexp.MustCompile(`^\$argon2id\$v=19\$m=([0-9]{1,9}),t=([0-9]{1,9}),p=([0-9]{1,9})\$([+/A-Za-z0-9]{22})\$([+/A-Za-z0-9]{43})$`)

	// bcryptText is the encoding of salts and hashes of bcrypt.
	bcryptText = base64.NewEncoding("./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789").WithPadding(base64.NoPadding)
)

// bcryptBytes is the length of a hash of bcrypt.
const bcryptBytes = 23

// ParsePasswordHash reads the hash of a password as other programs keep it: bcrypt's, and
// argon2id's in the PHC string format with a salt of 16 bytes and a hash of 32. The
// verifier has no key yet. An error is for the owner of the hash, and does not show it.
func ParsePasswordHash(text string) (v Password, err error) {
	if m := bcryptHash.FindStringSubmatch(text); m != nil {
		cost, _ := strconv.Atoi(m[1])
		if cost < minBcryptCost || cost > maxBcryptCost {
			return v, fmt.Errorf("the bcrypt hash of the password has the cost %d: edges compute %d to %d", cost, minBcryptCost, maxBcryptCost)
		}
		v.Passes = uint8(cost)
		_, _ = bcryptText.Decode(v.Salt[:], []byte(m[2])) // the pattern has what can be decoded
		_, _ = bcryptText.Decode(v.Hash[:], []byte(m[3]))
		return v, nil
	}
	m := argonHash.FindStringSubmatch(text)
	if m == nil {
		return v, errors.New("the password is kept as a hash that cannot come along: bcrypt's can, and argon2id's of version 19 " +
			"with a salt of 16 bytes and a hash of 32; give the password, or leave it out")
	}
	var cost [3]uint64
	for i := range cost {
		cost[i], _ = strconv.ParseUint(m[1+i], 10, 32)
	}
	head := binary.LittleEndian.AppendUint32(nil, uint32(cost[0]))
	if cost[1] > maxPasswordPasses || cost[2] > maxPasswordLanes || cost[0] == 0 || !affordable(append(head, byte(cost[1]), byte(cost[2]))) {
		return v, fmt.Errorf("the argon2id hash of the password has m=%d,t=%d,p=%d: edges compute at most %d KiB, %d passes and %d lanes, and at least %d KiB a lane",
			cost[0], cost[1], cost[2], maxPasswordMemory, maxPasswordPasses, maxPasswordLanes, minPasswordMemory)
	}
	v = Password{Memory: uint32(cost[0]), Passes: uint8(cost[1]), Lanes: uint8(cost[2])}
	_, _ = base64.RawStdEncoding.Decode(v.Salt[:], []byte(m[4]))
	_, _ = base64.RawStdEncoding.Decode(v.Hash[:], []byte(m[5]))
	return v, nil
}

// Bcrypt returns the hash as bcrypt writes it; nil: the hash is of argon2id.
func (p *Password) Bcrypt() []byte {
	if p.Memory != 0 {
		return nil
	}
	b := fmt.Appendf(nil, "$2b$%02d$", p.Passes)
	b = bcryptText.AppendEncode(b, p.Salt[:])
	return bcryptText.AppendEncode(b, p.Hash[:bcryptBytes])
}
