package rules

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"waypost"
	"waypost/rules/agents"
)

// The modes of a click budget in a programme, and in [waypost.Resolution].
const (
	BudgetEventual = 1
	BudgetExact    = 2
)

// MaxClicks bounds a click budget.
const MaxClicks = 1_000_000_000_000

// Compiling configures Compile.
type Compiling struct {
	// Target checks a target, and returns it as it is stored and as the Location of a
	// redirect.
	Target func(url string) (original, location string, err error)
	// Template does the same for the targets of rules and splits; nil: Target does.
	Template func(url string) (original, location string, err error)
	// Status is the status of the link's redirects.
	Status int
	// Key is the key of the link's splits: [SplitKey] of the programme before, or random.
	Key [keySize]byte
	// Password is the verifier of the link's password: [PasswordOf] the programme before,
	// or a new one. Nil: the link has no password.
	Password *Password
	// Now decides for which years the offsets of time zones are compiled in.
	Now time.Time
}

// Compile makes the programme of a source, nil for a source that says nothing of a link
// without a password. It fills in the ids that the source leaves out, and targets as they
// are stored. Errors: EInvalid and the errors of Target, with the place of the fault.
func Compile(s *Source, with *Compiling) ([]byte, error) {
	if s.IsZero() && s.MaxClicksMode == "" && with.Password == nil {
		return nil, nil
	}
	c := compiler{Compiling: with, index: map[string]byte{}}
	if err := c.compile(s); err != nil {
		return nil, err
	}
	b := c.assemble()
	if err := Check(b); err != nil {
		return nil, fmt.Errorf("the compiler made a bad programme: %w", err)
	}
	return b, nil
}

// SplitKey returns the key of the splits of a programme; false if it has none.
func SplitKey(b []byte) (key [keySize]byte, ok bool) {
	var p programme
	if !p.parse(b) || p.key == nil {
		return key, false
	}
	return [keySize]byte(p.key), true
}

type compiler struct {
	*Compiling

	gates     byte
	required  FactSet
	budget    byte
	rules     int
	validFrom int64
	expired   byte
	exhausted byte
	cookie    bool // there is a split by cookie
	logic     []byte
	locations []string
	index     map[string]byte // of locations
}

func invalid(where, format string, args ...any) error {
	return waypost.Errorf(waypost.EInvalid, "%s: %s", where, fmt.Sprintf(format, args...))
}

// quoted shows text that a client sent.
func quoted(text string) string {
	const most = 60
	if len(text) > most {
		text = text[:most] + "…"
	}
	return strconv.QuoteToGraphic(text)
}

func (c *compiler) compile(s *Source) error {
	if err := c.compileGates(s); err != nil {
		return err
	}
	if len(s.Rules) > MaxRules {
		return invalid("rules", "at most %d rules", MaxRules)
	}
	if (len(s.Rules) > 0 || s.MaxClicks != 0 || s.Confirm || c.Password != nil) && (c.Status == 301 || c.Status == 308) {
		return waypost.Errorf(waypost.EInvalid, "redirect_status must be 302 or 307 for a link with rules, max_clicks, confirm or a password: "+
			"browsers keep the others, and would not ask again")
	}
	if err := s.number(); err != nil {
		return err
	}
	for i := range s.Rules {
		if err := c.rule(&s.Rules[i], "rules["+strconv.Itoa(i)+"]"); err != nil {
			return err
		}
	}
	c.rules = len(s.Rules)
	targets := 0
	for _, l := range c.locations {
		targets += len(l)
	}
	switch {
	case len(c.locations) > MaxTargets+2:
		return invalid("rules", "at most %d different targets", MaxTargets)
	case targets > MaxTargetText:
		return invalid("rules", "the targets have more than %d bytes together", MaxTargetText)
	case headSize+passwordSize+keySize+10+len(c.logic) > MaxLogic:
		return invalid("rules", "the rules take more than %d bytes: use fewer or shorter ones", MaxLogic)
	}
	return nil
}

