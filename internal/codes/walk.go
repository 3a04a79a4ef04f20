package codes

import (
	"bytes"
	"unicode/utf8"

	"waypost"
	"waypost/internal/patterns"
)

// Index has the links and the blocks of one domain.
type Index interface {
	// Policy returns the policy with which a code is blocked, 0 for a code that is not.
	// Folded says that code is in its form without case, and stands for all its forms.
	Policy(code []byte, folded bool) (waypost.BlockPolicy, error)

	// Record returns the record of a key, nil for a key without a link. It is good until
	// the next call.
	Record(key []byte) (*waypost.Record, error)

	// Patterns returns the patterns, nil if there are none. It is asked if the path has no
	// link of its own.
	Patterns() (*patterns.Index, error)
}

// Match says how the path of a visit names the code that was found.
type Match string

const (
	Exact     Match = "exact"     // the path is the code
	Trimmed   Match = "trimmed"   // the path has a slash or punctuation behind the code
	Forwarded Match = "forwarded" // the rest of the path goes to the target
	Pattern   Match = "pattern"   // the path fits the pattern
)

// Found is the end of a walk. Without a record and without a policy, nothing was found.
type Found struct {
	Record *waypost.Record
	Policy waypost.BlockPolicy // the code is blocked; there is no record then
	Match  Match
}

// Walk tries the codes that a visitor may mean, the longest first: the whole path, the
// path without a slash and punctuation at its end, and the path without its last
// segments, one after another, for links to which the rest of the path is forwarded. The
// best pattern that fits the path comes between these: see [patterns.Match.Precedes].
//
// It does not allocate once it has its buffer. The zero Walk is ready. A visit refers to
// the Walk until the next Find.
type Walk struct {
	path []byte // as it was sent, without its first slash
	text []byte // path, decoded and in its normal form, without the plus sign of a preview
	end  int    // of the next code in text; 0: there is no next code
	bare int    // the end of text without the slash and the punctuation; 0: they stay

	segments int  // of the next code
	complete bool // text is all of path
	preview  bool // the path asks for a preview
	plain    bool // the visit has its only code already
	match    Match
	cuts     [waypost.MaxCodeSegments + 1]uint16 // where the segments of path end
	buf      []byte
	fits     *patterns.Match // for a domain with patterns; nil: there was none yet

	keys [2][]byte // of the present code

	// On a domain that looks for them: the longest code in its form without case, the
	// length of its beginning that is a code too, and the ends of the present code and of
	// the next one in it.
	folded                       []byte
	valid, presentEnd, foldedEnd int
}

// Find moves a visit to the first of its codes that is blocked or that has a link for the
// visit. Only links with forwarded paths have addresses below their code.
func (w *Walk) Find(v *waypost.Visit, traits waypost.DomainTraits, in Index) (Found, error) {
	w.start(v, traits)
	more := w.next(v)
	for ; more && w.match != Forwarded; more = w.next(v) {
		if found, err := w.try(v, traits, in); err != nil || found.decides() {
			return found, err
		}
	}
	fits, err := w.fit(v, traits, in)
	if err != nil {
		return Found{}, err
	}
	for ; more && (!fits || !w.fits.Precedes(bytes.Count(v.Code, []byte("/"))+1)); more = w.next(v) {
		if found, err := w.try(v, traits, in); err != nil || found.decides() {
			return found, err
		}
	}
	if !fits {
		return Found{}, nil
	}
	w.match = Pattern
	w.fits.Lead(v)
	w.fold(v.Code, traits)
	w.presentEnd = w.foldedEnd
	return w.try(v, traits, in)
}

func (f *Found) decides() bool { return f.Record != nil || f.Policy != 0 }

// try looks the code of a visit up.
func (w *Walk) try(v *waypost.Visit, traits waypost.DomainTraits, in Index) (Found, error) {
	keys, folded := w.keysOf(v.Code, traits)
	if folded != nil {
		v.Code = folded
	}
	policy, err := in.Policy(v.Code, folded != nil)
	if policy != 0 || err != nil {
		return Found{Policy: policy, Match: w.match}, err
	}
	for _, key := range keys {
		r, err := in.Record(key)
		if err != nil {
			return Found{}, err
		}
		if r != nil && w.leads(v, r) {
			v.Code = key
			return Found{Record: r, Match: w.match}, nil
		}
	}
	return Found{}, nil
}

