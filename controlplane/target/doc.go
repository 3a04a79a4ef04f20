// Package target judges what a link may point at, and prepares the Location that
// a redirect answers.
//
// A target is accepted only when everyone reads it alike: RFC 3986, the WHATWG
// URL standard that browsers follow, and the person who looks at it. What one of
// them would read differently is refused, and never repaired. Location is the
// target as it was sent, made fit for a header: non-ASCII text and spaces are
// percent-encoded, an internationalised host is in punycode, and nothing else is
// altered.
//
// The package looks at the text alone. It resolves no names and fetches nothing,
// so a public name that leads to a private address is not noticed here; that is
// harmless to Waypost, which never follows a target itself.
package target
