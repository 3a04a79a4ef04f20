package rules

import (
	"bytes"
	"net/netip"

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
	Agents         *agents.Classifier // nil: the words of its package alone
}

// Read sets those facts of the zero Facts that are needed from a request. Country and
// city are the caller's. It does not allocate.
func (f *Facts) Read(required FactSet, r *Request) {
	f.At, f.Address, f.Chance = r.At, r.Address, r.Chance
	f.UserAgent, f.Query, f.Cookie = r.UserAgent, r.Query, r.Cookie
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
		f.Variant = variantOf(r.Cookie)
	}
}

// VariantCookie is the name of the cookie that keeps a variant, under the link's path.
const VariantCookie = "waypost_variant"

// cutCookie cuts the first cookie off a Cookie header.
func cutCookie(header []byte) (pair, rest []byte) {
	if i := bytes.IndexByte(header, ';'); i >= 0 {
		return trimSpaces(header[:i]), header[i+1:]
	}
	return trimSpaces(header), nil
}

// variantOf returns the variant that a Cookie header names, 0 for none.
func variantOf(header []byte) uint8 {
	if variant := variantAs(SecurePrefix+VariantCookie+"=", header); variant != 0 {
		return variant
	}
	return variantAs(VariantCookie+"=", header)
}

// variantAs is variantOf for the cookies of one name.
func variantAs(prefix string, header []byte) uint8 {
	for len(header) > 0 {
		var pair []byte
		pair, header = cutCookie(header)
		if len(pair) <= len(prefix) || string(pair[:len(prefix)]) != prefix {
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