// fit looks for the pattern of a visit, and reports whether there is one. While a domain
// is being switched, its patterns have either form.
func (w *Walk) fit(v *waypost.Visit, traits waypost.DomainTraits, in Index) (bool, error) {
	x, err := in.Patterns()
	if x == nil || err != nil {
		return false, err
	}
	if w.fits == nil {
		w.fits = new(patterns.Match)
	}
	return traits&(waypost.IgnoresCase|waypost.CaseSwitching) != 0 && w.fits.Find(x, v, AppendFoldedSegment) ||
		traits&(waypost.IgnoresCase|waypost.CaseSwitching) != waypost.IgnoresCase && w.fits.Find(x, v, AppendSegment), nil
}

// keysOf returns the keys that the link of a code may have, and its form without case if
// the domain looks for that. While a domain is being switched, a link moves to the last
// of its keys, so that one of the look-ups finds it.
func (w *Walk) keysOf(code []byte, traits waypost.DomainTraits) (keys [][]byte, folded []byte) {
	w.keys[0] = code
	if traits&(waypost.IgnoresCase|waypost.CaseSwitching) == 0 {
		return w.keys[:1], nil
	}
	folded = w.folded[:w.presentEnd]
	if len(folded) > w.valid && !waypost.ValidCode(folded) {
		folded = code
	}
	switch {
	case traits&waypost.CaseSwitching == 0 || bytes.Equal(code, folded):
		w.keys[0] = folded
		return w.keys[:1], folded
	case traits&waypost.IgnoresCase == 0:
		w.keys[0], w.keys[1] = folded, code
	default:
		w.keys[1] = folded
	}
	return w.keys[:], folded
}

// fold folds the longest code of a visit. The other codes begin it, and end before an
// ASCII character, so that their forms without case begin its form.
func (w *Walk) fold(code []byte, traits waypost.DomainTraits) {
	w.foldedEnd = 0
	if traits&(waypost.IgnoresCase|waypost.CaseSwitching) == 0 {
		return
	}
	var valid bool
	w.folded, valid = appendFolded(w.folded[:0], code)
	w.foldedEnd, w.valid = len(w.folded), len(w.folded)
	if !valid {
		w.valid, _ = waypost.CheckCode(w.folded)
	}
}

// start begins the walk of a visit.
func (w *Walk) start(v *waypost.Visit, traits waypost.DomainTraits) {
	w.match = Exact
	longest := v.Code
	if w.plain = v.Rest == nil && waypost.PlainCode(v.Code); !w.plain {
		w.read(v.Path, traits)
		longest = w.text[:w.end]
	}
	w.fold(longest, traits)
}

// next moves a visit to its next code. It returns false after the last one.
func (w *Walk) next(v *waypost.Visit) bool {
	w.presentEnd = w.foldedEnd
	if w.plain {
		w.plain = false
		w.end = 0
		return true
	}
	if w.end == 0 {
		return false
	}
	v.Code, v.Rest, v.Preview = w.text[:w.end], nil, w.preview
	switch {
	case w.complete && w.end == len(w.text):
		w.match = Exact
	case w.bare > 0 && w.end >= w.bare:
		w.match = Trimmed
	default:
		w.match = Forwarded
	}
	if w.match != Exact && (w.end == len(w.text) || w.text[w.end] == '/') {
		v.Rest, v.Preview = w.path[w.cuts[w.segments-1]:], false
	}
	slash := -1
	if w.segments > 1 {
		slash = bytes.LastIndexByte(v.Code, '/')
	}
	if w.bare > 0 && w.end > w.bare && slash < w.bare { // a dot is the only punctuation of codes
		shorter := min(w.end-1, w.bare+maxDots)
		w.foldedEnd, w.end = max(w.foldedEnd-(w.end-shorter), 0), shorter
	} else {
		w.foldedEnd = max(bytes.LastIndexByte(w.folded[:w.foldedEnd], '/'), 0)
		w.end = max(slash, 0)
		w.segments--
	}
	return true
}

// leads reports whether a visit is a visit of the record that was found for its code.
func (w *Walk) leads(v *waypost.Visit, r *waypost.Record) bool {
	switch {
	case v.Rest == nil:
	case r.Flags&waypost.ForwardPath != 0:
		w.match = Forwarded
	case w.match == Trimmed:
		v.Rest, v.Preview = nil, w.preview
	default:
		return false
	}
	return true
}