func (c *compiler) compileGates(s *Source) (err error) {
	if c.Password != nil {
		c.gates |= gatePassword
		c.required |= FactCookie | FactTime
	}
	if s.Confirm {
		c.gates |= gateConfirm
	}
	if !s.ValidFrom.IsZero() {
		if err := checkTime("valid_from", s.ValidFrom); err != nil {
			return err
		}
		s.ValidFrom = s.ValidFrom.UTC().Truncate(time.Millisecond)
		c.gates |= gateValidFrom
		c.required |= FactTime
		c.validFrom = s.ValidFrom.UnixMilli()
	}
	if s.ExpiredURL != "" {
		c.gates |= gateExpired
		if c.expired, err = c.target(&s.ExpiredURL, "expired_url", c.Target); err != nil {
			return err
		}
	}
	if s.MaxClicks < 0 || s.MaxClicks > MaxClicks {
		return invalid("max_clicks", "must be between 1 and %d", int64(MaxClicks))
	}
	if s.MaxClicks != 0 {
		s.MaxClicksMode = cmp.Or(s.MaxClicksMode, ModeEventual)
		c.budget = byte(1 + slices.Index([]string{ModeEventual, ModeExact}, s.MaxClicksMode))
		if c.budget == 0 {
			return invalid("max_clicks_mode", "%.40q is no mode; the modes are %s and %s", s.MaxClicksMode, ModeExact, ModeEventual)
		}
	} else if s.MaxClicksMode != "" || s.ExhaustedURL != "" {
		return waypost.Errorf(waypost.EInvalid, "max_clicks_mode and exhausted_url need max_clicks")
	}
	if s.ExhaustedURL != "" {
		c.gates |= gateExhausted
		c.exhausted, err = c.target(&s.ExhaustedURL, "exhausted_url", c.Target)
	}
	return err
}

func checkTime(where string, t time.Time) error {
	if year := t.UTC().Year(); year < 1970 || year > 9999 {
		return invalid(where, "must be between the years 1970 and 9999")
	}
	return nil
}

// ruleTarget returns the index of a target of a rule or a split, and writes it as it is
// stored.
func (c *compiler) ruleTarget(url *string, where string) (byte, error) {
	if c.Template == nil {
		return c.target(url, where, c.Target)
	}
	return c.target(url, where, c.Template)
}

// target does the same for a target that a function checks.
func (c *compiler) target(url *string, where string, check func(string) (original, location string, err error)) (byte, error) {
	original, location, err := check(*url)
	if err != nil {
		return 0, waypost.Errorf(waypost.CodeOf(err), "%s: %s", where, waypost.MessageOf(err))
	}
	*url = original
	i, known := c.index[location]
	if !known {
		if len(c.locations) == MaxTargets+2 {
			return 0, invalid("rules", "at most %d different targets", MaxTargets)
		}
		i = byte(len(c.locations))
		c.locations = append(c.locations, location)
		c.index[location] = i
	}
	return i, nil
}

func (c *compiler) rule(r *Rule, where string) error {
	if err := checkName(r.Name, where); err != nil {
		return err
	}
	if len(r.When) > MaxConditions {
		return invalid(where+".when", "at most %d conditions", MaxConditions)
	}
	start := len(c.logic)
	c.logic = append(c.logic, 0, 0, byte(r.ID), byte(len(r.When)))
	for i := range r.When {
		if err := c.condition(&r.When[i], where+".when["+strconv.Itoa(i)+"]"); err != nil {
			return err
		}
	}
	if err := c.action(r, where); err != nil {
		return err
	}
	size := len(c.logic) - start
	if size > math.MaxUint16 {
		return invalid(where, "the rule is too long")
	}
	binary.LittleEndian.PutUint16(c.logic[start:], uint16(size))
	return nil
}

func checkName(name, where string) error {
	if len(name) > maxName || !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return invalid(where+".name", "must be at most %d bytes of UTF-8 without control characters", maxName)
	}
	return nil
}

