package waypost

// Resolution is the answer of a record to a visitor. Edges and the control plane share
// it, so that they cannot disagree.
type Resolution struct {
	Status    int    // 301, 302, 307, 308, 404, 410, 451 or 503, or 200 if it asks; after Follow also 400 or 414
	Location  []byte // for the redirects; belongs to the record
	MaxAge    int64  // seconds for which a 301 or 308 may be kept; 0: no-store
	ExpiresAt int64  // as in the record; redirects of links only
	Flags     LinkFlags
	Link      bool // a link's redirect: a GET with this answer is a click
	Blocked   bool // an operator has blocked the code

	// Of links with a programme of rules.
	Rule      uint8  // id of the rule that matched; 0: none
	Variant   uint8  // id of the variant of its split; 0: none
	Keep      bool   // a cookie is to keep the variant
	Gated     bool   // nothing but the redirect itself may disclose the target
	Password  bool   // the visitor must give the link's password first
	Confirm   bool   // the visitor must say first that the link is to be followed
	Broken    bool   // the programme could not be read
	Budget    uint8  // mode of the click budget; 0: none
	Exhausted []byte // Location once the budget is used up; nil: none
}

// Asks reports whether the answer is a page with a form, behind which the link's redirect
// is.
func (r *Resolution) Asks() bool { return r.Password || r.Confirm }

// Redirects reports whether the answer is a redirect.
func (r *Resolution) Redirects() bool { return r.Status/100 == 3 }

// maxPermanentAge bounds how long a browser may keep a permanent redirect, in seconds, so
// that a changed target is seen within a day.
const maxPermanentAge = 24 * 60 * 60

// Resolve decides by a record without a programme, at now in Unix milliseconds; package
// rules decides for those with one. Expiry is checked
// here, at every read, even if neither the reaper nor the stream has noticed it. It does
// not allocate.
func Resolve(r *Record, now int64) Resolution {
	if !r.Kind.IsLink() || r.Flags&AliasOf != 0 {
		return Resolution{Status: 404}
	}
	if r.State != Live || r.ExpiresAt != 0 && now >= r.ExpiresAt {
		return Resolution{Status: 410, Flags: r.Flags}
	}
	res := Resolution{Status: int(r.Status), Location: r.Payload, ExpiresAt: r.ExpiresAt, Flags: r.Flags, Link: true}
	if r.Status == 301 || r.Status == 308 {
		res.MaxAge = maxPermanentAge
		if r.ExpiresAt != 0 {
			res.MaxAge = min(res.MaxAge, (r.ExpiresAt-now)/1000)
		}
	}
	return res
}

// Blocked is the resolution of a code that an operator has blocked: it comes before the
// record.
func Blocked(policy BlockPolicy) Resolution {
	return Resolution{Status: policy.Status(), Blocked: true}
}

// NotFound is the resolution of a code without a record.
var NotFound = Resolution{Status: 404}
