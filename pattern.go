package waypost

// Limits of a pattern. Its length and the number of its segments are bounded as they are
// for other codes.
const (
	MaxPlaceholders    = 8
	MaxPlaceholderName = 32     // bytes
	MaxPatterns        = 10_000 // of a domain
)

// Names in the target of a pattern, next to the names of its placeholders.
const (
	RestName    = "path"   // holds what the star stands for
	QueryPrefix = "query." // begins the name of each parameter of the visitor
)

// IsPattern reports whether a code is a pattern: the code of a link that leads from many
// addresses. A placeholder {name} stands for one segment, and a * at the end for any
// number of segments, also none. No other code holds these characters.
func IsPattern[T string | []byte](code T) bool {
	for i := range len(code) {
		if code[i] == '*' || code[i] == '{' {
			return true
		}
	}
	return false
}

// KindOf returns the kind of the record of a link with a code.
func KindOf[T string | []byte](code T) Kind {
	if IsPattern(code) {
		return KindPattern
	}
	return KindLink
}

// The faults of patterns, next to the faults of their literal segments.
const (
	FaultStar         = "has a * that is not its whole last segment"
	FaultPlaceholder  = "has a brace that belongs to no placeholder: a placeholder such as {name} is a whole segment, and its name has 1 to 32 of a-z, 0-9 and _, with no digit first"
	FaultPlaceholders = "has more than 8 placeholders"
	FaultRepeated     = "has two placeholders of one name"
	FaultRestName     = "has a placeholder {path}, which is the name of the part that a * holds"
)

// CheckPattern returns the reason why a text is no pattern, or no fault. It does not
// allocate.
func CheckPattern[T string | []byte](s T) CodeFault {
	if len(s) < MinCodeLength || len(s) > MaxCodeLength {
		return CodeFault{Reason: FaultLength}
	}
	var names [MaxPlaceholders]T
	placeholders := 0
	for segments, at := 1, 0; ; segments++ {
		end := at
		for end < len(s) && s[end] != '/' {
			end++
		}
		segment := s[at:end]
		switch {
		case segments > MaxCodeSegments:
			return CodeFault{Reason: FaultSegments}
		case len(segment) == 0:
			return CodeFault{Reason: FaultEmpty}
		case len(segment) == 1 && segment[0] == '*':
			if end < len(s) {
				return CodeFault{Reason: FaultStar}
			}
		case segment[0] == '{':
			if !isPlaceholder(segment) {
				return CodeFault{Reason: FaultPlaceholder}
			}
			if placeholders == MaxPlaceholders {
				return CodeFault{Reason: FaultPlaceholders}
			}
			for _, earlier := range names[:placeholders] {
				if sameText(earlier, segment) {
					return CodeFault{Reason: FaultRepeated}
				}
			}
			if sameText(segment, T("{"+RestName+"}")) {
				return CodeFault{Reason: FaultRestName}
			}
			names[placeholders] = segment
			placeholders++
		default:
			if fault := checkLiteral(segment); fault.Reason != "" {
				return fault
			}
		}
		if end == len(s) {
			if !IsPattern(s) {
				return CodeFault{Reason: FaultPlaceholder}
			}
			return CodeFault{}
		}
		at = end + 1
	}
}

func checkLiteral[T string | []byte](segment T) CodeFault {
	for i := range len(segment) {
		switch segment[i] {
		case '*':
			return CodeFault{Reason: FaultStar}
		case '{', '}':
			return CodeFault{Reason: FaultPlaceholder}
		}
	}
	_, fault := CheckCode(segment)
	return fault
}

// isPlaceholder reports whether a segment that begins with a brace is a placeholder.
func isPlaceholder[T string | []byte](segment T) bool {
	n := len(segment) - len("{}")
	if n < 1 || n > MaxPlaceholderName || segment[n+1] != '}' {
		return false
	}
	for i := 1; i <= n; i++ {
		c := segment[i]
		if (c < 'a' || c > 'z') && c != '_' && (i == 1 || c < '0' || c > '9') {
			return false
		}
	}
	return true
}

func sameText[T string | []byte](a, b T) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