func (c *compiler) action(r *Rule, where string) error {
	given := 0
	for _, is := range []bool{r.To != "", r.Split != nil, r.Status != 0} {
		if is {
			given++
		}
	}
	if given != 1 {
		return invalid(where, "give exactly one of to, split and status")
	}
	switch {
	case r.To != "":
		i, err := c.ruleTarget(&r.To, where+".to")
		c.logic = append(c.logic, actionTarget, i)
		return err
	case r.Status != 0:
		if r.Status != 404 && r.Status != 410 {
			return invalid(where+".status", "must be 404 or 410")
		}
		c.logic = append(c.logic, actionStatus)
		c.logic = binary.LittleEndian.AppendUint16(c.logic, uint16(r.Status))
		return nil
	}
	return c.split(r.Split, where+".split")
}

func (c *compiler) split(s *Split, where string) error {
	if len(s.Variants) < MinVariants || len(s.Variants) > MaxVariants {
		return invalid(where+".variants", "between %d and %d variants", MinVariants, MaxVariants)
	}
	subject := byte(subjectVisitor)
	switch s.By {
	case "", ByVisitor:
		s.By = ByVisitor
		c.required |= FactVisitor
	case ByCookie:
		subject = subjectCookie
		if c.cookie {
			return invalid(where+".by", "at most one split of a link can be by cookie, because its cookie holds one variant")
		}
		c.cookie = true
		c.required |= FactCookie | FactChance
	case ByNone:
		subject = subjectNone
		c.required |= FactChance
	default:
		return invalid(where+".by", "must be %s, %s or %s", ByVisitor, ByCookie, ByNone)
	}
	total := 0
	for i := range s.Variants {
		v := &s.Variants[i]
		if v.Weight < 0 || v.Weight > maxWeight {
			return invalid(where+".variants["+strconv.Itoa(i)+"].weight", "must be between 0 and %d", maxWeight)
		}
		total += v.Weight
	}
	if total == 0 {
		return invalid(where+".variants", "at least one weight must be above 0")
	}
	count := len(c.logic) + 2
	c.logic = append(c.logic, actionSplit, subject, 0)
	sum, last := 0, -1
	for i := range s.Variants {
		v, at := &s.Variants[i], where+".variants["+strconv.Itoa(i)+"]"
		if err := checkName(v.Name, at); err != nil {
			return err
		}
		target, err := c.ruleTarget(&v.To, at+".to")
		if err != nil {
			return err
		}
		sum += v.Weight
		// The share of a variant, rounded; one that rounds to nothing is left out like one
		// of weight 0.
		end := (sum*splitRange+total/2)/total - 1
		if end <= last {
			continue
		}
		last = end
		c.logic = binary.LittleEndian.AppendUint16(c.logic, uint16(end))
		c.logic = append(c.logic, byte(v.ID), target)
		c.logic[count]++
	}
	return nil
}

// condition appends a condition.
func (c *compiler) condition(when *Condition, where string) error {
	op, operand, err := c.operand(when, where)
	if err != nil {
		return err
	}
	c.required |= factsOf[op]
	if when.Not {
		op |= negation
	}
	c.logic = append(c.logic, op)
	c.logic = binary.LittleEndian.AppendUint16(c.logic, uint16(len(operand)))
	c.logic = append(c.logic, operand...)
	return nil
}

func (c *compiler) operand(when *Condition, where string) (op byte, operand []byte, err error) {
	given := 0
	for _, kind := range []struct {
		is    bool
		op    byte
		bytes func() ([]byte, error)
	}{
		{len(when.Agent) > 0, opAgent, func() ([]byte, error) { return agentOperand(when.Agent, where+".agent") }},
		{len(when.Country) > 0, opCountry, func() ([]byte, error) { return countryOperand(when.Country, where+".country") }},
		{len(when.City) > 0, opCity, func() ([]byte, error) { return cityOperand(when.City, where+".city") }},
		{len(when.Language) > 0, opLanguage, func() ([]byte, error) { return languageOperand(when.Language, where+".language") }},
		{len(when.Address) > 0, opAddress, func() ([]byte, error) { return addressOperand(when.Address, where+".address") }},
		{when.Query != nil, opQuery, func() ([]byte, error) { return queryOperand(when.Query, where+".query") }},
		{!when.From.IsZero() || !when.Until.IsZero(), opTime, func() ([]byte, error) { return timeOperand(when, where) }},
		{when.Week != nil, opWeek, func() ([]byte, error) {
			c.gates |= scheduled
			if n := len(when.Week.Hours); n == 0 || n > maxList {
				return nil, invalid(where+".week.hours", "between 1 and %d", maxList)
			}
			return appendWeek(nil, when.Week, c.Now, where+".week")
		}},
	} {
		if !kind.is {
			continue
		}
		if given++; given > 1 {
			break
		}
		op = kind.op
		if operand, err = kind.bytes(); err != nil {
			return 0, nil, err
		}
	}
	if given != 1 {
		return 0, nil, invalid(where, "give exactly one of agent, country, city, language, address, query, from and until, and week")
	}
	return op, operand, nil
}

