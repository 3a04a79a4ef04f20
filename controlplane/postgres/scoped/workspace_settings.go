package scoped

import (
	"encoding/json"
	"slices"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
)

// ReadSettings takes the valid settings, because settings may have been changed by hand,
// and defaults for the others.
func ReadSettings(text string, sample int) api.WorkspaceSettings {
	s := api.WorkspaceSettings{Events: controlplane.EventModes()[0], EventsSample: sample, TimeZone: "UTC"}
	var all map[string]json.RawMessage
	_ = json.Unmarshal([]byte(text), &all) // jsonb; any other value than an object sets nothing
	var dedupe bool
	if json.Unmarshal(all["dedupe"], &dedupe) == nil {
		s.Dedupe = dedupe
	}
	var events string
	if json.Unmarshal(all["events"], &events) == nil && slices.Contains(controlplane.EventModes(), events) {
		s.Events = events
	}
	var utm bool
	if json.Unmarshal(all["utm"], &utm) == nil {
		s.UTM = utm
	}
	var templates []api.UTMTemplate
	if json.Unmarshal(all["utm_templates"], &templates) == nil {
		s.UTMTemplates = templates
	}
	var zone string
	if json.Unmarshal(all["time_zone"], &zone) == nil {
		if _, ok := waypost.LoadZone(zone); ok {
			s.TimeZone = zone
		}
	}
	var own int
	if json.Unmarshal(all["events_sample"], &own) == nil && own >= 1 && own <= controlplane.MaxEventsSample {
		s.EventsSample = own
	}
	return s
}

// CountsUTM returns the condition that a workspace counts utm parameters. id is the SQL
// of the workspace's id, with the names of tables; w.id in it stands for any workspace.
func CountsUTM(id string) string {
	return `EXISTS (SELECT FROM workspace w WHERE w.id = ` + id + ` AND w.deleted_at IS NULL AND w.settings -> 'utm' = 'true')`
}
