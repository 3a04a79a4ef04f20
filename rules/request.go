package rules

import (
	"bytes"
	"hash/crc32"
	"net/netip"
	"strconv"

	"waypost"
	"waypost/rules/agents"
)

// Request holds the parts of a visitor's request that facts come from, as they were sent.
type Request struct {
	At             int64 // Unix milliseconds
	Address        netip.Addr
	UserAgent      []byte
	AcceptLanguage []byte
	Cookie         []byte
	Query          []byte
	Chance         uint16             // random
	Link           uint32             // in the names of cookies, see CookieNumber; 0: they are set for the link's path
	Agents         *agents.Classifier // nil: the words of its package alone
}

// Read sets those facts of the zero Facts that are needed from a request. Country and
// city are the caller's. It does not allocate.
func (f *Facts) Read(required FactSet, r *Request) {
	f.At, f.Address, f.Chance = r.At, r.Address, r.Chance
	f.UserAgent, f.Query, f.Cookie, f.Link = r.UserAgent, r.Query, r.Cookie, r.Link
	if required&FactAddress != 0 {
		f.words = wordsOf(r.Address)
	}
	if required&FactAgent != 0 {
		f.Agent = r.Agents.Classify(r.UserAgent).Set
	}
	if required&FactLanguage != 0 {
		f.Languages.Parse(r.AcceptLanguage)
	}
	if required&FactCookie != 0 {
		f.Variant = variantOf(r.Cookie, r.Link)
	}
}

// VariantCookie is the name of the cookie that keeps a variant, for the link's path, or
// for all paths if the link has aliases.
const VariantCookie = "waypost_variant"

// CookieNumber returns a number for the names of the cookies of a link with aliases, 0
// for any other link. These cookies are set for all paths of a host, so that their paths
// do not distinguish links.
func CookieNumber(r *waypost.Record) uint32 {
	if r.Flags&waypost.Aliased == 0 {
		return 0
	}
	return max(1, crc32.Update(uint32(r.Domain), crc32.IEEETable, r.Name))
}

// AppendCookieName appends the name of a cookie of a link with that number, and its
// equals sign.
func AppendCookieName(dst []byte, name string, link uint32, secure bool) []byte {
	if secure {
		dst = append(dst, SecurePrefix...)
	}
	dst = append(dst, name...)
	if link != 0 {
		dst = strconv.AppendUint(append(dst, '_'), uint64(link), 10)
	}
	return append(dst, '=')
}

// cookieName is room for the longest name of a cookie.
type cookieName [len(SecurePrefix + VariantCookie + "_4294967295=")]byte

// cutCookie cuts the first cookie off a Cookie header.
func cutCookie(header []byte) (pair, rest []byte) {
	if i := bytes.IndexByte(header, ';'); i >= 0 {
		return trimSpaces(header[:i]), header[i+1:]
	}
	return trimSpaces(header), nil
}

// variantOf returns the variant that a Cookie header names, 0 for none.
func variantOf(header []byte, link uint32) uint8 {
	var name cookieName
	if variant := variantAs(AppendCookieName(name[:0], VariantCookie, link, true), header); variant != 0 {
		return variant
	}
	return variantAs(AppendCookieName(name[:0], VariantCookie, link, false), header)
}

// variantAs is variantOf for the cookies of one name.
func variantAs(prefix, header []byte) uint8 {
	for len(header) > 0 {
		var pair []byte
		pair, header = cutCookie(header)
		if len(pair) <= len(prefix) || !bytes.HasPrefix(pair, prefix) {
			continue
		}
		n := 0
		for _, c := range pair[len(prefix):] {
			if n = n*10 + int(c-'0'); c < '0' || c > '9' || n > MaxID {
				return 0
			}
		}
		return uint8(n)
	}
	return 0
}