func agentOperand(names []string, where string) ([]byte, error) {
	var set agents.Set
	for i, name := range names {
		one, ok := agents.Named(name)
		if !ok {
			return nil, invalid(where+"["+strconv.Itoa(i)+"]", "%s is none of %s", quoted(name), strings.Join(agents.Set(math.MaxUint32).Names(), ", "))
		}
		set |= one
	}
	return binary.LittleEndian.AppendUint32(nil, uint32(set)), nil
}

func countryOperand(codes []string, where string) ([]byte, error) {
	set := make([]byte, countryBytes)
	if len(codes) > maxCountries {
		return nil, invalid(where, "at most %d", maxCountries)
	}
	for i, code := range codes {
		if fault := CountryFault(code); fault != "" {
			return nil, invalid(where+"["+strconv.Itoa(i)+"]", "%s", fault)
		}
		n, _ := countryIndex([2]byte{code[0], code[1]})
		set[n/8] |= 1 << (n % 8)
	}
	return set, nil
}

func cityOperand(names []string, where string) (b []byte, err error) {
	if len(names) > maxList {
		return nil, invalid(where, "at most %d", maxList)
	}
	for i, name := range names {
		if name == "" || !waypost.ValidClickName(name) {
			return nil, invalid(where+"["+strconv.Itoa(i)+"]", "must be 1 to %d bytes of UTF-8 without control characters", waypost.MaxClickName)
		}
		name = strings.ToLower(norm.NFC.String(name))
		if len(name) > math.MaxUint8 {
			return nil, invalid(where+"["+strconv.Itoa(i)+"]", "is too long in lower case")
		}
		b = append(append(b, byte(len(name))), name...)
	}
	return b, nil
}

func languageOperand(tags []string, where string) (b []byte, err error) {
	if len(tags) > maxList {
		return nil, invalid(where, "at most %d", maxList)
	}
	for i, tag := range tags {
		l, ok := ParseLanguage(tag)
		if !ok {
			return nil, invalid(where+"["+strconv.Itoa(i)+"]", "%s is no language, such as de, pt-BR or zh-Hant", quoted(tag))
		}
		b = append(append(append(b, l.Primary[:]...), l.Script[:]...), l.Region[:]...)
	}
	return b, nil
}

func addressOperand(texts []string, where string) (b []byte, err error) {
	if len(texts) > maxList {
		return nil, invalid(where, "at most %d", maxList)
	}
	for i, text := range texts {
		if prefix, err := netip.ParsePrefix(text); err == nil && prefix.Bits() < 96 && prefix.Contains(mappedAddr) {
			return nil, invalid(where+"["+strconv.Itoa(i)+"]", "%s has all IPv4 addresses in it: all visitors over IPv6 are in 2000::/3, "+
				"and those over IPv4 in 0.0.0.0/0", quoted(text))
		}
		mask, value, ok := networkOf(text)
		if !ok {
			return nil, invalid(where+"["+strconv.Itoa(i)+"]", "%s is no address, network such as 192.0.2.0/24, or pattern such as 10.0.*.1", quoted(text))
		}
		b = append(append(b, mask[:]...), value[:]...)
	}
	return b, nil
}

// mappedAddr is one of the IPv6 addresses that stand for addresses of IPv4.
var mappedAddr = netip.AddrFrom16([16]byte{10: 0xff, 11: 0xff})

