package api

// LiveWorkspace is the data of the event `workspace` of the live stream. A client
// compares it with the last one, and loads its screen again when they differ.
type LiveWorkspace struct {
	Clicks     int64  `json:"clicks" minimum:"0" doc:"Clicks of all links of the workspace in all time."`
	NewestLink string `json:"newest_link" doc:"Id of the link that was created last; 0 without one."`
}
