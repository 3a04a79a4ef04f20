package target

import (
	"crypto/sha256"
	"slices"
	"strings"
)

// Normal gives the form by which two targets count as the same one: scheme and host in
// lower case, without the scheme's own port, without slashes at the end of the path,
// query parameters in the order of their names, without those that only track visitors.
// Everything else is as in Location: a browser may be shown another page for it, and so
// the order of parameters of one name stays, and the fragment.
//
// It is for comparison alone: nobody is ever sent to it. The normal form of a normal
// form is itself.
func (t Target) Normal() string {
	scheme, rest, _ := strings.Cut(t.Location, "://")
	scheme = strings.ToLower(scheme)
	rest, fragment, hasFragment := strings.Cut(rest, "#")
	rest, query, _ := strings.Cut(rest, "?")
	host, path, _ := strings.Cut(rest, "/")

	var b strings.Builder
	b.Grow(len(t.Location))
	b.WriteString(scheme)
	b.WriteString("://")
	b.WriteString(withoutPort(strings.ToLower(host), scheme))
	if path = strings.TrimRight(path, "/"); path != "" {
		b.WriteByte('/')
		b.WriteString(path)
	}
	separator := byte('?')
	for _, p := range parameters(query) {
		b.WriteByte(separator)
		b.WriteString(p)
		separator = '&'
	}
	if hasFragment {
		b.WriteByte('#')
		b.WriteString(fragment)
	}
	return b.String()
}

// Sum is the SHA-256 of the normal form.
func (t Target) Sum() [32]byte { return sha256.Sum256([]byte(t.Normal())) }

// withoutPort drops the port that the scheme means anyway, however many zeros stand
// before it, and an empty one.
func withoutPort(host, scheme string) string {
	colon := strings.LastIndexByte(host, ':')
	if colon < 0 || strings.IndexByte(host[colon:], ']') >= 0 {
		return host
	}
	usual := "80"
	if scheme == "https" {
		usual = "443"
	}
	switch port := strings.TrimLeft(host[colon+1:], "0"); port {
	case "", usual:
		return host[:colon]
	default:
		return host[:colon+1] + port
	}
}

// parameters gives what a query has between its ampersands, sorted by name, without
// what is empty and what only tracks.
func parameters(query string) []string {
	if query == "" {
		return nil
	}
	all := strings.Split(query, "&")
	all = slices.DeleteFunc(all, func(p string) bool { return p == "" || tracking(nameOf(p)) })
	slices.SortStableFunc(all, func(a, b string) int { return strings.Compare(nameOf(a), nameOf(b)) })
	return all
}

func nameOf(parameter string) string {
	name, _, _ := strings.Cut(parameter, "=")
	return name
}

// trackers are parameters that tell where a visitor came from, and by the word of those
// who add them nothing else. Those of campaigns (utm_…, and the like) are known by how
// they begin.
var trackers = map[string]bool{
	"_ga": true, "_gl": true, "_hsenc": true, "_hsmi": true, "_openstat": true, "dclid": true, "epik": true,
	"fb_action_ids": true, "fb_action_types": true, "fb_source": true, "fbclid": true, "gad_source": true,
	"gbraid": true, "gclid": true, "gclsrc": true, "igsh": true, "igshid": true, "li_fat_id": true, "mc_cid": true,
	"mc_eid": true, "mkt_tok": true, "msclkid": true, "oly_anon_id": true, "oly_enc_id": true, "rdt_cid": true,
	"s_kwcid": true, "sccid": true, "srsltid": true, "ttclid": true, "twclid": true, "vero_conv": true,
	"vero_id": true, "wbraid": true, "wickedid": true, "yclid": true, "ysclid": true,
}

func tracking(name string) bool {
	return strings.HasPrefix(name, "utm_") || strings.HasPrefix(name, "hsa_") || strings.HasPrefix(name, "mtm_") ||
		strings.HasPrefix(name, "pk_") || trackers[name]
}