// networkOf reads an address, a network or an IPv4 address with stars, as a mask and a
// value of addresses in 16 bytes.
func networkOf(text string) (mask, value [16]byte, ok bool) {
	for i := range 12 {
		mask[i] = 0xff // of an IPv4 address, which lies below ::ffff:0:0/96
	}
	if strings.Contains(text, "*") {
		parts := strings.Split(text, ".")
		if len(parts) != 4 {
			return mask, value, false
		}
		value[10], value[11] = 0xff, 0xff
		for i, part := range parts {
			if part == "*" {
				continue
			}
			n, err := strconv.ParseUint(part, 10, 8)
			if err != nil || len(part) > 1 && part[0] == '0' {
				return mask, value, false
			}
			mask[12+i], value[12+i] = 0xff, byte(n)
		}
		return mask, value, true
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		addr, err := netip.ParseAddr(text)
		if err != nil || addr.Zone() != "" {
			return mask, value, false
		}
		addr = addr.Unmap()
		prefix = netip.PrefixFrom(addr, addr.BitLen())
	}
	if prefix.Addr().Is4In6() {
		return mask, value, false
	}
	bits := prefix.Bits()
	if prefix.Addr().Is4() {
		bits += 96
	}
	value = prefix.Masked().Addr().As16()
	for i := range mask {
		mask[i] = byte(0xff << (8 - min(max(bits-8*i, 0), 8)))
	}
	return mask, value, true
}

func queryOperand(q *Parameter, where string) ([]byte, error) {
	text := ""
	mode := byte(queryAny)
	switch {
	case q.Equals != nil && q.Empty:
		return nil, invalid(where, "give at most one of equals and empty")
	case q.Equals != nil:
		mode, text = queryEquals, *q.Equals
	case q.Empty:
		mode = queryEmpty
	}
	if q.Key == "" || len(q.Key) > maxQueryKey {
		return nil, invalid(where+".key", "must be 1 to %d bytes", maxQueryKey)
	}
	if len(text) > maxQueryText {
		return nil, invalid(where+".equals", "must be at most %d bytes", maxQueryText)
	}
	for _, s := range []string{q.Key, text} {
		if !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
			return nil, invalid(where, "must be UTF-8 without NUL")
		}
	}
	key := norm.NFC.String(q.Key)
	b := append([]byte{mode, byte(len(key))}, key...)
	return append(b, norm.NFC.String(text)...), nil
}

func timeOperand(when *Condition, where string) ([]byte, error) {
	from, until := int64(math.MinInt64), int64(math.MaxInt64)
	for _, t := range []struct {
		name string
		at   *time.Time
		to   *int64
	}{{"from", &when.From, &from}, {"until", &when.Until, &until}} {
		if t.at.IsZero() {
			continue
		}
		if err := checkTime(where+"."+t.name, *t.at); err != nil {
			return nil, err
		}
		*t.at = t.at.UTC().Truncate(time.Millisecond)
		*t.to = t.at.UnixMilli()
	}
	if from >= until {
		return nil, invalid(where, "from must be before until")
	}
	b := binary.LittleEndian.AppendUint64(nil, uint64(from))
	return binary.LittleEndian.AppendUint64(b, uint64(until)), nil
}

// assemble puts the parts together.
func (c *compiler) assemble() []byte {
	le := binary.LittleEndian
	b := append(make([]byte, 0, MaxLogic), version, c.gates)
	b = le.AppendUint16(b, uint16(c.required))
	b = append(b, 0, 0, c.budget, byte(c.rules))
	if c.Password != nil {
		b = c.Password.append(b)
	}
	if c.required&FactVisitor != 0 {
		b = append(b, c.Key[:]...)
	}
	if c.gates&gateValidFrom != 0 {
		b = le.AppendUint64(b, uint64(c.validFrom))
	}
	if c.gates&gateExpired != 0 {
		b = append(b, c.expired)
	}
	if c.gates&gateExhausted != 0 {
		b = append(b, c.exhausted)
	}
	b = append(b, c.logic...)
	le.PutUint16(b[4:], uint16(len(b)))
	b = append(b, byte(len(c.locations)))
	for _, l := range c.locations {
		b = le.AppendUint16(b, uint16(len(l)))
		b = append(b, l...)
	}
	return b
}