// read decodes a path, and finds the longest code that may be meant.
func (w *Walk) read(path []byte, traits waypost.DomainTraits) {
	if w.buf == nil {
		w.buf = make([]byte, 0, 2*maxDecoded)
	}
	w.path = path
	path = bytes.TrimSuffix(path, []byte("+"))
	w.preview = len(path) < len(w.path)
	text, complete := w.decode(path)
	text = normalise(text)
	bare, asks := len(text), false
	if complete && traits&waypost.ExactPaths == 0 {
		bare, asks = trim(text)
	}
	end, fault := waypost.CheckCode(text[:bare])
	w.bare = 0
	if bare < len(text) && fault.Reason == "" {
		w.bare, w.preview = bare, w.preview || asks
		for end < min(len(text), waypost.MaxCodeLength) && text[end] == '.' {
			end++
		}
		if end < len(text) {
			end = min(end, bare+maxDots)
		}
	}
	w.text, w.end, w.complete = text, end, complete && fault.Reason == "" && end == len(text)
	w.segments = bytes.Count(text[:end], []byte("/")) + 1
}

// maxTrimmed bounds the slashes and the punctuation behind a code, and maxDots the dots
// of a code that is asked for with further punctuation: an ellipsis.
const (
	maxTrimmed = 8
	maxDots    = 3
)

// trim returns the length of a text without a slash and punctuation at its end, and
// whether a plus sign is in front of them. It keeps segments of three dots and more,
// because those can be in a code.
func trim(text []byte) (bare int, asks bool) {
	bare = len(text)
	for range maxTrimmed {
		size := trailing(text[:bare])
		if size == 0 {
			break
		}
		bare -= size
	}
	switch {
	case bare == 0, bare == len(text), trailing(text[:bare]) > 0, bytes.Contains(text[bare:], []byte("/...")):
		return len(text), false
	case text[bare-1] == '+':
		return bare - 1, true
	}
	return bare, false
}

// Bare returns a path that is decoded without the slash and the punctuation at its end.
func Bare(text []byte) []byte {
	bare, _ := trim(text)
	return text[:bare]
}

// trailing returns the length of a slash or of a punctuation mark at the end of a text, 0
// without one. The texts around short URLs leave them there.
func trailing(text []byte) int {
	n := len(text)
	switch {
	case n == 0:
	case punctuation[text[n-1]] || text[n-1] == '/':
		return 1
	case n >= len("%00"):
		if c, ok := waypost.Unescape(text[n-len("%00"):]); ok && punctuation[c] {
			return len("%00")
		}
	}
	return 0
}

var punctuation = func() (t [256]bool) {
	for _, c := range []byte(".,;:!)]'\">") {
		t[c] = true
	}
	return t
}()

// decode decodes a path into the buffer, and stores where its segments end. Of a path
// longer than any address of a code, it decodes whole segments, as many as a code has.
func (w *Walk) decode(path []byte) (text []byte, complete bool) {
	slashes := 0
	text = w.buf[:0]
	for i := 0; i < len(path); i++ {
		c := path[i]
		switch c {
		case '/':
			if slashes == len(w.cuts) {
				return text, false
			}
			w.cuts[slashes] = uint16(i)
			slashes++
		case '%':
			if d, ok := unescape(path[i:]); ok {
				c = d
				i += len("%00") - 1
			}
		}
		if len(text) == maxDecoded+maxTrimmed*len("%00") {
			return text[:max(bytes.LastIndexByte(text, '/'), 0)], false
		}
		text = append(text, c)
	}
	return text, true
}

// AppendSegment decodes one segment of a path as a Walk does, and returns its normal
// form. If the segment is not its own, the form is appended to buf, which is returned
// grown. A segment that is too long for a code becomes nil.
func AppendSegment(buf, sent []byte) (segment, grown []byte) {
	if waypost.PlainCode(sent) {
		return sent, buf
	}
	begin := len(buf)
	for i := 0; i < len(sent) && len(buf)-begin <= maxDecoded; i++ {
		c := sent[i]
		if c == '%' {
			if d, ok := unescape(sent[i:]); ok {
				c = d
				i += len("%00") - 1
			}
		}
		buf = append(buf, c)
	}
	if n := len(buf) - begin; n == 0 || n > maxDecoded {
		return nil, buf[:begin]
	}
	segment = normalise(buf[begin:])
	return segment, append(buf[:begin], segment...)
}

// AppendFoldedSegment does the same on a domain that ignores case.
func AppendFoldedSegment(buf, sent []byte) (segment, grown []byte) {
	segment, buf = AppendSegment(buf, sent)
	if segment == nil {
		return nil, buf
	}
	begin := len(buf)
	buf = AppendFold(buf, segment)
	return buf[begin:], buf
}

// unescape returns the byte for an escape at the beginning of b, if it has no meaning
// other than the byte itself: unreserved characters (RFC 3986, 2.3), and bytes of UTF-8.
func unescape(b []byte) (c byte, ok bool) {
	c, ok = waypost.Unescape(b)
	return c, ok && (c >= utf8.RuneSelf || c == '.' || c == '~' || waypost.PlainCode([]byte{c}))
}
