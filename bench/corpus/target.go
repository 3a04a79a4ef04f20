package corpus

import (
	"bufio"
	"fmt"
	"math/bits"
	"net/url"
	"os"
	"strconv"
	"strings"
)

// Targets makes the targets of links: hosts and paths of real links, mixed, and
// grown to the length that links of newsletters and shops have, of 90 bytes on average.
type Targets struct {
	hosts []string // with the scheme
	paths []string // with the slash in front
}

// ReadTargets takes the shapes from a file of one URL a row, below a row of titles.
// Rows that are no plain ASCII URL are passed over.
func ReadTargets(path string) (*Targets, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading real links: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	t := &Targets{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		u, err := url.Parse(lines.Text())
		if err != nil || u.Scheme == "" || u.Host == "" || !plain(lines.Text()) {
			continue
		}
		t.hosts = append(t.hosts, u.Scheme+"://"+u.Host)
		// Drop queries and fragments, because no segment can be added behind them.
		if p := strings.TrimSuffix(u.EscapedPath(), "/"); p != "" && len(p) <= 80 {
			t.paths = append(t.paths, p)
		}
	}
	if len(t.hosts) == 0 || len(t.paths) == 0 {
		return nil, fmt.Errorf("reading real links: there is none in %s", path)
	}
	return t, nil
}

func plain(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' || strings.IndexByte(`",$`, s[i]) >= 0 {
			return false
		}
	}
	return true
}

// tracking holds the query strings of half of all links.
var tracking = []string{
	"?utm_source=newsletter&utm_medium=email",
	"?utm_source=x&utm_campaign=spring",
	"?ref=homepage",
	"?fbclid=IwAR0",
	"?lang=en&page=2",
}

// Append appends the target of link number n, which is unique unless hosts and paths end
// in a number.
func (t *Targets) Append(dst []byte, n uint64) []byte {
	start, random := len(dst), mix(n)
	pick := func(of int) int {
		hi, lo := bits.Mul64(random, uint64(of))
		random = lo
		return int(hi)
	}
	dst = append(dst, t.hosts[pick(len(t.hosts))]...)
	dst = append(dst, t.paths[pick(len(t.paths))]...)
	random = mix(random)
	for len(dst)-start < minPath {
		dst = append(dst, t.paths[pick(len(t.paths))]...)
		random = mix(random)
	}
	dst = append(dst, '/')
	dst = strconv.AppendUint(dst, n, 36)
	if pick(2) == 0 {
		dst = append(dst, tracking[pick(len(tracking))]...)
	}
	return dst
}

// minPath makes the mean of the whole 90 bytes.
const minPath = 61

// mix is the finaliser of SplitMix64 (Steele, Lea, Flood: Fast splittable
// pseudorandom number generators, 2014).
func mix(n uint64) uint64 {
	n += 0x9e3779b97f4a7c15
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	return n ^ n>>31
}
