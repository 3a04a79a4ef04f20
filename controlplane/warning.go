package controlplane

import (
	"fmt"

	"waypost"
	"waypost/controlplane/target"
)

// Warning is something that whoever makes a link should look at.
type Warning struct {
	Code    string // stays the same over time
	Message string
}

// The codes of warnings.
const (
	WarnLookalike    = "host-looks-like-another"
	WarnMixedScripts = "host-mixes-scripts"
)

// warningsOf gives what there is to say about a link's target.
func warningsOf(l *waypost.Link) []Warning {
	like, ok := target.LooksLikeAnother(l.Location)
	switch {
	case !ok:
		return nil
	case like.Looks != "":
		return []Warning{{WarnLookalike, fmt.Sprintf("the part %q of the host %q looks like %q, and is another name", like.Label, like.Host, like.Looks)}}
	}
	return []Warning{{WarnMixedScripts, fmt.Sprintf("the part %q of the host %q mixes letters of scripts that no language writes together", like.Label, like.Host)}}
}
