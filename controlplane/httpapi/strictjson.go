package httpapi

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"waypost"
)

// maxDepth bounds the nesting of arrays and objects.
const maxDepth = 32

// maxExponent bounds the exponent of a number either way, which keeps it within
// what both a float64 and PostgreSQL's numeric can hold.
const maxExponent = 308

// checkJSON refuses what encoding/json would silently change or choose between:
// invalid UTF-8, lone surrogates and duplicate names are EMalformed, and so is
// deep nesting. NUL, which PostgreSQL does not store, and numbers that it cannot
// hold are EInvalid. The text must be valid JSON.
func checkJSON(data []byte) error {
	if !utf8.Valid(data) {
		return waypost.Errorf(waypost.EMalformed, "the body is not valid UTF-8")
	}
	c := checker{data: data}
	return c.value(0)
}

// checker walks over valid JSON.
type checker struct {
	data []byte
	at   int
}

// next gives the next byte that is neither white space nor a separator, without
// going past it; 0 at the end.
func (c *checker) next() byte {
	for c.at < len(c.data) {
		switch b := c.data[c.at]; b {
		case ' ', '\t', '\r', '\n', ',', ':':
			c.at++
		default:
			return b
		}
	}
	return 0
}

func (c *checker) value(depth int) error {
	if depth > maxDepth {
		return waypost.Errorf(waypost.EMalformed, "the body is nested more than %d deep", maxDepth)
	}
	switch c.next() {
	case '{':
		return c.object(depth)
	case '[':
		return c.array(depth)
	case '"':
		return c.text()
	default:
		return c.literal()
	}
}

func (c *checker) object(depth int) error {
	seen := map[string]bool{}
	for c.at++; c.next() == '"'; {
		start := c.at
		if err := c.text(); err != nil {
			return err
		}
		var name string
		if err := json.Unmarshal(c.data[start:c.at], &name); err != nil {
			return waypost.WrapError(waypost.EMalformed, "the body is no JSON", err)
		}
		if seen[name] {
			return waypost.Errorf(waypost.EMalformed, "a name occurs twice in one object, at byte %d", c.at)
		}
		seen[name] = true
		if err := c.value(depth + 1); err != nil {
			return err
		}
	}
	c.at++ // the closing brace
	return nil
}

func (c *checker) array(depth int) error {
	for c.at++; c.next() != ']'; {
		if c.at >= len(c.data) {
			return nil
		}
		if err := c.value(depth + 1); err != nil {
			return err
		}
	}
	c.at++
	return nil
}

// text passes a string, from its opening quote to behind its closing one.
func (c *checker) text() error {
	high := false // the last thing read was a high surrogate, which wants a low one
	for c.at++; c.at < len(c.data); c.at++ {
		b := c.data[c.at]
		unit := rune(-1)
		if b == '\\' {
			c.at++
			if c.at+4 < len(c.data) && c.data[c.at] == 'u' {
				n, _ := strconv.ParseUint(string(c.data[c.at+1:c.at+5]), 16, 16)
				unit = rune(n)
				c.at += 4
			}
		}
		low := unit >= 0xDC00 && unit <= 0xDFFF
		if low != high {
			return waypost.Errorf(waypost.EMalformed, "half of a surrogate pair, before byte %d", c.at)
		}
		high = unit >= 0xD800 && unit <= 0xDBFF
		if unit == 0 {
			return waypost.Errorf(waypost.EInvalid, "the character NUL is not allowed, at byte %d", c.at)
		}
		if b == '"' {
			break
		}
	}
	c.at = min(c.at+1, len(c.data))
	return nil
}

// literal passes a number, true, false or null.
func (c *checker) literal() error {
	start := c.at
	for c.at < len(c.data) && !strings.ContainsRune(" \t\r\n,:]}", rune(c.data[c.at])) {
		c.at++
	}
	token := string(c.data[start:c.at])
	if token == "true" || token == "false" || token == "null" {
		return nil
	}
	_, err := strconv.ParseFloat(token, 64)
	if i := strings.IndexAny(token, "eE"); err == nil && i >= 0 {
		var exponent int
		exponent, err = strconv.Atoi(token[i+1:])
		if err == nil && (exponent > maxExponent || exponent < -maxExponent) {
			err = strconv.ErrRange
		}
	}
	if err != nil {
		return waypost.Errorf(waypost.EInvalid, "a number is out of range, before byte %d", c.at)
	}
	return nil
}
