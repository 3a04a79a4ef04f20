package linkfile

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"waypost"
	"waypost/api"
	"waypost/rules"
)

// draft gathers the values of a row.
type draft struct {
	mapper *Mapper
	link   Link

	shortCode   string
	shortURL    string
	customURLs  []string
	clicks      int64
	inactive    bool // banned or disabled; archived links are hidden there, and work
	hasPassword bool

	ios, android string            // targets on these systems
	countries    map[string]string // targets by country
	parameters   map[string]string // of a dynamic link, and for the query of the target
	isPattern    bool              // the target has the visitor's path
	temporary    bool              // visitors are led to several targets, which no lasting redirect does
}

// noPassword is why a link of an export is not made without its password.
const noPassword = `the link has a password, which the file does not hold: give one as "password", or create the link by hand`

// finish makes a link of all values of a row.
func (d *draft) finish() (Link, error) {
	n := &d.link
	if d.hasPassword && n.Password == "" && n.PasswordHash == "" {
		return Link{}, errors.New(noPassword)
	}
	if err := d.finishCode(); err != nil {
		return Link{}, err
	}
	if d.inactive {
		n.Active = new(bool)
	}
	if n.MaxClicks > 0 && d.clicks > 0 {
		if n.MaxClicks <= d.clicks {
			return Link{}, fmt.Errorf("max_clicks %d are used up by %d clicks: leave the row out, or leave the column of clicks out of the mapping",
				n.MaxClicks, d.clicks)
		}
		n.MaxClicks -= d.clicks
	}
	return *n, d.finishTargets()
}

// finishCode chooses the code among the columns that may hold it. Custom short URLs are
// the printed ones, so that the code of another column becomes an alias.
func (d *draft) finishCode() error {
	n := &d.link
	if strings.Contains(n.CustomCode, "://") {
		_, n.CustomCode = splitShortURL(n.CustomCode)
	}
	domain, code := splitShortURL(d.shortURL)
	if d.shortURL != "" && code == "" {
		return fmt.Errorf("the short URL %.80q has no code", d.shortURL)
	}
	if n.CustomCode == "" {
		n.CustomCode = code
	}
	if n.Domain == "" {
		n.Domain = domain
	}
	if n.Domain != "" {
		n.Domain, _ = splitShortURL(n.Domain + "/")
	}
	if n.CustomCode == "" {
		n.CustomCode = d.shortCode
	}
	n.CustomCode = strings.TrimSpace(n.CustomCode)
	if d.isPattern {
		n.CustomCode += "/*"
	}
	for i, custom := range d.customURLs {
		domain, code := splitShortURL(custom)
		switch {
		case code == "":
			return fmt.Errorf("the short URL %.80q has no code", custom)
		case i == 0:
			domain, n.Domain = n.Domain, domain
			code, n.CustomCode = n.CustomCode, code
		}
		if code != "" && (code != n.CustomCode || domain != n.Domain) {
			n.Aliases = append(n.Aliases, api.NewAlias{ShortCode: code, Domain: domain})
		}
	}
	if !d.mapper.options.KeepCodes {
		n.Aliases = nil
		if !strings.ContainsAny(n.CustomCode, "*{") { // a pattern is no link without its code
			n.CustomCode = ""
		}
	}
	if n.Domain == "" {
		n.Domain = d.mapper.options.Domain
	}
	for i := range n.Aliases {
		if n.Aliases[i].Domain == "" {
			n.Aliases[i].Domain = n.Domain
		}
	}
	return nil
}

// splitShortURL divides a short URL, with or without its scheme, into the domain and the
// code. The host of a service is no domain, because its links move to another host.
func splitShortURL(s string) (domain, code string) {
	s = strings.TrimSpace(s)
	if i := strings.Index(s, "://"); i >= 0 {
		s = s[i+len("://"):]
	}
	host, path, found := strings.Cut(s, "/")
	if !found {
		return "", host // a code alone
	}
	path, _, _ = strings.Cut(path, "?")
	path, _, _ = strings.Cut(path, "#")
	if plain, err := url.PathUnescape(path); err == nil {
		path = plain
	}
	if domain = waypost.HostName(host); isSharedHost(domain) {
		domain = ""
	}
	return domain, strings.TrimSuffix(path, "/")
}

// isSharedHost reports whether a host belongs to a service and not to its customers.
func isSharedHost(host string) bool {
	return host != "" && (slices.Contains(sharedHosts, host) || strings.HasSuffix(host, ".page.link") || strings.HasSuffix(host, ".short.gy"))
}

func setHasPassword(d *draft, v value) (err error) {
	if isHash(v.text) {
		return setPasswordHash(d, v)
	}
	d.hasPassword, err = readBool("has_password", v.text)
	return err
}

// hashForm matches hashes of passwords: $2b$10$…, {SSHA}…, pbkdf2:sha256:600000$….
var hashForm = regexp.MustCompile(`^(\$[0-9a-z-]+\$|\{[A-Z0-9-]{3,}\}|(argon2|bcrypt|md5|pbkdf2|scrypt|sha[0-9]+)[a-z0-9_:]*\$)`)

// isHash reports whether a text is written as a hash of a password, or cut off from one.
func isHash(s string) bool { return hashForm.MatchString(strings.TrimSpace(s)) }

func setPassword(d *draft, v value) error {
	if isHash(v.text) {
		return setPasswordHash(d, v)
	}
	d.link.Password = v.text
	return nil
}

// setPasswordHash keeps a hash that edges can compute. Other hashes are refused, because
// the link would be public.
func setPasswordHash(d *draft, v value) error {
	if d.link.PasswordHash = strings.TrimSpace(v.text); d.link.PasswordHash == "" {
		return nil
	}
	_, err := rules.ParsePasswordHash(d.link.PasswordHash)
	return err
}
